//! Keeps the leases of what this process holds, heeds who wants it cancelled, and says that the process lives. It has a thread, a runtime and a
//! connection of its own, so that a handler that blocks the worker's threads cannot starve it.

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
use super::lease::{Held, HeldLeases};
use super::outbox::Outbox;
use crate::broker::{Broker, Error, Link, Queue, Role};
use crate::event::{Event, Events};
use crate::health::QueueHealth;
use crate::health::{Liveness, Monitor};
use crate::job::{ConsumerName, EntryId, Lane, Lease, Life, Outcome, Pacing};
use crate::sabotage::{self, Sabotage};

/// How often a worker looks whether there is something to say: that it lives, or what it runs now.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// How often it is asked what is to be cancelled, while something is held.
const HEED_EVERY: Duration = Duration::from_millis(400);

/// An answer may take so long, however short the lease.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// What the heartbeat looks after in one queue.
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

/// Those of all queues that have been joined.
pub(crate) type Charges = Vec<Arc<Charge>>;

/// When the heartbeat did each of its tasks last.
#[derive(Debug, Default)]
struct Rounds {
    heeded: Option<Instant>,
    looked: Option<Instant>,
    said: Option<Instant>,
    /// After how long it is said again, if nothing changes.
    again: Duration,
    /// How long the worker counts as alive by what was said.
    lives: Duration,
    /// What was said then.
    facts: Facts,
    /// How many queues there were in the last round.
    queues: usize,
}

/// What one connection beats for.
enum Beat {
    /// All queues, and what the worker says of itself.
    All,
    /// One queue.
    Queue(Arc<Charge>),
    /// What the worker says of itself.
    Word,
}

impl Beat {
    /// Those of all queues that it is for.
    fn charges(&self, all: &Charges) -> Charges {
        match self {
            Self::All => all.clone(),
            Self::Queue(charge) => vec![Arc::clone(charge)],
            Self::Word => Vec::new(),
        }
    }

    /// Whether it says what the worker does.
    fn says(&self) -> bool {
        matches!(self, Self::All | Self::Word)
    }
}

/// Says what a worker does that has these charges.
pub(crate) type Says = dyn Fn(&[Arc<Charge>]) -> Facts + Send;

/// What a worker says of itself.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// Beats for one process.
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
    /// Starts the thread. It ends soon after `stop`.
    ///
    /// # Errors
    ///
    /// Where the system has no thread to give.
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
        // Nothing is left undone where the others are dropped.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = async {
                // Who has joined no queue has nothing to say. That nobody can join any more is no error: it stops.
                if joined.wait_for(|charges| !charges.is_empty()).await.is_ok() {
                    tokio::join!(self.watch(), self.beat_everywhere());
                }
            } => {}
        }
    }

    /// Without Redis, and never held up by it: what is silent for too long must end whether Redis answers or not. But where
    /// this process itself stood still, Redis is asked first.
    async fn watch(&self) {
        let mut joined = self.charges.clone();
        let (mut looked, mut pardoned, mut stood_still) = (Instant::now(), Instant::now(), false);
        loop {
            let charges = joined.borrow_and_update().clone();
            let (lease, now) = (shortest(&charges), Instant::now());
            // Once: a process that is given hardly any time must give up in the end.
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
                self.events.tell(&Event::LongestRun { queue, elapsed });
            }
            until(now + lease / 20, &mut joined).await;
        }
    }

    /// One beat for all. But of a cluster each server may be away, so each queue has a beat and a connection of its own, and so has what
    /// the worker says of itself: whichever server does not answer, the others' leases are kept.
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
                // None ends.
                _ = beats.next() => {}
                Ok(()) = joined.changed() => {}
            }
        }
    }

    /// Renews and says. There is time for a renewal to fail, for another connection, and for a second one before the lease
    /// is given up.
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
                    self.events.tell(&Event::Reconnected { times: 1 });
                }
            }
            let asked = Instant::now();
            if let Some(open) = &link
                && tokio::time::timeout(backoff, self.round((&of, &charges, &all), open, &mut rounds)).await.is_err()
                // Where this process stood still, the answer may be there, but was not looked at.
                && asked.elapsed() < 2 * backoff
            {
                tracing::warn!("the heartbeat is not answered in time; connecting anew");
                self.events.tell(&Event::Contact { alive: false });
                link = None;
                // What was not renewed has no time to lose.
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

    /// Says that the worker lives, and what it runs, where that is due or has changed.
    async fn say(
        &self,
        link: &Link,
        charges: &[Arc<Charge>],
        rounds: &mut Rounds,
        (pacing, due): (Pacing, bool),
    ) {
        let facts = (self.facts)(charges);
        // Whether Redis answers matters where somebody waits for it in vain.
        let in_touch = charges.iter().all(|charge| charge.health.in_touch());
        if !due && in_touch && !self.monitor.is_wanted() && facts == rounds.facts {
            return;
        }
        let (said, lives) = (Instant::now(), pacing.lives());
        let saying = self.broker.beat(link, &self.consumer, lives, &facts);
        match self.monitor.ask(Duration::ZERO, saying).await {
            Ok(now) => {
                self.clock.tell(now);
                self.events.tell(&Event::Contact { alive: true });
                // Workers that started together, and found out how many they are, part now.
                let roll = rand::random::<f64>();
                let part = if lives > rounds.lives { roll } else { 0.7 + roll / 5.0 };
                rounds.again = pacing.say_every().mul_f64(part).max(SAY_EVERY / 2).min(lives / 2);
                (rounds.said, rounds.facts, rounds.lives) = (Some(said), facts, lives);
            }
            Err(error) => {
                rounds.said = None;
                self.events.tell(&Event::Contact { alive: false });
                self.tell(&error);
            }
        }
    }

    /// Ends what somebody wants cancelled. What has not started goes to the settler as it is.
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
                tracing::info!(queue = %charge.queue.name(), job = %job.id, "a job is cancelled");
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
                self.events.tell(&Event::Contact { alive: false });
                let link = match charges.first() {
                    Some(charge) => charge.queue.link().clone(),
                    None => self.broker.link_for(&self.consumer),
                };
                // Whether anything was found out or not, it is tried again.
                tokio::time::timeout(backoff, link.look_again()).await.ok();
            }
        }
        // That no connection is to be had is known, and nothing that a restart would mend.
        let own = of.says().then_some(&self.monitor);
        charges.iter().map(|charge| &charge.monitor).chain(own).for_each(Monitor::rests);
        None
    }

    /// Ends attempts whose lease nobody confirmed for so long that another worker may soon take their jobs.
    fn cut_silent(&self, charge: &Charge, held: &[(Held, Arc<Delivery>)], now: Instant) {
        let longest = Lease::of(charge.lease).given_up_after();
        for (_, delivery) in held {
            let held_lease = &delivery.held_lease;
            if held_lease.silent(now) > longest && held_lease.lose() {
                self.events.tell(&Event::LeaseLost { queue: charge.queue.name() });
            }
        }
    }

    /// Renews what was silent for a part of its lease. Younger entries, the most of them, cost nothing.
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
        // An entry that was settled while we asked is gone from the table, and not lost.
        let still = if lost.is_empty() { HashSet::new() } else { charge.held_leases.known() };
        for delivery in held {
            if !lost.contains(&delivery.job.entry) {
                delivery.held_lease.renew(asked);
            } else if still.contains(&delivery.held()) && delivery.held_lease.lose() {
                self.events.tell(&Event::LeaseLost { queue: charge.queue.name() });
            }
        }
    }

    fn tell(&self, error: &Error) {
        self.events.redis_error(error.kind(), &error);
    }
}

/// How long the heartbeat waits for an answer before it tries another connection.
fn backoff(lease: Duration) -> Duration {
    (lease / 8).max(LEAST_PATIENCE)
}

/// Finds out whether the queue's Redis answers here, where somebody else waits for it.
async fn vouch(link: &Link, charge: &Charge) {
    if charge.monitor.is_wanted() {
        let asked = charge.monitor.ask(Duration::ZERO, charge.queue.cancels(link, &[]));
        // Whatever the answer is, or that there is none, the monitor notes it.
        tokio::time::timeout(LEAST_PATIENCE, asked).await.ok();
    }
}

/// True where so much time has passed since the last time, which is now.
fn is_due(last: &mut Option<Instant>, pause: Duration) -> bool {
    // A tick that comes a little early counts.
    let due = last.is_none_or(|at| at.elapsed() + Duration::from_millis(20) >= pause);
    if due {
        *last = Some(Instant::now());
    }
    due
}

/// The shortest lease of all queues, which decides how often all of them are looked at.
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
