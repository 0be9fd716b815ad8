//! Whether the loops of a process are alive: none has died, and none waits without success while Redis answers the others.
//!
//! A restart does not help while Redis is away, so a waiting loop alone proves nothing. A loop hangs if the same Redis
//! has promptly answered other loops of this process for as long as it has waited. In a cluster, the same Redis is the
//! server that holds the same queue.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::broker::Error;
use crate::broker::mutex::lock;
use crate::job::QueueName;

/// A loop that waits for longer than this hangs. By then, a broken connection has been replaced, and so has a broken client.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long Redis counts as in contact after an answer: the heartbeat, which always asks, may miss one of its turns of 5 s.
const CONTACT: Duration = Duration::from_secs(12);

/// A slower answer proves nothing: what is slow for one loop is too slow for another.
const PROMPT: Duration = Duration::from_secs(1);

/// The most dead tasks that are reported.
const DEAD_MAX: usize = 8;

/// Tracks whether the loops of one process are alive. Clones share its state.
#[derive(Clone)]
pub(crate) struct Liveness {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Instant,
    /// Contact with any server.
    contact: Arc<Contact>,
    /// In a cluster, contact with the server that holds each queue, or, for `None`, with the one for what belongs to no queue.
    places: Option<Mutex<BTreeMap<Option<QueueName>, Arc<Contact>>>>,
    /// How long Redis counts as in contact after an answer, in ms.
    contact_ms: AtomicU64,
    monitors: Mutex<Vec<Monitor>>,
    dead: Mutex<Vec<String>>,
}

/// When Redis answered, in ms of the process's clock; 0 for never.
#[derive(Debug, Default)]
struct Contact {
    /// Since when it has answered promptly without a gap. Written before `prompt`, read after it.
    since: AtomicU64,
    prompt: AtomicU64,
    any: AtomicU64,
}

/// A loop that queries Redis over a connection. Clones share its state.
#[derive(Clone)]
pub(crate) struct Monitor {
    state: Arc<MonitorState>,
    shared: Arc<Shared>,
}

struct MonitorState {
    what: String,
    /// The contact with the server that it talks to.
    contact: Arc<Contact>,
    /// Since when it has been waiting for an answer, in ms of the process's clock; 0 while it is not waiting.
    waiting_since: AtomicU64,
    /// When the answer should have arrived.
    due: AtomicU64,
}

impl Liveness {
    /// Creates the liveness of a process that works with a single Redis, or with a cluster.
    pub(crate) fn new(is_clustered: bool) -> Self {
        let shared = Shared {
            clock: Instant::now(),
            contact: Arc::default(),
            places: is_clustered.then(Mutex::default),
            contact_ms: AtomicU64::new(ms(CONTACT)),
            monitors: Mutex::default(),
            dead: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Registers a loop, such as `the reader`, that queries Redis about a queue, or about what belongs to no queue.
    pub(crate) fn monitor(&self, who: &str, queue: Option<&QueueName>) -> Monitor {
        let what = queue.map_or_else(|| who.to_owned(), |queue| format!("{who} of {queue}"));
        let contact = match &self.shared.places {
            Some(places) => Arc::clone(lock(places).entry(queue.cloned()).or_default()),
            None => Arc::clone(&self.shared.contact),
        };
        let state = Arc::new(MonitorState {
            what,
            contact,
            waiting_since: AtomicU64::new(0),
            due: AtomicU64::new(0),
        });
        let monitor = Monitor { state, shared: Arc::clone(&self.shared) };
        lock(&self.shared.monitors).push(monitor.clone());
        monitor
    }

    /// Runs a task that must not die. If it panics, it ends, and [`Liveness::failures`] reports it.
    pub(crate) fn watch<F: Future<Output = ()>>(
        &self,
        what: String,
        task: F,
    ) -> impl Future<Output = ()> + use<F> {
        let liveness = self.clone();
        async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                liveness.died(what);
            }
        }
    }

    /// Notes the death of a task that must not die.
    pub(crate) fn died(&self, what: String) {
        tracing::error!(what, "a loop of this process has died; restart the process");
        let mut dead = lock(&self.shared.dead);
        if dead.len() < DEAD_MAX {
            dead.push(what);
        }
    }

    /// Returns everything that only a restart would fix, in words; empty while all is well.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut all: Vec<String> =
            lock(&self.shared.dead).iter().map(|what| format!("{what} has died")).collect();
        let now = self.shared.now_ms();
        for monitor in &*lock(&self.shared.monitors) {
            let waiting_since = monitor.state.waiting_since.load(Ordering::Acquire);
            if let Some(waited) = monitor.state.contact.waited_too_long(waiting_since, now) {
                let (what, seconds) = (&monitor.state.what, waited.as_secs());
                all.push(format!(
                    "{what} has waited {seconds} s for an answer, while redis answers other requests"
                ));
            }
        }
        all
    }

    /// Returns true if Redis has answered anybody recently.
    pub(crate) fn in_contact(&self) -> bool {
        let within = self.shared.contact_ms.load(Ordering::Relaxed);
        self.shared.contact.is_recent(self.shared.now_ms(), within)
    }

    /// Sets the time within which something is answered while all is well. One of many workers asks rarely.
    pub(crate) fn expect_answers_within(&self, longest: Duration) {
        self.shared.contact_ms.store(ms(longest.max(CONTACT)), Ordering::Relaxed);
    }
}

impl Shared {
    /// Returns the process's clock in ms, which is never 0.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Contact {
    fn record_answer(&self, took: Duration, now: u64) {
        self.any.store(now, Ordering::Release);
        if took > PROMPT {
            return;
        }
        let last = self.prompt.load(Ordering::Acquire);
        if last == 0 || now.saturating_sub(last) > ms(CONTACT) {
            self.since.store(now, Ordering::Release);
        }
        self.prompt.store(now, Ordering::Release);
    }

    fn is_recent(&self, now: u64, within: u64) -> bool {
        let any = self.any.load(Ordering::Acquire);
        any > 0 && now.saturating_sub(any) <= within
    }

    /// Returns how long somebody has waited while Redis answered others, if that is too long.
    fn waited_too_long(&self, waiting_since: u64, now: u64) -> Option<Duration> {
        let prompt = self.prompt.load(Ordering::Acquire);
        let since = self.since.load(Ordering::Acquire);
        if waiting_since == 0 || prompt == 0 || now.saturating_sub(prompt) > ms(CONTACT) {
            return None;
        }
        let waited = Duration::from_millis(now.saturating_sub(waiting_since.max(since)));
        (waited > PATIENCE).then_some(waited)
    }
}

impl Monitor {
    /// Sends a command, and notes what comes of it. `slack` is how long the answer may take even if Redis is prompt.
    pub(crate) async fn ask<T>(
        &self,
        slack: Duration,
        command: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let asked = Instant::now();
        // A loop that is already waiting has waited since then.
        let now = self.shared.now_ms();
        if self.state.waiting_since.load(Ordering::Acquire) == 0 {
            self.state.due.store(now + ms(slack), Ordering::Release);
            self.state.waiting_since.store(now, Ordering::Release);
        }
        let result = command.await;
        match &result {
            Ok(_) => {
                self.idle();
                self.record_answer(asked.elapsed().saturating_sub(slack));
            }
            Err(Error::Unknown { .. }) => {}
            // Redis refuses, or there is no connection: a restart would not change that.
            Err(_) => self.idle(),
        }
        result
    }

    /// Notes an answer to something other than the loop's own command.
    pub(crate) fn note_answer(&self) {
        self.record_answer(Duration::ZERO);
    }

    fn record_answer(&self, took: Duration) {
        let now = self.shared.now_ms();
        self.state.contact.record_answer(took, now);
        if !Arc::ptr_eq(&self.state.contact, &self.shared.contact) {
            self.shared.contact.record_answer(took, now);
        }
    }

    /// Returns true if some loop has waited too long for the server that this monitor talks to, so that it matters
    /// whether this one gets an answer.
    pub(crate) fn has_late_peer(&self) -> bool {
        let now = self.shared.now_ms();
        let late = |state: &MonitorState| {
            state.waiting_since.load(Ordering::Acquire) > 0
                && state.due.load(Ordering::Acquire) + ms(PROMPT) < now
        };
        let peers = |monitor: &&Self| Arc::ptr_eq(&monitor.state.contact, &self.state.contact);
        lock(&self.shared.monitors).iter().filter(peers).any(|monitor| late(&monitor.state))
    }

    /// Notes that the loop has a reason not to ask.
    pub(crate) fn idle(&self) {
        self.state.waiting_since.store(0, Ordering::Release);
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(3);

    /// Answers every 5 s from `from` to `to`, in seconds.
    fn contact(spans: &[(u64, u64)]) -> Contact {
        let contact = Contact::default();
        for (from, to) in spans {
            (*from..=*to).step_by(5).for_each(|second| contact.record_answer(QUICK, second * 1000));
        }
        contact
    }

    fn waited_too_long(contact: &Contact, waits: u64, now: u64) -> Option<u64> {
        contact.waited_too_long(waits * 1000, now * 1000).map(|waited| waited.as_secs())
    }

    #[test]
    fn a_loop_that_waits_while_redis_answers_others_hangs() {
        let contact = contact(&[(5, 100)]);
        assert_eq!(waited_too_long(&contact, 75, 100), None);
        assert_eq!(waited_too_long(&contact, 74, 100), Some(26));
        assert_eq!(waited_too_long(&contact, 0, 100), None, "who does not ask does not wait");
    }

    #[test]
    fn an_outage_fails_no_loop_during_or_after_it() {
        let contact = contact(&[(5, 100)]);
        assert_eq!(waited_too_long(&contact, 90, 113), None);
        assert_eq!(waited_too_long(&contact, 90, 10_000), None);
        contact.record_answer(QUICK, 10_000_000);
        assert_eq!(waited_too_long(&contact, 90, 10_001), None);
        (10_000..10_030).step_by(5).for_each(|second| contact.record_answer(QUICK, second * 1000));
        assert_eq!(waited_too_long(&contact, 90, 10_026), Some(26), "but now redis is there again");
    }

    #[test]
    fn slow_answers_prove_nothing() {
        let contact = contact(&[(5, 50)]);
        (50..100).for_each(|second| contact.record_answer(2 * PROMPT, second * 1000));
        assert_eq!(waited_too_long(&contact, 40, 99), None);
        assert!(contact.is_recent(99_000, ms(CONTACT)));
    }

    #[test]
    fn occasional_missing_answers_do_not_hide_a_hanging_loop() {
        let contact = contact(&[(5, 40), (50, 60), (70, 100)]);
        assert_eq!(waited_too_long(&contact, 70, 100), Some(30));
    }

    #[tokio::test]
    async fn a_task_that_panics_is_reported_and_one_that_ends_is_not() {
        let liveness = Liveness::new(false);
        liveness.watch("the one".to_owned(), async {}).await;
        assert_eq!(liveness.failures(), Vec::<String>::new());
        liveness.watch("the other".to_owned(), async { panic!("on purpose") }).await;
        assert_eq!(liveness.failures(), ["the other has died"]);
    }

    #[tokio::test]
    async fn only_silence_keeps_a_line_waiting() {
        let liveness = Liveness::new(false);
        let monitor = liveness.monitor("a monitor", None);
        let is_waiting = || monitor.state.waiting_since.load(Ordering::Acquire) > 0;
        let silence = || Err::<(), _>(Error::Unknown { command: "ping", detail: "late".to_owned() });
        monitor.ask(Duration::ZERO, async { silence() }).await.unwrap_err();
        assert!(is_waiting() && !liveness.in_contact());
        monitor
            .ask(Duration::ZERO, async { Err::<(), _>(Error::Unreachable(String::new())) })
            .await
            .unwrap_err();
        assert!(!is_waiting() && !liveness.in_contact());
        monitor.ask(Duration::ZERO, async { silence() }).await.unwrap_err();
        monitor.ask(Duration::ZERO, async { Ok(()) }).await.unwrap();
        assert!(!is_waiting() && liveness.in_contact());
    }
    #[tokio::test]
    async fn in_a_cluster_an_answer_about_another_queue_proves_nothing() {
        let liveness = Liveness::new(true);
        let (mail, news) = ("mail".parse().unwrap(), "news".parse().unwrap());
        let [reader, settler] = ["the reader", "the settler"].map(|who| liveness.monitor(who, Some(&mail)));
        let other = liveness.monitor("the reader", Some(&news));
        reader.state.waiting_since.store(1, Ordering::Release);
        let hangs = |contact: &Contact| contact.waited_too_long(1, 40_000).is_some();
        let answered = |monitor: &Monitor| {
            (2..40).for_each(|second| monitor.state.contact.record_answer(QUICK, second * 1000));
        };
        answered(&other);
        assert!(!hangs(&reader.state.contact) && hangs(&other.state.contact));
        assert!(!other.has_late_peer());
        answered(&settler);
        assert!(hangs(&reader.state.contact));
        other.note_answer();
        assert!(liveness.in_contact(), "with a part of the cluster");
    }
}
