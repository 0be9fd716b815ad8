//! Assembles a process of the fleet (handlers, worker, maintenance), runs it, and stops its parts in order.

mod config;
mod ending;
mod hand_over;
mod name;
mod origin;
mod pools;
mod reproduce;
mod version;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::config::Config;
use self::hand_over::{Carrier, Connected};
use self::pools::Pools;
use self::version::warn_of_version;
use crate::autoscale::Autoscale;
use crate::broker::mutex::lock;
use crate::broker::{self, Broker};
use crate::cron::{Entry, Source};
use crate::event::{Event, Events, RedisEvent};
use crate::handlers::Pool;
use crate::health::Probe;
use crate::hooks::{self, Dispatch, ErasedHook, Hook};
#[cfg(feature = "testing")]
use crate::job::QueueName;
use crate::job::{ConsumerName, InvalidName, Job, JobType, Policy, jittered, type_of};
use crate::maintenance;
use crate::recycle::Recycler;
use crate::reload::Reload;
use crate::shutdown::Shutdown;
use crate::statistics::{self, Counter};
use crate::traces::Tracer;
use crate::worker::{self, Handler, Middleware, Registry, Served, Steps, Worker};

/// Assembles a process of the fleet.
///
/// ```no_run
/// # async fn run(handler: impl streamfleet::Handler) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::{Fleet, FleetConfig, Shutdown};
///
/// let fleet = Fleet::builder(FleetConfig::default()).handler_for("mail.send", handler)?.build();
/// fleet.run(Shutdown::new()).await?;
/// # Ok(()) }
/// ```
pub struct Builder {
    config: Config,
    registry: Registry,
    hooks: Vec<Arc<dyn ErasedHook>>,
    events: Events,
    cron: Vec<Entry>,
    tracer: Option<Tracer>,
    /// Each with the group of places that its types share.
    pools: Vec<(Pool, usize)>,
    reload: Reload,
}

/// A process of the fleet, ready to run; see the [example](Builder).
pub struct Fleet {
    config: Config,
    registry: Arc<Registry>,
    hooks: Vec<Arc<dyn ErasedHook>>,
    events: Events,
    cron: Vec<Entry>,
    tracer: Option<Tracer>,
    pools: Vec<Pool>,
    reload: Reload,
    consumer: ConsumerName,
    probe: Probe,
    scale: Autoscale,
    connected: Connected,
}

impl Fleet {
    /// Starts to assemble a process.
    pub fn builder(config: Config) -> Builder {
        Builder {
            config,
            registry: Registry::default(),
            hooks: Vec::new(),
            events: Events::default(),
            cron: Vec::new(),
            tracer: None,
            pools: Vec::new(),
            reload: Reload::new(),
        }
    }

    /// Returns the probe of this process, which can be asked before and while the process runs.
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }

    /// Returns the load figures for an autoscaler, which can be read before and while the process runs.
    pub fn autoscale(&self) -> Autoscale {
        self.scale.clone()
    }

    /// The consumer name under which this process joins the groups of its queues.
    pub fn consumer(&self) -> &ConsumerName {
        &self.consumer
    }

    /// Works until `shutdown` is requested, the worker has reached its `max_jobs`, `max_lifetime` or `max_rss`, or an operator ends
    /// it; then stops gracefully. If Redis cannot be reached yet, waits for it, and says so in the log, or on standard error if
    /// there is no log.
    ///
    /// # Errors
    ///
    /// [`RedisError::Address`](crate::RedisError::Address) if the address is unusable, a value of the configuration or of a policy
    /// is out of its bounds, or the program of a pool does not serve a type of the pool, because waiting cannot fix that.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), broker::Error> {
        // Before the first contact with Redis, so that an unusable value is reported at once.
        self.check()?;
        let recycler = Recycler::new(&self.config.worker).map_err(broker::Error::Address)?;
        let (dispatch, events) =
            Dispatch::new(&self.config.events, &self.hooks, &self.events, &self.consumer);
        let counter = Counter::new(self.config.worker.queues.keys(), &self.registry.types());
        let events = events.and(counter.listener());
        // Before the worker, so that programs are ready when jobs come.
        let mut pools = Pools::start(&self.pools, &events, &self.reload);
        let Some(mut worker) = self.start(&shutdown, &events).await? else {
            pools.stop().await;
            return Ok(());
        };
        let recycler = recycler.of_worker(worker.quota(), worker.duty());
        warn_of_version(&worker).await;
        self.probe.set_working(worker.broker(), worker.liveness().clone(), worker.queue_health());
        self.scale.started(worker.queues());
        let (stop, stop_dispatch) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = dispatch.start(worker.broker(), worker.queues(), &stop_dispatch);
        let mut reports = statistics::start(&counter, worker.queues(), &self.events, &stop_dispatch);
        self.log_unserved_entries();
        tracing::info!(consumer = %self.consumer, "working");
        let mut maintained = JoinSet::new();
        let mut due = std::pin::pin!(recycler.due(&self.probe));
        let mut refusal = None;
        loop {
            tokio::select! {
                biased;
                () = shutdown.requested() => break,
                // This does not request `shutdown`: a signal that arrives from here on counts as the first one, and
                // does not hurry.
                reason = &mut due => {
                    tracing::info!(%reason, "recycling: a new process can start");
                    break;
                }
                Some(why) = pools.refusals.recv() => {
                    refusal = Some(why);
                    break;
                }
                Some(served) = worker.served() => {
                    maintained.spawn(maintenance::run(self.maintenance(&worker, served, &events, &stop)));
                }
            }
        }
        tracing::info!("stopping: taking no new jobs, letting running ones finish");
        self.events.emit(&Event::Stopping);
        self.probe.set_stopping();
        self.pools.iter().for_each(Pool::drain);
        stop.cancel();
        ending::stop(worker, maintained, shutdown.hurry()).await;
        pools.stop().await;
        stop_dispatch.cancel();
        let delivered = async { while tasks.join_next().await.is_some() {} };
        // These end by themselves within two seconds.
        let reported = async { while reports.join_next().await.is_some() {} };
        let (delivered, ()) = tokio::join!(tokio::time::timeout(hooks::STOP_TIMEOUT, delivered), reported);
        if delivered.is_err() {
            tracing::warn!("notifications about the last jobs were dropped");
        }
        tracing::info!("stopped");
        refusal.map_or(Ok(()), |why| Err(broker::Error::Address(why)))
    }

    /// Refuses values that are out of their bounds.
    fn check(&self) -> Result<(), broker::Error> {
        let wrong = self.config.check().into_iter().chain(self.registry.check());
        let wrong: Vec<String> = wrong.map(|wrong| wrong.to_string()).collect();
        if wrong.is_empty() { Ok(()) } else { Err(broker::Error::Address(wrong.join("; "))) }
    }

    /// Returns what the maintenance of a queue that this process has joined needs.
    fn maintenance(
        &self,
        worker: &Worker,
        served: Served,
        events: &Events,
        stop: &CancellationToken,
    ) -> maintenance::Context {
        let Served { queue, lease, health } = served;
        let own = self.cron.iter().filter(|entry| entry.queue() == queue.name());
        let config = &self.config.worker;
        maintenance::Context {
            tracking: config.queue(queue.name()).tracking,
            retention: config.retention_of(queue.name()),
            letters: config.letters_of(queue.name()),
            archive: archive_of(&config.archive, &queue),
            unroutable_after: config.unroutable_after,
            cron: own.cloned().collect(),
            broker: worker.broker().clone(),
            queue,
            consumer: self.consumer.clone(),
            lease,
            policies: Arc::new(self.registry.policies()),
            events: events.clone(),
            age: worker.age(),
            gauge_every: self.config.events.queue_length_every,
            consumers: Arc::new(move |count| health.set_consumers(count)),
            liveness: worker.liveness().clone(),
            stop: stop.clone(),
        }
    }

    /// Logs the recurring jobs that this process defines for queues it does not serve.
    fn log_unserved_entries(&self) {
        let queues = &self.config.worker.queues;
        for entry in self.cron.iter().filter(|entry| !queues.contains_key(entry.queue())) {
            tracing::info!(entry = %entry.name(), queue = %entry.queue(), "a recurring job belongs to a queue that this process does not serve");
        }
    }

    /// Starts the worker as soon as Redis can be reached; `None` if shutdown comes first. The worker itself retries the
    /// queues that it cannot join then.
    async fn start(&self, shutdown: &Shutdown, events: &Events) -> Result<Option<Worker>, broker::Error> {
        let (mut pause, mut warned) = (Duration::from_millis(200), false);
        loop {
            let connected = tokio::select! {
                biased;
                () = shutdown.requested() => return Ok(None),
                connected = self.connect(events) => connected,
            };
            // Once connected, the worker is started to the end, so that it can stop gracefully.
            let started = match connected {
                Ok(broker) => self.start_on(broker, events).await,
                Err(error) => Err(error),
            };
            let error = match started {
                Ok(worker) => return Ok(Some(worker)),
                Err(error @ broker::Error::Address(_)) => return Err(error),
                Err(error) => error,
            };
            self.probe.set_waiting();
            self.events.redis_error(error.kind(), &error);
            let at = self.config.redis.shown();
            tracing::warn!(%error, redis = at, retry_in = ?pause, "cannot start yet");
            if !std::mem::replace(&mut warned, true) {
                self.warn_without_logs(&error);
            }
            tokio::select! {
                () = tokio::time::sleep(jittered(pause, 0.5..1.5, rand::random())) => {}
                () = shutdown.requested() => return Ok(None),
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// Says on standard error that Redis cannot be reached, if the program has installed nothing that shows log lines.
    #[expect(clippy::print_stderr, reason = "waiting in silence would look like a hang")]
    fn warn_without_logs(&self, error: &broker::Error) {
        if !tracing::dispatcher::has_been_set() {
            let at = self.config.redis.shown();
            eprintln!(
                "streamfleet: waiting for redis at {at}: {error} (install a tracing subscriber to see logs)"
            );
        }
    }

    async fn connect(&self, events: &Events) -> Result<Broker, broker::Error> {
        let events = events.clone();
        let meter: broker::Meter = Arc::new(move |reading| events.emit(&metered(reading)));
        Broker::connect_metered(self.config.redis.clone(), meter).await
    }

    async fn start_on(&self, broker: Broker, events: &Events) -> Result<Worker, broker::Error> {
        let (consumer, registry) = (self.consumer.clone(), Arc::clone(&self.registry));
        *lock(&self.connected) = Some(broker.clone());
        Worker::start(broker, consumer, &self.config.worker, registry, events.clone(), self.tracer).await
    }
}

/// Returns where a queue's letters go, if anywhere.
fn archive_of(archive: &worker::DeadArchive, queue: &broker::Queue) -> Option<maintenance::Archive> {
    let rotation = (archive.rotate_size, archive.rotate_after);
    Some(maintenance::Archive::new(queue.name().clone(), archive.folder.clone()?, rotation))
}

/// Converts a connection's reading to an event.
fn metered(reading: broker::Reading) -> Event<'static> {
    match reading {
        broker::Reading::Trip { command, took } => Event::Redis(RedisEvent::RoundTrip { command, took }),
        broker::Reading::Reconnected(times) => Event::Redis(RedisEvent::Reconnected { times }),
    }
}

impl Builder {
    /// Adds a handler for the type of its payload, with [its own policy](Handler::policy).
    #[must_use]
    pub fn handler<H>(mut self, handler: H) -> Self
    where
        H: Handler,
        H::Payload: Job,
    {
        self.register(type_of::<H::Payload>(), handler.policy(), handler);
        self
    }

    /// Adds a handler for this type, with [its own policy](Handler::policy). Use it if the payload has no type of its
    /// own, such as [`RawPayload`](crate::RawPayload).
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the type breaks the rule for types.
    pub fn handler_for(self, job_type: &str, handler: impl Handler) -> Result<Self, InvalidName> {
        let policy = handler.policy();
        self.handler_with(job_type, policy, handler)
    }

    /// Adds a handler for this type, with another policy than its own.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::handler_for`].
    pub fn handler_with(
        mut self,
        job_type: &str,
        policy: Policy,
        handler: impl Handler,
    ) -> Result<Self, InvalidName> {
        self.register(job_type.parse()?, policy, handler);
        Ok(self)
    }

    /// Adds a type whose jobs are made of steps. The policy applies to every step that sets none of its own.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::handler_for`].
    pub fn steps(mut self, job_type: &str, policy: Policy, steps: Steps) -> Result<Self, InvalidName> {
        self.registry.add_steps(job_type.parse()?, policy, steps);
        Ok(self)
    }

    /// Adds a type made of steps whose name is known to be valid.
    #[doc(hidden)]
    pub fn register_steps(&mut self, job_type: JobType, policy: Policy, steps: Steps) {
        self.registry.add_steps(job_type, policy, steps);
    }

    /// Adds a handler for a type whose name is known to be valid.
    #[doc(hidden)]
    pub fn register(&mut self, job_type: JobType, policy: Policy, handler: impl Handler) {
        self.registry.add(job_type, policy, handler);
    }

    /// Wraps a middleware around the handlers of all types, inside the middleware that was added before.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.registry.wrap(None, middleware);
        self
    }

    /// Wraps a middleware around the handler of one type, inside the middleware that was added before.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::handler_for`].
    pub fn middleware_for(
        mut self,
        job_type: &str,
        middleware: impl Middleware,
    ) -> Result<Self, InvalidName> {
        self.registry.wrap(Some(job_type.parse()?), middleware);
        Ok(self)
    }

    /// Adds a recurring job. Every process that has it writes it to Redis at startup if it differs from the stored one.
    /// A process that does not serve the entry's queue ignores it.
    #[must_use]
    pub fn cron(mut self, entry: Entry) -> Self {
        self.cron.push(entry.from_source(Source::Config));
        self
    }

    /// Buries jobs whose payload does not fit the schema of their type, before they start. Producers should have the same
    /// schemas; see the [example](crate::schema::Schemas).
    #[must_use]
    pub fn schemas(mut self, schemas: crate::schema::Schemas) -> Self {
        self.registry.schemas = schemas;
        self
    }

    /// Decodes payloads before handlers and middleware see them. See the [example](crate::codecs::Codecs).
    #[must_use]
    pub fn codecs(mut self, codecs: crate::codecs::Codecs) -> Self {
        self.registry.decode(codecs);
        self
    }

    /// Notifies this hook about the jobs that the process handles.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Moves the fleet to another Redis, where every job leaves a record.
    #[cfg(feature = "testing")]
    pub(crate) fn on_private_server(mut self, url: secrecy::SecretString) -> Self {
        let namespace = self.config.redis.namespace.clone();
        self.config.redis = broker::Config::default().url(url).namespace(namespace);
        self.registry.track_all();
        self
    }

    /// The Redis to connect to, and the queues to serve.
    #[cfg(feature = "testing")]
    pub(crate) fn address_and_queues(&self) -> (broker::Config, Vec<QueueName>) {
        (self.config.redis.clone(), self.config.worker.queues.keys().cloned().collect())
    }

    /// The types that have a handler, sorted.
    pub fn types(&self) -> Vec<JobType> {
        self.registry.types()
    }

    /// Returns how many slots a queue with this concurrency has.
    #[doc(hidden)]
    pub fn slots(&self, concurrency: usize) -> usize {
        self.registry.slots(concurrency)
    }

    /// Makes a `tracing` span of every attempt, with the job's `traceparent` as its parent; see `docs/tracing.md`. The
    /// process's subscriber needs a layer for OpenTelemetry: that of [`Traces`](crate::traces::Traces), or a
    /// `tracing-opentelemetry` layer of your own. Without the feature `otlp` there are no spans.
    #[must_use]
    pub fn traced(self) -> Self {
        Self { tracer: Tracer::new(), ..self }
    }

    /// Sends the process's events to `events`.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Builds the process, and gives it a name of its own.
    pub fn build(mut self) -> Fleet {
        let pools: Vec<Pool> = self.pools.into_iter().map(|(pool, _)| pool).collect();
        if !pools.is_empty() {
            let own = pools.clone();
            self.registry.pools_down = Some(Arc::new(move || own.iter().filter_map(Pool::down).collect()));
        }
        let connected = Connected::default();
        self.registry.hand_over_by(hand_over::policy(), Carrier::new(Arc::clone(&connected)));
        Fleet {
            connected,
            scale: Autoscale::new(self.config.worker.queues.keys().cloned()),
            config: self.config,
            registry: Arc::new(self.registry),
            hooks: self.hooks,
            events: self.events,
            cron: self.cron,
            tracer: self.tracer,
            pools,
            reload: self.reload,
            consumer: name::consumer(),
            probe: Probe::default(),
        }
    }
}
