//! What one process knows about the gates of a queue: the rules, and the places that its attempts have held and must give
//! back. Redis decides who passes; see [`StartChecker`](super::start_checker::StartChecker).
//!
//! Before anything is started, the rules are checked, unless that was done a moment ago. So a change is followed within a
//! second, and an idle worker asks nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::backoff::RedisBackoff;
use super::delivery::{Delivery, FinishedAttempt, SettlerInput};
use super::dispatcher::Dispatcher;
use super::lease::EntryKey;
use super::outbox::Outbox;
use super::refused_waitlists::RefusedWaitlists;
use super::rules_check::RulesCheck;
use crate::broker::mutex::lock;
use crate::broker::{AttemptEnd, Error, GateNews, HeldPlace, Link, MAX_GIVEN_BACK, MAX_WAITLISTS, Queue};
use crate::event::Events;
use crate::job::{FairShare, GateName, Limits, Outcome, Rules};

/// Rules that were checked longer ago than this are checked again before anything starts.
pub(crate) const FRESH_FOR: Duration = Duration::from_millis(400);

/// After Redis has refused to tell the rules, they are not read again for this long.
const PAUSE: Duration = Duration::from_secs(2);

/// The most places that wait to be given back. Beyond that, Redis finds out by itself that entries have ended.
const MAX_WAITING: usize = 100_000;

/// While more jobs than this wait in the waiting list of the queue's own gate, only those that it lets pass are read …
const CROWDED: u64 = 200;

/// … until so few wait.
const SPARSE: u64 = 100;

/// What one process knows about the gates of one queue.
pub(crate) struct Admission {
    queue: Queue,
    events: Events,
    /// The limits of this process's configuration.
    limits: Vec<(GateName, Limits)>,
    /// How this process's configuration shares the queue, if it does.
    fair: Option<FairShare>,
    known: RwLock<Arc<Known>>,
    /// Whether some jobs have to pass gates.
    asks: AtomicBool,
    /// Whether more wait for the queue's own gate than should be read.
    crowded: AtomicBool,
    pub(crate) check: Arc<RulesCheck>,
    /// Whether the rules have changed since they were read.
    stale: AtomicBool,
    /// The places that Redis has not said to have taken back, in the order in which attempts left them.
    given_back: Mutex<VecDeque<HeldPlace>>,
    pub(crate) refused_waitlists: RefusedWaitlists,
    /// Held while the rules are checked for attempts that have waited.
    checking: tokio::sync::Mutex<()>,
    /// Notified when there is something to do for [`Admission::tend`].
    news: Notify,
    /// Notified when rules were read, for [`Admission::until_shared`].
    learned: Notify,
}

/// The rules, as they were read.
#[derive(Debug, Default)]
struct Known {
    rules: Rules,
    /// When the queue opens by itself, if it is closed for a time.
    opens: Option<Instant>,
    /// When Redis refused to tell them.
    failed: Option<Instant>,
}

impl Admission {
    /// Creates the view of a process with these limits, and this share, that has not read the rules.
    pub(crate) fn new(
        queue: Queue,
        events: Events,
        (limits, fair): (Vec<(GateName, Limits)>, Option<FairShare>),
    ) -> Self {
        Self {
            queue,
            events,
            limits,
            fair,
            known: RwLock::default(),
            asks: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            check: Arc::new(RulesCheck::new()),
            stale: AtomicBool::new(false),
            given_back: Mutex::default(),
            refused_waitlists: RefusedWaitlists::default(),
            checking: tokio::sync::Mutex::default(),
            news: Notify::new(),
            learned: Notify::new(),
        }
    }

    /// Notes the limits of this process's configuration in Redis, and reads the rules of all.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer now. If it refuses for its own reasons, that is reported. If nobody can read the
    /// rules, there are those of this process's configuration: their jobs must ask, and wait.
    pub(crate) async fn begin(&self) -> Result<(), Error> {
        let noted = self.configure().await;
        let read = self.read().await;
        let is_unknown = read.is_err();
        for answer in [noted, read] {
            match answer {
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => self.report(&error),
                Ok(()) => {}
            }
        }
        if is_unknown {
            let rules = Rules::configured(&self.limits);
            self.know(Known { rules, opens: None, failed: Some(Instant::now()) });
        }
        Ok(())
    }

    /// Notes the limits once more, because the queue's keys were lost, and reads the rules.
    pub(crate) async fn restore(&self) {
        if let Err(error) = self.configure().await {
            self.report(&error);
        }
        self.read_or_report().await;
    }

    async fn configure(&self) -> Result<(), Error> {
        self.queue.gates().configure(&self.limits, self.fair.as_ref()).await.map(drop)
    }

    async fn read(&self) -> Result<(), Error> {
        let mut asked = Instant::now();
        let mut rules = self.queue.gates().rules().await?;
        let has_own = self.fair.is_some() || self.limits.iter().any(|(_, limits)| !limits.is_empty());
        if rules.revision() == 0 && has_own {
            // The key was lost, and with it the limits of all.
            self.configure().await?;
            asked = Instant::now();
            rules = self.queue.gates().rules().await?;
        }
        if let Some((gate, rules)) = rules.ignored() {
            tracing::warn!(queue = %self.queue.name(), %gate, rules, "the gates depend on too many fields of jobs; some rules are ignored");
        }
        let opens = rules.opens_in().map(|time| asked + time);
        self.check.note_checked();
        self.know(Known { rules, opens, failed: None });
        self.news.notify_one();
        Ok(())
    }

    fn know(&self, known: Known) {
        self.asks.store(!known.rules.ask_nobody(), Ordering::Release);
        let revision = known.rules.revision();
        let mut slot = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *slot, Arc::new(known));
        drop(slot);
        if old.rules.revision() != revision {
            self.check.note_change();
        }
        self.learned.notify_one();
    }

    /// Waits until the queue is shared between the values of a field. One task may wait.
    pub(crate) async fn until_shared(&self) {
        while self.known().rules.fair().is_none() {
            self.learned.notified().await;
        }
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what was learned while something else was asked. Returns true if the rules have changed.
    pub(crate) fn note(&self, news: GateNews) -> bool {
        let was_crowded = self.crowded.load(Ordering::Relaxed);
        let limit = if was_crowded { SPARSE } else { CROWDED };
        self.crowded.store(news.waiting > limit, Ordering::Relaxed);
        self.check.note_checked();
        let known = self.known();
        news.revision.is_none_or(|revision| revision != known.rules.revision())
            && known.failed.is_none_or(|failed| failed.elapsed() >= PAUSE)
    }

    /// Notes what was learned, and has the rules read soon if they have changed.
    pub(crate) fn note_news(&self, news: GateNews) {
        if self.note(news) {
            self.stale.store(true, Ordering::Release);
            self.news.notify_one();
        }
    }

    /// Checks the rules now, unless that was done a moment ago. Returns false if Redis does not answer.
    pub(crate) async fn refresh(&self, link: &Link) -> bool {
        if self.check.is_within(FRESH_FOR, Instant::now()) {
            return true;
        }
        match self.queue.cancel_requests(link, &[]).await {
            Ok((_, news)) => {
                if self.note(news) {
                    self.read_or_report().await;
                }
                true
            }
            Err(error) => {
                self.report(&error);
                // What Redis refuses for its own reasons holds up nothing.
                if !error.is_transient() {
                    self.check.note_checked();
                }
                false
            }
        }
    }

    /// Checks the rules before an attempt starts that has waited. Those that ask at once wait for one check. Returns false if Redis
    /// does not answer now.
    pub(crate) async fn recheck(&self) -> bool {
        let _turn = self.checking.lock().await;
        self.refresh(self.queue.link()).await || self.check.is_within(FRESH_FOR, Instant::now())
    }

    /// Reads the rules. If they cannot be read, those that are known stay.
    async fn read_or_report(&self) {
        if let Err(error) = self.read().await {
            self.report(&error);
            let old = self.known();
            // An answer that was lost is asked for again at once.
            let failed = (!error.is_transient()).then(Instant::now);
            self.know(Known { rules: old.rules.clone(), opens: old.opens, failed });
        }
    }

    fn report(&self, error: &Error) {
        self.events.redis_error(error.kind(), error);
    }

    /// Returns true while the whole queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        let known = self.known();
        known.rules.closed().is_some() && known.opens.is_none_or(|opens| Instant::now() < opens)
    }

    /// Returns true while so many jobs wait for the queue's own gate that no others need be read.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// Returns the gates that a job has to pass: usually none, which costs nothing.
    pub(crate) fn gates_of(&self, delivery: &Delivery) -> Arc<[GateName]> {
        if !self.asks.load(Ordering::Acquire) {
            return Arc::default();
        }
        self.known().rules.gates_of(&delivery.job, &delivery.envelope).into()
    }

    /// Notes that an attempt has ended, so that the places which it held are given back: Redis has recorded its end, or
    /// refuses to, and no handler of it runs any more.
    pub(crate) fn leave(&self, finished: &FinishedAttempt) {
        let FinishedAttempt { delivery, outcome, .. } = finished;
        let gates = delivery.gates();
        // If it never asked, a waiting list may still have let it out with its places.
        let ends_unasked = matches!(
            outcome,
            Outcome::Interrupted
                | Outcome::NotDue(_)
                | Outcome::Unroutable
                | Outcome::Invalid(_)
                | Outcome::Cancelled
        );
        if gates.is_empty() && ends_unasked {
            self.note_given_back(delivery, self.gates_of(delivery).to_vec(), AttemptEnd::Unstarted);
        } else {
            self.note_given_back(delivery, gates, finished.end());
        }
    }

    /// Notes that Redis does not let a delivery begin, so that the places which it took are given back. It must not ask again
    /// while [they are](Self::is_giving_back): it would start in a place that is about to be free.
    pub(crate) fn leave_unstarted(&self, delivery: &Delivery) {
        self.note_given_back(delivery, delivery.gates(), AttemptEnd::Unstarted);
    }

    fn note_given_back(&self, delivery: &Delivery, gates: Vec<GateName>, end: AttemptEnd) {
        if gates.is_empty() {
            return;
        }
        let (known, entry) = (self.known(), delivery.key());
        let places = gates.into_iter().map(|gate| HeldPlace::new(gate, entry, end, &known.rules));
        let mut given_back = lock(&self.given_back);
        let left = MAX_WAITING.saturating_sub(given_back.len());
        given_back.extend(places.take(left));
        drop(given_back);
        self.news.notify_one();
    }

    /// Returns true while Redis has not said that it has taken back what this entry held.
    pub(crate) fn is_giving_back(&self, entry: EntryKey) -> bool {
        lock(&self.given_back).iter().any(|place| place.entry == entry)
    }

    /// Gives back places, lets those in who wait for them, reads rules that have changed, and returns what has not started
    /// when the queue is closed. Runs until it is dropped.
    pub(crate) async fn tend(self: Arc<Self>, dispatcher: Arc<Dispatcher>, outbox: Arc<Outbox>) {
        let mut backoff = RedisBackoff::new();
        loop {
            self.news.notified().await;
            if self.stale.swap(false, Ordering::AcqRel) {
                self.read_or_report().await;
            }
            if self.is_closed() {
                for delivery in dispatcher.withdraw(|_| true) {
                    outbox.push_now(SettlerInput::not_run(delivery, Outcome::Interrupted));
                }
            }
            match self.give_back().await {
                Ok(()) => backoff = RedisBackoff::new(),
                Err(error) => {
                    self.report(&error);
                    // What Redis refuses because of one key delays no other gate.
                    if error.is_transient() {
                        backoff.wait(&error).await;
                    }
                }
            }
        }
    }

    /// Gives back all places that attempts have held. What Redis does not answer stays noted, to be sent again: that does no
    /// harm, because nobody asks for a place in the meantime. What Redis refuses keeps none of the others. Returns the last
    /// error. Only one task may do this at a time.
    pub(crate) async fn give_back(&self) -> Result<(), Error> {
        let mut failed = Ok(());
        loop {
            let places: Vec<HeldPlace> =
                lock(&self.given_back).iter().take(MAX_GIVEN_BACK).cloned().collect();
            if places.is_empty() {
                return failed;
            }
            let mut waitlists: Vec<String> = places.iter().map(|place| place.gate.to_string()).collect();
            waitlists.sort_unstable();
            waitlists.dedup();
            let mut unsent = &places[..];
            for waitlists in waitlists.chunks(MAX_WAITLISTS) {
                match self.queue.drain(std::mem::take(&mut unsent), waitlists).await {
                    Ok(drained) => failed = drained.failed.map_or(failed, Err),
                    Err(error) if error.is_transient() => {
                        // They are sent again after a pause.
                        self.news.notify_one();
                        return Err(error);
                    }
                    Err(error) => failed = Err(error),
                }
            }
            lock(&self.given_back).drain(..places.len());
        }
    }
}
