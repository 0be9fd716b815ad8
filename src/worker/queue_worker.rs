//! The stages of one queue, wired together, and the order in which they stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::admission::Admission;
use super::clock::ServerClock;
use super::delivery::SettlerInput;
use super::dispatcher::Dispatcher;
use super::duty::Duty;
use super::executor::Executor;
use super::fair_scheduler::FairScheduler;
use super::held_leases::HeldLeases;
use super::joined_queue::JoinedQueue;
use super::limits::Limits;
use super::outbox::Outbox;
use super::quota::Quota;
use super::reader::{Reader, Reading};
use super::registry::Registry;
use super::reporter::{Reporter, Reports};
use super::settler::Settler;
use super::slot_timer::SlotTimer;
use super::start_checker::{self, StartChecker};
use super::steps::ledgers::{self, Ledgers};
use super::type_waitlists::TypeWaitlists;
use super::{Config, QueueConfig};
use crate::broker::{Broker, Error, Link, Queue, Role};
use crate::event::{Events, QueueEvent};
use crate::health::{Liveness, QueueHealth};
use crate::job::{self, ConsumerName, GateName, Lease, Outcome, QueueName};
use crate::traces::Tracer;

/// How long readers take to end while Redis answers, and more.
const READING_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A queue with at least this concurrency has a second reader.
const MANY_SLOTS: usize = 64;

/// A cancelled handler's slot ends at most this long after its grace period.
const END_MARGIN: Duration = Duration::from_secs(5);

/// How long a worker that stops waits for what only spares others a wait.
pub(super) const LEAVES_WITHIN: Duration = Duration::from_secs(2);

/// How often to look for deliveries that have waited too long for others of their type or key.
const RELIEVE_EVERY: Duration = Duration::from_millis(250);

/// The stages of one queue.
pub(super) struct QueueWorker {
    pub(super) queue: Queue,
    parts: Parts,
    pub(super) lease: Duration,
    pub(super) slots: usize,
    /// The longest grace period of all handlers.
    grace: Duration,
    /// The readers that have not started, and their names.
    idle: Vec<(String, Reader)>,
    readers: JoinSet<()>,
    executors: JoinSet<()>,
    settler: JoinSet<()>,
    /// The tasks that serve running attempts: their starts and their reports.
    serving: JoinSet<()>,
    stop_reading: CancellationToken,
}

/// What the queue workers of one process share.
pub(super) struct Shared {
    pub(super) broker: Broker,
    pub(super) consumer: ConsumerName,
    pub(super) config: Config,
    pub(super) registry: Arc<Registry>,
    pub(super) events: Events,
    pub(super) clock: Arc<ServerClock>,
    pub(super) duty: Arc<Duty>,
    pub(super) quota: Option<Arc<Quota>>,
    /// How many attempts of a type or key may run at once, if that is limited.
    pub(super) limits: Option<Arc<Limits>>,
    pub(super) liveness: Liveness,
    pub(super) tracer: Option<Tracer>,
}

impl Shared {
    fn settler(&self, queue: Queue, parts: &Parts, lease: Duration) -> Settler {
        let worker = &self.config;
        Settler {
            tracking: worker.queue(queue.name()).tracking,
            journal_fields: worker.queue(queue.name()).journal_fields,
            retention: worker.retention_of(queue.name()),
            monitor: self.liveness.monitor("the recorder", Some(queue.name())),
            queue,
            consumer: self.consumer.clone(),
            held_leases: Arc::clone(&parts.held_leases),
            policies: Arc::new(self.registry.policies()),
            events: self.events.clone(),
            clock: Arc::clone(&self.clock),
            dispatcher: Arc::clone(&parts.dispatcher),
            admission: Arc::clone(&parts.admission),
            only_scripts: AtomicBool::new(false),
            lease,
        }
    }

    /// Returns the configuration with as many slots as the queue has.
    fn fitted(&self, own: &QueueConfig) -> QueueConfig {
        QueueConfig { concurrency: self.registry.slots(own.concurrency), ..own.clone() }
    }

    /// Returns the limits of the gates of a queue that this process's configuration sets, and those that it knows and
    /// does not limit.
    fn gate_limits(&self, own: &QueueConfig) -> Vec<(GateName, job::Limits)> {
        let mut limits = vec![(GateName::queue(), own.limits)];
        limits.extend(own.key_limits.iter().map(|(gate, limits)| (gate.clone(), *limits)));
        let types = self.registry.types();
        limits.extend(types.iter().map(|name| {
            let limits = self.config.type_limits.get(name).copied().unwrap_or_default();
            (GateName::of_type(name), limits)
        }));
        limits
    }

    fn reporter(&self, queue: Queue, admission: &Admission) -> Reporter {
        let rules = Arc::clone(&admission.check);
        Reporter {
            reports: Arc::new(Reports::new(queue.name().clone(), self.events.clone(), rules)),
            retention: self.config.retention_of(queue.name()),
            queue,
            consumer: self.consumer.clone(),
            events: self.events.clone(),
        }
    }

    /// Starts the tasks that serve running attempts.
    fn serving(
        &self,
        queue: &Queue,
        (parts, slots): (&Parts, usize),
    ) -> (JoinSet<()>, Arc<Reporter>, Asking) {
        let (mut tasks, name) = (JoinSet::new(), queue.name());
        let reporter = Arc::new(self.reporter(queue.clone(), &parts.admission));
        let reporting = Arc::clone(&reporter).run();
        tasks.spawn(self.liveness.watch(format!("the reporter of {name}"), reporting));
        let (start_checker, questions) = StartChecker::new(slots);
        let beginning =
            start_checker::answer(queue.clone(), self.consumer.clone(), questions, self.events.clone());
        tasks.spawn(self.liveness.watch(format!("the start checker of {name}"), beginning));
        let (ledgers, writes) = Ledgers::new(slots);
        let writing = ledgers::write(queue.clone(), self.consumer.clone(), writes);
        tasks.spawn(self.liveness.watch(format!("the step states of {name}"), writing));
        if parts.dispatcher.is_limited() {
            let (dispatcher, outbox) = (Arc::clone(&parts.dispatcher), Arc::clone(&parts.outbox));
            let relieving = relieve(dispatcher, outbox, name.clone(), self.events.clone());
            tasks.spawn(self.liveness.watch(format!("the backlog of {name}"), relieving));
        }
        let tending = Arc::clone(&parts.admission);
        let tending = tending.tend(Arc::clone(&parts.dispatcher), Arc::clone(&parts.outbox));
        tasks.spawn(self.liveness.watch(format!("the admission of {name}"), tending));
        let fair_scheduler = FairScheduler {
            queue: queue.clone(),
            admission: Arc::clone(&parts.admission),
            health: Arc::clone(&parts.health),
            slots,
            events: self.events.clone(),
        };
        tasks.spawn(self.liveness.watch(format!("the fair share of {name}"), fair_scheduler.run()));
        (tasks, reporter, Asking { start_checker, ledgers })
    }

    fn executor(
        &self,
        queue: Queue,
        (parts, lease): (&Parts, Duration),
        (own, reporter, asking): (&QueueConfig, &Arc<Reporter>, Asking),
    ) -> Executor {
        Executor {
            queue,
            start_checker: asking.start_checker,
            ledgers: asking.ledgers,
            admission: Arc::clone(&parts.admission),
            starts_within: Lease::of(lease).starts_within(),
            tracking: own.tracking,
            reporter: Arc::clone(reporter),
            consumer: self.consumer.clone(),
            registry: Arc::clone(&self.registry),
            dispatcher: Arc::clone(&parts.dispatcher),
            events: self.events.clone(),
            clock: Arc::clone(&self.clock),
            tracer: self.tracer,
        }
    }
}

/// What the slots of one queue worker ask Redis through.
struct Asking {
    start_checker: StartChecker,
    ledgers: Ledgers,
}

/// What the stages of one queue worker share.
#[derive(Clone)]
struct Parts {
    dispatcher: Arc<Dispatcher>,
    held_leases: Arc<HeldLeases>,
    health: Arc<QueueHealth>,
    outbox: Arc<Outbox>,
    waitlists: Arc<TypeWaitlists>,
    admission: Arc<Admission>,
}

impl Parts {
    /// Creates the parts, and reads the rules of the gates: this comes before the first job is read.
    async fn new(
        shared: &Shared,
        settling: &Queue,
        (own, health): (&QueueConfig, &Arc<QueueHealth>),
    ) -> Result<Self, Error> {
        // A share that cannot be was refused before the start.
        let rules = (shared.gate_limits(own), own.share().unwrap_or_default());
        let admission = Admission::new(settling.clone(), shared.events.clone(), rules);
        admission.begin().await?;
        let (prefetch, capacity) = (shared.config.prefetch, own.concurrency + shared.config.prefetch);
        let dispatcher = Dispatcher::new(own.concurrency, prefetch, threads());
        Ok(Self {
            dispatcher: dispatcher
                .with_quota(shared.quota.clone())
                .with_limits(shared.limits.clone())
                .shared(),
            held_leases: Arc::new(HeldLeases::default()),
            health: Arc::clone(health),
            outbox: Arc::new(Outbox::new(2 * capacity + 100)),
            waitlists: Arc::new(TypeWaitlists::new(shared.registry.run_types())),
            admission: Arc::new(admission),
        })
    }

    /// Hands nothing more to the slots, and gives back what waits for one.
    fn give_back_unstarted(&self) {
        for delivery in self.dispatcher.close() {
            // Nothing makes room while Redis is away, and the drain must begin all the same.
            self.outbox.push_now(SettlerInput::not_run(delivery, Outcome::Interrupted));
        }
    }
}

/// The connections of one queue, besides those that all queues share.
struct Links {
    /// Settling has its own connection, so that it never waits behind another queue's traffic.
    settling: Link,
    /// One for each reader.
    reading: Vec<Link>,
}

impl Links {
    async fn open(queue: &Queue, readers: usize) -> Result<Self, Error> {
        let settling = queue.open(Role::Commands).await?;
        let mut reading = Vec::with_capacity(readers);
        for _ in 0..readers {
            reading.push(queue.open(Role::Blocking).await?);
        }
        Ok(Self { settling, reading })
    }
}

impl QueueWorker {
    /// Starts everything except reading.
    pub(super) async fn start(
        shared: &Shared,
        queue: Queue,
        lease: Duration,
        (own, health): (&QueueConfig, &Arc<QueueHealth>),
    ) -> Result<Self, Error> {
        let own = &shared.fitted(own);
        // A second connection pays off only if many quick jobs run at once.
        let readers = if own.concurrency >= MANY_SLOTS { 2 } else { 1 };
        // This comes first, so that nothing must be undone if one of them cannot be opened.
        let links = Links::open(&queue, readers).await?;
        let settling = queue.over(&links.settling);
        let parts = Parts::new(shared, &settling, (own, health)).await?;
        let (mut settler, mut executors) = (JoinSet::new(), JoinSet::new());
        let (liveness, name) = (&shared.liveness, queue.name().clone());
        let settling_loop = shared.settler(settling.clone(), &parts, lease).run(Arc::clone(&parts.outbox));
        settler.spawn(liveness.watch(format!("the recorder of {name}"), settling_loop));
        let (serving, reporter, asking) = shared.serving(&settling, (&parts, own.concurrency));
        let executor = Arc::new(shared.executor(settling, (&parts, lease), (own, &reporter, asking)));
        for _ in 0..own.concurrency {
            let slot = slot(Arc::clone(&parts.dispatcher), Arc::clone(&executor), Arc::clone(&parts.outbox));
            executors.spawn(liveness.watch(format!("a slot of {name}"), slot));
        }
        let stop_reading = CancellationToken::new();
        let reading = Arc::new(Reading::default());
        let idle = links.reading.into_iter().enumerate().map(|(nth, link)| {
            let who = if nth > 0 { "the second reader" } else { "the reader" };
            let reader = Reader {
                reading: Arc::clone(&reading),
                helps: nth > 0,
                queue: queue.clone(),
                link,
                consumer: shared.consumer.clone(),
                lease,
                max_depth: own.max_depth,
                dispatcher: Arc::clone(&parts.dispatcher),
                held_leases: Arc::clone(&parts.held_leases),
                outbox: Arc::clone(&parts.outbox),
                waitlists: Arc::clone(&parts.waitlists),
                admission: Arc::clone(&parts.admission),
                duty: Arc::clone(&shared.duty),
                health: Arc::clone(&parts.health),
                monitor: liveness.monitor(who, Some(&name)),
                events: shared.events.clone(),
                stop: stop_reading.clone(),
            };
            (format!("{who} of {name}"), reader)
        });
        let idle = idle.collect();
        Ok(Self {
            grace: shared.registry.longest_grace(),
            queue,
            parts,
            lease,
            slots: own.concurrency,
            idle,
            readers: JoinSet::new(),
            executors,
            settler,
            serving,
            stop_reading,
        })
    }

    /// Takes jobs from now on. Nothing of the queue's start may fail after this, because what had been taken would be
    /// dropped with its outcome.
    pub(super) fn read(&mut self, liveness: &Liveness) {
        for (who, reader) in self.idle.drain(..) {
            self.readers.spawn(liveness.watch(who, reader.run()));
        }
    }

    pub(super) fn joined_queue(&self, liveness: &Liveness) -> JoinedQueue {
        JoinedQueue {
            monitor: liveness.monitor("the heartbeat", Some(self.queue.name())),
            queue: self.queue.clone(),
            held_leases: Arc::clone(&self.parts.held_leases),
            dispatcher: Arc::clone(&self.parts.dispatcher),
            outbox: Arc::clone(&self.parts.outbox),
            waitlists: Arc::clone(&self.parts.waitlists),
            admission: Arc::clone(&self.parts.admission),
            health: Arc::clone(&self.parts.health),
            slots: self.slots,
            lease: self.lease,
        }
    }

    /// Ends reading, gives back what has not started, and waits for the rest. Handlers that still run at the deadline or after
    /// `hurry` are cut short.
    pub(super) async fn stop(&mut self, deadline: Instant, hurry: &CancellationToken) {
        self.stop_reading(deadline, hurry).await;
        self.drain(deadline, hurry).await;
    }

    /// Ends reading, and gives back what has not started. While Redis is silent, readers need a while to end: handlers are
    /// cut short all the same, but no sooner than readers end otherwise. They would read the jobs that are given back.
    async fn stop_reading(&mut self, deadline: Instant, hurry: &CancellationToken) {
        self.stop_reading.cancel();
        let deadline = deadline.max(Instant::now() + READING_ENDS_WITHIN);
        let ended = async { while self.readers.join_next().await.is_some() {} };
        let cutting = async {
            patience(deadline, hurry).await;
            self.parts.give_back_unstarted();
            self.parts.held_leases.cut_all();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = ended => {}
            () = cutting => {}
        }
        self.parts.give_back_unstarted();
    }

    async fn drain(&mut self, deadline: Instant, hurry: &CancellationToken) {
        let ended = async { while self.executors.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => return,
            () = patience(deadline, hurry) => {}
        }
        tracing::info!(queue = %self.queue.name(), running = self.parts.dispatcher.running(), "cancelling handlers that are still running");
        self.parts.held_leases.cut_all();
        // After this, handlers have their own grace period. What does not end even then is left to its lease.
        let ended = async { while self.executors.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace + END_MARGIN, ended).await.is_err() {
            tracing::warn!(queue = %self.queue.name(), "some handlers did not stop; their leases will expire");
            self.executors.abort_all();
        }
    }

    /// Settles the last outcomes, and leaves the queue. What Redis does not answer in time is given up.
    pub(super) async fn finish(mut self, consumer: &ConsumerName) {
        // Every attempt has ended, and has written its last reports.
        self.serving.shutdown().await;
        self.parts.outbox.close();
        let ended = async { while self.settler.join_next().await.is_some() {} };
        if tokio::time::timeout(Duration::from_secs(10), ended).await.is_err() {
            tracing::warn!(queue = %self.queue.name(), "redis did not accept the last outcomes; the jobs will run again");
        }
        if tokio::time::timeout(LEAVES_WITHIN, self.leave(consumer)).await.is_err() {
            tracing::debug!(queue = %self.queue.name(), "the queue was not left in time");
        }
    }

    /// Gives back places in gates and removes the consumer: others need not wait until Redis finds out by itself.
    async fn leave(&self, consumer: &ConsumerName) {
        if let Err(error) = self.parts.admission.give_back().await {
            tracing::debug!(%error, "failed to give back places in gates");
        }
        match self.queue.reap(self.queue.link(), consumer.as_str()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::info!(queue = %self.queue.name(), "entries are still pending; they are taken over when their lease expires")
            }
            Err(error) => tracing::debug!(%error, "failed to remove the consumer"),
        }
    }
}

/// Ends once handlers have had enough time to end by themselves.
async fn patience(deadline: Instant, hurry: &CancellationToken) {
    hurry.run_until_cancelled(tokio::time::sleep_until(deadline.into())).await;
}

/// Runs one slot: one attempt at a time.
async fn slot(dispatcher: Arc<Dispatcher>, executor: Arc<Executor>, outbox: Arc<Outbox>) {
    let mut slot_timer = SlotTimer::default();
    while let Some(mut delivery) = dispatcher.next().await {
        loop {
            let place = dispatcher.place_of(&delivery).map(|place| (place, Instant::now()));
            let work = executor.run(delivery, &mut slot_timer).await;
            let place = place.map(|(place, began)| (place, began.elapsed()));
            // A full outbox means that Redis takes no outcomes: the slot waits, and reading stops with it.
            outbox.push(work).await;
            dispatcher.done(place);
            // Quick jobs never wait for anything, so other tasks get their turn here.
            tokio::task::coop::consume_budget().await;
            match dispatcher.try_next() {
                Some(next) => delivery = next,
                None => break,
            }
        }
    }
}

/// Gives back what waits in this process for others of its type or key, once another worker should have a chance.
async fn relieve(dispatcher: Arc<Dispatcher>, outbox: Arc<Outbox>, queue: QueueName, events: Events) {
    let mut reported = 0;
    loop {
        tokio::time::sleep(RELIEVE_EVERY).await;
        let waiting = dispatcher.in_backlog();
        if std::mem::replace(&mut reported, waiting) != waiting {
            events.of_queue(&queue, QueueEvent::Limited { waiting });
        }
        for (delivery, delay) in dispatcher.overdue() {
            // Waiting here would lose it if the process stops meanwhile.
            outbox.push_now(SettlerInput::not_run(delivery, Outcome::NotDue(delay)));
        }
    }
}

/// Returns the number of threads that run handlers.
fn threads() -> usize {
    tokio::runtime::Handle::current().metrics().num_workers()
}
