//! Keeps the leases of what this process holds, cancels jobs and drains on request, and reports that the process is alive. It has
//! its own thread, runtime and connection, so that a handler that blocks the worker's threads cannot starve it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::clock::ServerClock;
use super::delivery::Delivery;
use super::duty::Duty;
use super::joined_queue::{JoinedQueue, JoinedQueues};
use super::lease::EntryKey;
use super::type_waitlists::Question;
use crate::broker::{Broker, Error, Link, Requested, Role, RunningAttempt, attempts_text};
use crate::event::{Event, Events, QueueEvent, RedisEvent};
use crate::health::{Liveness, Monitor};
use crate::job::{ConsumerName, EntryId, Generation, Lane, Lease, Outcome, Pacing, jittered};
use crate::sabotage::{self, Sabotage};

/// How often a worker checks whether there is something to report: that it is alive, or what it is running.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// How often to ask what should be cancelled, while something is held.
const CANCEL_EVERY: Duration = Duration::from_millis(400);

/// The least time to wait for an answer, however short the lease.
const MIN_TIMEOUT: Duration = Duration::from_millis(250);

/// When the heartbeat last did each of its tasks.
#[derive(Debug, Default)]
struct LastRound {
    cancels_checked: Option<Instant>,
    report_checked: Option<Instant>,
    reported: Option<Instant>,
    /// How long after a report the next one follows if nothing changes.
    report_again_after: Duration,
    /// How long the worker counts as alive after that report.
    alive_for: Duration,
    /// What was reported then.
    facts: BeatFields,
    /// How many queues there were in the last round.
    queues: usize,
}

/// What one connection beats for.
enum Beat {
    /// All queues, and the worker's report about itself.
    All,
    /// One queue.
    Queue(Arc<JoinedQueue>),
    /// The worker's report about itself.
    Report,
}

impl Beat {
    /// Returns those of all queues that it is for.
    fn queues(&self, all: &JoinedQueues) -> JoinedQueues {
        match self {
            Self::All => all.clone(),
            Self::Queue(joined) => vec![Arc::clone(joined)],
            Self::Report => Vec::new(),
        }
    }

    /// Returns true if it reports what the worker does.
    fn reports(&self) -> bool {
        matches!(self, Self::All | Self::Report)
    }
}

/// Describes a worker that has joined these queues.
pub(crate) type DescribeWorker = dyn Fn(&[Arc<JoinedQueue>]) -> BeatFields + Send;

/// What a worker reports about itself.
pub(crate) type BeatFields = Vec<(&'static str, String)>;

/// The heartbeat of one process.
pub(crate) struct Heartbeat {
    pub(crate) broker: Broker,
    pub(crate) consumer: ConsumerName,
    pub(crate) queues: watch::Receiver<JoinedQueues>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) events: Events,
    pub(crate) describe: Box<DescribeWorker>,
    pub(crate) duty: Arc<Duty>,
    pub(crate) started: Instant,
    pub(crate) monitor: Monitor,
    pub(crate) liveness: Liveness,
    pub(crate) stop: CancellationToken,
}

impl Heartbeat {
    /// Starts the thread, which ends soon after `stop`.
    ///
    /// # Errors
    ///
    /// The error of the system if it cannot start a thread.
    pub(crate) fn start(self) -> std::io::Result<std::thread::JoinHandle<()>> {
        std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(self.liveness.clone().watch("the heartbeat".to_owned(), self.run()));
                }
                Err(error) => {
                    tracing::error!(%error, "the heartbeat has no runtime; leases will be lost");
                    self.liveness.died("the heartbeat".to_owned());
                }
            }
        })
    }

    async fn run(self) {
        let mut changes = self.queues.clone();
        // Dropping the others leaves nothing half done.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = async {
                // A process that has joined no queue has nothing to report. If nobody can join any more, the process is
                // stopping, which is no error.
                if changes.wait_for(|queues| !queues.is_empty()).await.is_ok() {
                    tokio::join!(self.watch(), self.beat_everywhere());
                }
            } => {}
        }
    }

    /// Watches the leases without Redis, and is never held up by it: what is silent for too long must end whether or
    /// not Redis answers. But if this process itself was frozen, Redis is asked first.
    async fn watch(&self) {
        let mut changes = self.queues.clone();
        let (mut checked, mut spared_until, mut was_frozen) = (Instant::now(), Instant::now(), false);
        loop {
            let queues = changes.borrow_and_update().clone();
            let (lease, now) = (shortest_lease(&queues), Instant::now());
            // Only once: a process that gets hardly any time must give up in the end.
            let again = std::mem::replace(&mut was_frozen, now - checked > lease / 10);
            if was_frozen && !again {
                spared_until = now + answer_timeout(lease);
            }
            checked = now;
            for joined in &queues {
                let held = joined.held_leases.snapshot();
                if now >= spared_until {
                    self.expire_leases(joined, &held, now);
                }
                let elapsed = held.iter().map(|(_, delivery)| delivery.held_lease.running(now)).max();
                let (queue, elapsed) = (joined.queue.name(), elapsed.unwrap_or_default());
                self.events.of_queue(queue, QueueEvent::LongestRun { elapsed });
            }
            wait_until(now + lease / 20, &mut changes).await;
        }
    }

    /// Beats for all queues. A single Redis gets one beat. In a cluster, each server may be away, so each queue has its
    /// own beat and connection, and so has the worker's report about itself. Whichever server does not answer, the
    /// leases on the others are kept.
    async fn beat_everywhere(&self) {
        if !self.broker.is_clustered() {
            return self.beat(Beat::All).await;
        }
        let (mut changes, mut begun) = (self.queues.clone(), 0);
        let mut beats = FuturesUnordered::new();
        beats.push(self.beat(Beat::Report));
        loop {
            let queues = changes.borrow_and_update().clone();
            beats.extend(queues[begun..].iter().map(|joined| self.beat(Beat::Queue(Arc::clone(joined)))));
            begun = queues.len();
            tokio::select! {
                // None of them ends.
                _ = beats.next() => {}
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// Renews and reports. Before the lease is given up, there is time for a renewal to fail, for a new connection, and
    /// for a second one.
    async fn beat(&self, of: Beat) {
        let mut changes = self.queues.clone();
        let (mut link, mut last, mut connected) = (None, LastRound::default(), false);
        loop {
            let all = changes.borrow_and_update().clone();
            let queues = of.queues(&all);
            let lease = shortest_lease(if queues.is_empty() { &all } else { &queues });
            let (begun, timeout) = (Instant::now(), answer_timeout(lease));
            if link.is_none() {
                link = self.connect((&of, &queues), (lease / 6).max(MIN_TIMEOUT)).await;
                if link.is_some() && std::mem::replace(&mut connected, true) {
                    self.events.emit(&Event::Redis(RedisEvent::Reconnected { times: 1 }));
                }
            }
            let asked = Instant::now();
            if let Some(open) = &link
                && tokio::time::timeout(timeout, self.round((&of, &queues, &all), open, &mut last)).await.is_err()
                // If this process was frozen, the answer may have arrived without being looked at.
                && asked.elapsed() < 2 * timeout
            {
                tracing::warn!("the heartbeat was not answered in time; reconnecting");
                self.events.emit(&Event::Redis(RedisEvent::Contact { alive: false }));
                link = None;
                // There is no time to lose for what was not renewed.
                continue;
            }
            wait_until(begun + Lease::of(lease).check_every(), &mut changes).await;
        }
    }

    async fn round(
        &self,
        (of, queues, all): (&Beat, &JoinedQueues, &JoinedQueues),
        link: &Link,
        last: &mut LastRound,
    ) {
        join_all(queues.iter().map(|joined| self.renew(link, joined))).await;
        if is_due(&mut last.cancels_checked, CANCEL_EVERY) {
            join_all(queues.iter().map(|joined| self.cancel_requested(link, joined))).await;
        }
        join_all(queues.iter().map(|joined| self.find_waitlists(link, joined))).await;
        let (mut check_every, mut report_after) = (REPORT_EVERY, last.report_again_after);
        if self.duty.is_draining() {
            queues.iter().for_each(|joined| joined.withdraw(|_| true, &Outcome::Interrupted));
            // Somebody waits for what it says, and may resume it.
            (check_every, report_after) = (CANCEL_EVERY, report_after.min(REPORT_EVERY));
        }
        let pacing = all.iter().map(|joined| joined.health.pacing()).max().unwrap_or(Pacing::of(1));
        self.liveness.expect_answers_within(pacing.max_answer_gap());
        let due = link.is_broken() || last.reported.is_none_or(|at| at.elapsed() >= report_after);
        if std::mem::replace(&mut last.queues, all.len()) != all.len() {
            last.report_checked = None;
        }
        let checks = is_due(&mut last.report_checked, check_every);
        if of.reports() && (due || checks) {
            self.report(link, all, last, (pacing, due)).await;
        }
        if of.reports() && all.iter().all(|joined| joined.held_leases.is_empty()) {
            self.duty.note_idle();
        }
        if checks {
            join_all(queues.iter().map(|joined| probe(link, joined))).await;
        }
    }

    /// Reports that the worker is alive and what it is running, if that is due or has changed.
    async fn report(
        &self,
        link: &Link,
        queues: &[Arc<JoinedQueue>],
        last: &mut LastRound,
        (pacing, due): (Pacing, bool),
    ) {
        let facts = (self.describe)(queues);
        // Whether Redis answers matters if somebody waits for it without success.
        let in_touch = queues.iter().all(|joined| joined.health.in_touch());
        if !due && in_touch && !self.monitor.has_late_peer() && facts == last.facts {
            return;
        }
        let (reported, alive_for) = (Instant::now(), pacing.alive_for());
        let mut all = facts.clone();
        all.push(("attempts", running_attempts(queues, reported)));
        all.push(("up_ms", reported.duration_since(self.started).as_millis().to_string()));
        let sent = self.broker.beat(link, &self.consumer, alive_for, &all);
        match self.monitor.ask(Duration::ZERO, sent).await {
            Ok((now, requested)) => {
                self.clock.update(now);
                self.events.emit(&Event::Redis(RedisEvent::Contact { alive: true }));
                // Workers that started together, and have learned how many they are, drift apart from here on.
                let factors = if alive_for > last.alive_for { 0.0..1.0 } else { 0.7..0.9 };
                let again_after = jittered(pacing.report_every(), factors, rand::random());
                last.report_again_after = again_after.max(REPORT_EVERY / 2).min(alive_for / 2);
                (last.reported, last.facts, last.alive_for) = (Some(reported), facts, alive_for);
                if self.obey(requested).await {
                    // Who has asked waits until the worker says that it does so.
                    last.report_checked = None;
                }
            }
            Err(error) => {
                last.reported = None;
                self.events.emit(&Event::Redis(RedisEvent::Contact { alive: false }));
                self.report_error(&error);
            }
        }
    }

    /// Does what people ask of this worker. If its key was lost, and with it a request to drain, notes that there again: only
    /// people end it. Returns true if something is new.
    async fn obey(&self, requested: Requested) -> bool {
        let drain = match requested {
            Requested::Drain(drain) => Some(drain),
            Requested::Work => None,
            Requested::Nothing => {
                let lost = self.duty.drain();
                if let Some(drain) = &lost
                    && let Err(error) = self.broker.keep_drain(&self.consumer, drain).await
                {
                    self.report_error(&error);
                }
                return false;
            }
        };
        self.duty.follow(drain)
    }

    /// Ends attempts of jobs that somebody wants cancelled. What has not started goes straight to the settler.
    async fn cancel_requested(&self, link: &Link, joined: &JoinedQueue) {
        let held = joined.held_leases.snapshot();
        if held.is_empty() {
            return;
        }
        let generations: Vec<&Generation> =
            held.iter().map(|(_, delivery)| &delivery.job.generation).collect();
        let requested: HashSet<_> = match joined
            .monitor
            .ask(Duration::ZERO, joined.queue.cancel_requests(link, &generations))
            .await
        {
            Ok((generations, news)) => {
                joined.admission.note_news(news);
                if generations.is_empty() {
                    return;
                }
                generations.into_iter().collect()
            }
            Err(error) => return self.report_error(&error),
        };
        for (_, delivery) in &held {
            let job = &delivery.job;
            if requested.contains(&job.generation) && delivery.held_lease.cancel() {
                tracing::info!(queue = %joined.queue.name(), job = %job.id, "cancelling a job");
            }
        }
        joined.withdraw(|delivery| delivery.held_lease.is_cancelled(), &Outcome::Cancelled);
    }

    /// Finds the waiting lists with jobs of types that this process knows. A process that runs something asks as often as it asks
    /// what should be cancelled. Those that do not share a small number of questions.
    async fn find_waitlists(&self, link: &Link, joined: &JoinedQueue) {
        let pause = match joined.dispatcher.running() {
            0 => joined.health.pacing().waitlists_asked_every(),
            _ => CANCEL_EVERY,
        };
        let Some(question) = joined.waitlists.question(pause, Instant::now()) else { return };
        let asking = async {
            let types = match question {
                Question::Types(types) => types,
                Question::Walk(from) => {
                    let (mut parked, next) = joined.queue.parked_types(link, from).await?;
                    joined.waitlists.continue_at(next);
                    parked.retain(|job_type| joined.waitlists.knows(job_type));
                    parked
                }
            };
            joined.queue.waiting_types(link, &types).await
        };
        match joined.monitor.ask(Duration::ZERO, asking).await {
            Ok(found) => joined.waitlists.note(found),
            Err(error) => self.report_error(&error),
        }
    }

    async fn connect(&self, (of, queues): (&Beat, &JoinedQueues), timeout: Duration) -> Option<Link> {
        let opening = async {
            match queues.first() {
                Some(joined) => joined.queue.open(Role::Commands).await,
                None => self.broker.open_for(&self.consumer).await,
            }
        };
        match tokio::time::timeout(timeout, opening).await {
            Ok(Ok(open)) => return Some(open),
            Ok(Err(error)) => self.report_error(&error),
            Err(_elapsed) => {
                self.events.emit(&Event::Redis(RedisEvent::Contact { alive: false }));
                let link = match queues.first() {
                    Some(joined) => joined.queue.link().clone(),
                    None => self.broker.link_for(&self.consumer),
                };
                // Whether or not this finds anything out, the heartbeat tries again.
                tokio::time::timeout(timeout, link.look_up_server()).await.ok();
            }
        }
        // It is known that no connection can be made, and a restart would not change that.
        let own = of.reports().then_some(&self.monitor);
        queues.iter().map(|joined| &joined.monitor).chain(own).for_each(Monitor::idle);
        None
    }

    /// Ends attempts whose lease has not been confirmed for so long that another worker may soon claim their jobs.
    fn expire_leases(&self, joined: &JoinedQueue, held: &[(EntryKey, Arc<Delivery>)], now: Instant) {
        let longest = Lease::of(joined.lease).given_up_after();
        for (_, delivery) in held {
            let held_lease = &delivery.held_lease;
            if held_lease.silence(now) > longest && held_lease.lose() {
                self.events.of_queue(joined.queue.name(), QueueEvent::LeaseLost);
            }
        }
    }

    /// Renews what has been silent for part of its lease. Younger entries, which are most of them, cost nothing.
    async fn renew(&self, link: &Link, joined: &JoinedQueue) {
        if sabotage::is(Sabotage::LeaseNotRenewed) {
            return;
        }
        let (asked, lease) = (Instant::now(), Lease::of(joined.lease));
        let silence = |delivery: &Delivery| delivery.held_lease.silence(asked);
        let mut due: HashMap<Lane, Vec<Arc<Delivery>>> = HashMap::new();
        for ((lane, _), delivery) in joined.held_leases.snapshot() {
            if silence(&delivery) >= lease.renewed_along() && delivery.held_lease.is_renewable(asked) {
                due.entry(lane).or_default().push(delivery);
            }
        }
        due.retain(|_, held| held.iter().any(|delivery| silence(delivery) >= lease.renewed_after()));
        for (lane, held) in due {
            let ids: Vec<EntryId> = held.iter().map(|delivery| delivery.job.entry).collect();
            let renewing = joined.queue.keep_alive(link, &self.consumer, lane, &ids);
            match joined.monitor.ask(Duration::ZERO, renewing).await {
                Ok(lost) => self.note_renewed(joined, &held, &lost, asked),
                Err(error) => self.report_error(&error),
            }
        }
    }

    fn note_renewed(&self, joined: &JoinedQueue, held: &[Arc<Delivery>], lost: &[EntryId], asked: Instant) {
        // An entry that was settled while we asked has left the table, and is not lost. One whose settlement is on its way may have been
        // ended by it: if somebody else has it, the settlement's answer says so.
        let still = if lost.is_empty() { HashSet::new() } else { joined.held_leases.known() };
        for delivery in held {
            if !lost.contains(&delivery.job.entry) {
                delivery.held_lease.renew(asked);
            } else if still.contains(&delivery.key())
                && delivery.held_lease.lose()
                && !delivery.held_lease.is_settling()
            {
                self.events.of_queue(joined.queue.name(), QueueEvent::LeaseLost);
            }
        }
    }

    fn report_error(&self, error: &Error) {
        self.events.redis_error(error.kind(), &error);
    }
}

/// Returns what the worker reports about the attempts that it runs.
fn running_attempts(queues: &[Arc<JoinedQueue>], now: Instant) -> String {
    let of_queue = |joined: &Arc<JoinedQueue>| {
        let queue = joined.queue.name().clone();
        let attempt =
            move |((lane, entry), running)| RunningAttempt { queue: queue.clone(), lane, entry, running };
        joined.held_leases.running(now).into_iter().map(attempt)
    };
    attempts_text(queues.iter().flat_map(of_queue).collect())
}

/// Returns how long the heartbeat waits for an answer before it tries another connection.
fn answer_timeout(lease: Duration) -> Duration {
    (lease / 8).max(MIN_TIMEOUT)
}

/// Finds out whether the queue's Redis answers here, if some other loop waits for it.
async fn probe(link: &Link, joined: &JoinedQueue) {
    if joined.monitor.has_late_peer() {
        let asked = joined.monitor.ask(Duration::ZERO, joined.queue.cancel_requests(link, &[]));
        // The monitor notes the answer, or that there was none.
        tokio::time::timeout(MIN_TIMEOUT, asked).await.ok();
    }
}

/// Returns true if this much time has passed since the last time, and then notes the current time.
fn is_due(last: &mut Option<Instant>, pause: Duration) -> bool {
    // A tick that comes a little early counts too.
    let due = last.is_none_or(|at| at.elapsed() + Duration::from_millis(20) >= pause);
    if due {
        *last = Some(Instant::now());
    }
    due
}

/// Returns the shortest lease of all queues, which decides how often all of them are checked.
fn shortest_lease(queues: &[Arc<JoinedQueue>]) -> Duration {
    queues.iter().map(|joined| joined.lease).min().unwrap_or(Duration::from_secs(15))
}

/// Waits until then, or until another queue has been joined, whose lease may be shorter.
async fn wait_until(then: Instant, changes: &mut watch::Receiver<JoinedQueues>) {
    let least = Instant::now() + Duration::from_millis(1);
    tokio::select! {
        () = tokio::time::sleep_until(then.max(least).into()) => {}
        Ok(()) = changes.changed() => {}
    }
}
