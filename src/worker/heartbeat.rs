//! Keeps the leases of what this process holds, cancels jobs on request, and reports that the process is alive. It has
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
use super::delivery::{Delivery, FinishedAttempt, SettlerInput};
use super::dispatcher::Dispatcher;
use super::held_leases::HeldLeases;
use super::lease::Held;
use super::outbox::Outbox;
use crate::broker::{Broker, Error, Link, Queue, Role};
use crate::event::{Event, Events};
use crate::health::{Liveness, Monitor, QueueHealth};
use crate::job::{ConsumerName, EntryId, Lane, Lease, Life, Outcome, Pacing};
use crate::sabotage::{self, Sabotage};

/// How often a worker checks whether there is something to report: that it is alive, or what it is running.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// How often to ask what should be cancelled, while something is held.
const HEED_EVERY: Duration = Duration::from_millis(400);

/// The least time to wait for an answer, however short the lease.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// What the heartbeat needs to serve one queue.
pub(crate) struct Charge {
    pub(crate) queue: Queue,
    pub(crate) held_leases: Arc<HeldLeases>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) health: Arc<QueueHealth>,
    pub(crate) monitor: Monitor,
    pub(crate) slots: usize,
    pub(crate) lease: Duration,
}

/// The charges of all queues that have been joined.
pub(crate) type Charges = Vec<Arc<Charge>>;

/// When the heartbeat last did each of its tasks.
#[derive(Debug, Default)]
struct Rounds {
    heeded: Option<Instant>,
    looked: Option<Instant>,
    said: Option<Instant>,
    /// How long after a report the next one follows if nothing changes.
    again: Duration,
    /// How long the worker counts as alive after that report.
    lives: Duration,
    /// What was reported then.
    facts: Facts,
    /// How many queues there were in the last round.
    queues: usize,
}

/// What one connection beats for.
enum Beat {
    /// All queues, and the worker's report about itself.
    All,
    /// One queue.
    Queue(Arc<Charge>),
    /// The worker's report about itself.
    Word,
}

impl Beat {
    /// Returns those of all charges that it is for.
    fn charges(&self, all: &Charges) -> Charges {
        match self {
            Self::All => all.clone(),
            Self::Queue(charge) => vec![Arc::clone(charge)],
            Self::Word => Vec::new(),
        }
    }

    /// Returns true if it reports what the worker does.
    fn says(&self) -> bool {
        matches!(self, Self::All | Self::Word)
    }
}

/// Makes the report of a worker that has these charges.
pub(crate) type Says = dyn Fn(&[Arc<Charge>]) -> Facts + Send;

/// What a worker reports about itself.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// The heartbeat of one process.
pub(crate) struct Heartbeat {
    pub(crate) broker: Broker,
    pub(crate) consumer: ConsumerName,
    pub(crate) charges: watch::Receiver<Charges>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) events: Events,
    pub(crate) facts: Box<Says>,
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
        let mut joined = self.charges.clone();
        // Dropping the others leaves nothing half done.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = async {
                // A process that has joined no queue has nothing to report. If nobody can join any more, the process is
                // stopping, which is no error.
                if joined.wait_for(|charges| !charges.is_empty()).await.is_ok() {
                    tokio::join!(self.watch(), self.beat_everywhere());
                }
            } => {}
        }
    }

    /// Watches the leases without Redis, and is never held up by it: what is silent for too long must end whether or
    /// not Redis answers. But if this process itself was frozen, Redis is asked first.
    async fn watch(&self) {
        let mut joined = self.charges.clone();
        let (mut looked, mut pardoned, mut stood_still) = (Instant::now(), Instant::now(), false);
        loop {
            let charges = joined.borrow_and_update().clone();
            let (lease, now) = (shortest(&charges), Instant::now());
            // Only once: a process that gets hardly any time must give up in the end.
            let again = std::mem::replace(&mut stood_still, now - looked > lease / 10);
            if stood_still && !again {
                pardoned = now + backoff(lease);
            }
            looked = now;
            for charge in &charges {
                let held = charge.held_leases.snapshot();
                if now >= pardoned {
                    self.cut_silent(charge, &held, now);
                }
                let elapsed = held.iter().map(|(_, delivery)| delivery.held_lease.running(now)).max();
                let (queue, elapsed) = (charge.queue.name(), elapsed.unwrap_or_default());
                self.events.emit(&Event::LongestRun { queue, elapsed });
            }
            until(now + lease / 20, &mut joined).await;
        }
    }

    /// Beats for all queues. A single Redis gets one beat. In a cluster, each server may be away, so each queue has its
    /// own beat and connection, and so has the worker's report about itself. Whichever server does not answer, the
    /// leases on the others are kept.
    async fn beat_everywhere(&self) {
        if !self.broker.is_clustered() {
            return self.beat(Beat::All).await;
        }
        let (mut joined, mut begun) = (self.charges.clone(), 0);
        let mut beats = FuturesUnordered::new();
        beats.push(self.beat(Beat::Word));
        loop {
            let charges = joined.borrow_and_update().clone();
            beats.extend(charges[begun..].iter().map(|charge| self.beat(Beat::Queue(Arc::clone(charge)))));
            begun = charges.len();
            tokio::select! {
                // None of them ends.
                _ = beats.next() => {}
                Ok(()) = joined.changed() => {}
            }
        }
    }

    /// Renews and reports. Before the lease is given up, there is time for a renewal to fail, for a new connection, and
    /// for a second one.
    async fn beat(&self, of: Beat) {
        let mut joined = self.charges.clone();
        let (mut link, mut rounds, mut connected) = (None, Rounds::default(), false);
        loop {
            let all = joined.borrow_and_update().clone();
            let charges = of.charges(&all);
            let lease = shortest(if charges.is_empty() { &all } else { &charges });
            let (begun, backoff) = (Instant::now(), backoff(lease));
            if link.is_none() {
                link = self.connect((&of, &charges), (lease / 6).max(LEAST_PATIENCE)).await;
                if link.is_some() && std::mem::replace(&mut connected, true) {
                    self.events.emit(&Event::Reconnected { times: 1 });
                }
            }
            let asked = Instant::now();
            if let Some(open) = &link
                && tokio::time::timeout(backoff, self.round((&of, &charges, &all), open, &mut rounds)).await.is_err()
                // If this process was frozen, the answer may have arrived without being looked at.
                && asked.elapsed() < 2 * backoff
            {
                tracing::warn!("the heartbeat was not answered in time; reconnecting");
                self.events.emit(&Event::Contact { alive: false });
                link = None;
                // There is no time to lose for what was not renewed.
                continue;
            }
            until(begun + Lease::of(lease).look_every(), &mut joined).await;
        }
    }

    async fn round(&self, (of, charges, all): (&Beat, &Charges, &Charges), link: &Link, rounds: &mut Rounds) {
        join_all(charges.iter().map(|charge| self.renew(link, charge))).await;
        if is_due(&mut rounds.heeded, HEED_EVERY) {
            join_all(charges.iter().map(|charge| self.heed(link, charge))).await;
        }
        let pacing = all.iter().map(|charge| charge.health.pacing()).max().unwrap_or(Pacing::of(1));
        self.liveness.answers_within(pacing.quiet());
        let due = link.is_broken() || rounds.said.is_none_or(|at| at.elapsed() >= rounds.again);
        if std::mem::replace(&mut rounds.queues, all.len()) != all.len() {
            rounds.looked = None;
        }
        let looks = is_due(&mut rounds.looked, SAY_EVERY);
        if of.says() && (due || looks) {
            self.say(link, all, rounds, (pacing, due)).await;
        }
        if looks {
            join_all(charges.iter().map(|charge| vouch(link, charge))).await;
        }
    }

    /// Reports that the worker is alive and what it is running, if that is due or has changed.
    async fn say(
        &self,
        link: &Link,
        charges: &[Arc<Charge>],
        rounds: &mut Rounds,
        (pacing, due): (Pacing, bool),
    ) {
        let facts = (self.facts)(charges);
        // Whether Redis answers matters if somebody waits for it without success.
        let in_touch = charges.iter().all(|charge| charge.health.in_touch());
        if !due && in_touch && !self.monitor.is_wanted() && facts == rounds.facts {
            return;
        }
        let (said, lives) = (Instant::now(), pacing.lives());
        let saying = self.broker.beat(link, &self.consumer, lives, &facts);
        match self.monitor.ask(Duration::ZERO, saying).await {
            Ok(now) => {
                self.clock.tell(now);
                self.events.emit(&Event::Contact { alive: true });
                // Workers that started together, and have learned how many they are, drift apart from here on.
                let roll = rand::random::<f64>();
                let part = if lives > rounds.lives { roll } else { 0.7 + roll / 5.0 };
                rounds.again = pacing.say_every().mul_f64(part).max(SAY_EVERY / 2).min(lives / 2);
                (rounds.said, rounds.facts, rounds.lives) = (Some(said), facts, lives);
            }
            Err(error) => {
                rounds.said = None;
                self.events.emit(&Event::Contact { alive: false });
                self.tell(&error);
            }
        }
    }

    /// Ends attempts of jobs that somebody wants cancelled. What has not started goes straight to the settler.
    async fn heed(&self, link: &Link, charge: &Charge) {
        let held = charge.held_leases.snapshot();
        if held.is_empty() {
            return;
        }
        let lives: Vec<&Life> = held.iter().map(|(_, delivery)| &delivery.job.life).collect();
        let wishes: HashSet<_> =
            match charge.monitor.ask(Duration::ZERO, charge.queue.cancels(link, &lives)).await {
                Ok(wishes) if wishes.is_empty() => return,
                Ok(wishes) => wishes.into_iter().collect(),
                Err(error) => return self.tell(&error),
            };
        for (_, delivery) in &held {
            let job = &delivery.job;
            if wishes.contains(&job.life) && delivery.held_lease.cancel() {
                tracing::info!(queue = %charge.queue.name(), job = %job.id, "cancelling a job");
            }
        }
        for delivery in charge.dispatcher.withdraw(|delivery| delivery.held_lease.is_cancelled()) {
            charge
                .outbox
                .push_now(SettlerInput::Finished(FinishedAttempt::unrun(delivery, Outcome::Cancelled)));
        }
    }

    async fn connect(&self, (of, charges): (&Beat, &Charges), backoff: Duration) -> Option<Link> {
        let opening = async {
            match charges.first() {
                Some(charge) => charge.queue.open(Role::Commands).await,
                None => self.broker.open_for(&self.consumer).await,
            }
        };
        match tokio::time::timeout(backoff, opening).await {
            Ok(Ok(open)) => return Some(open),
            Ok(Err(error)) => self.tell(&error),
            Err(_elapsed) => {
                self.events.emit(&Event::Contact { alive: false });
                let link = match charges.first() {
                    Some(charge) => charge.queue.link().clone(),
                    None => self.broker.link_for(&self.consumer),
                };
                // Whether or not this finds anything out, the heartbeat tries again.
                tokio::time::timeout(backoff, link.look_again()).await.ok();
            }
        }
        // It is known that no connection can be made, and a restart would not change that.
        let own = of.says().then_some(&self.monitor);
        charges.iter().map(|charge| &charge.monitor).chain(own).for_each(Monitor::rests);
        None
    }

    /// Ends attempts whose lease has not been confirmed for so long that another worker may soon claim their jobs.
    fn cut_silent(&self, charge: &Charge, held: &[(Held, Arc<Delivery>)], now: Instant) {
        let longest = Lease::of(charge.lease).given_up_after();
        for (_, delivery) in held {
            let held_lease = &delivery.held_lease;
            if held_lease.silent(now) > longest && held_lease.lose() {
                self.events.emit(&Event::LeaseLost { queue: charge.queue.name() });
            }
        }
    }

    /// Renews what has been silent for part of its lease. Younger entries, which are most of them, cost nothing.
    async fn renew(&self, link: &Link, charge: &Charge) {
        if sabotage::is(Sabotage::LeaseNotRenewed) {
            return;
        }
        let (asked, lease) = (Instant::now(), Lease::of(charge.lease));
        let silent = |delivery: &Delivery| delivery.held_lease.silent(asked);
        let mut due: HashMap<Lane, Vec<Arc<Delivery>>> = HashMap::new();
        for ((lane, _), delivery) in charge.held_leases.snapshot() {
            if silent(&delivery) >= lease.renewed_along() && delivery.held_lease.is_renewable(asked) {
                due.entry(lane).or_default().push(delivery);
            }
        }
        due.retain(|_, held| held.iter().any(|delivery| silent(delivery) >= lease.renewed_after()));
        for (lane, held) in due {
            let ids: Vec<EntryId> = held.iter().map(|delivery| delivery.job.entry).collect();
            let renewing = charge.queue.keep_alive(link, &self.consumer, lane, &ids);
            match charge.monitor.ask(Duration::ZERO, renewing).await {
                Ok(lost) => self.note(charge, &held, &lost, asked),
                Err(error) => self.tell(&error),
            }
        }
    }

    fn note(&self, charge: &Charge, held: &[Arc<Delivery>], lost: &[EntryId], asked: Instant) {
        // An entry that was settled while we asked has left the table, and is not lost.
        let still = if lost.is_empty() { HashSet::new() } else { charge.held_leases.known() };
        for delivery in held {
            if !lost.contains(&delivery.job.entry) {
                delivery.held_lease.renew(asked);
            } else if still.contains(&delivery.held()) && delivery.held_lease.lose() {
                self.events.emit(&Event::LeaseLost { queue: charge.queue.name() });
            }
        }
    }

    fn tell(&self, error: &Error) {
        self.events.redis_error(error.kind(), &error);
    }
}

/// Returns how long the heartbeat waits for an answer before it tries another connection.
fn backoff(lease: Duration) -> Duration {
    (lease / 8).max(LEAST_PATIENCE)
}

/// Finds out whether the queue's Redis answers here, if some other loop waits for it.
async fn vouch(link: &Link, charge: &Charge) {
    if charge.monitor.is_wanted() {
        let asked = charge.monitor.ask(Duration::ZERO, charge.queue.cancels(link, &[]));
        // The monitor notes the answer, or that there was none.
        tokio::time::timeout(LEAST_PATIENCE, asked).await.ok();
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
fn shortest(charges: &[Arc<Charge>]) -> Duration {
    charges.iter().map(|charge| charge.lease).min().unwrap_or(Duration::from_secs(15))
}

/// Waits until then, or until another queue has been joined, whose lease may be shorter.
async fn until(then: Instant, joined: &mut watch::Receiver<Charges>) {
    let least = Instant::now() + Duration::from_millis(1);
    tokio::select! {
        () = tokio::time::sleep_until(then.max(least).into()) => {}
        Ok(()) = joined.changed() => {}
    }
}
