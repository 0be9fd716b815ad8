//! The fleet that is measured: it runs in this process, with handlers that do nothing but end in the way that is
//! measured, or take times.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use streamfleet::dev_server::DevServer;
use streamfleet::event::Events;
use streamfleet::job::{Backoff, JobType, Limits, Policy};
use streamfleet::worker::QueueConfig;
use streamfleet::{Builder, Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Shutdown, Steps};
use streamfleet_engine::mutex::lock;
use streamfleet_service::telemetry::{Metrics, ServedQueue};
use tokio::task::JoinSet;

use super::tally::Tally;

/// How long a job that failed or snoozed waits.
const PAUSE: Duration = Duration::from_millis(10);

/// A limit of concurrency that no measurement reaches.
const UNREACHED: u32 = 1_000_000;

/// What the handlers of one measurement do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behavior {
    Succeed,
    ReturnResult,
    FailFirst,
    SnoozeFirst,
    Fail,
    /// Succeed, after passing the gate of their type.
    PassGate,
    /// Succeed, in a queue that is shared between the values of a header.
    Share,
    /// Succeed, each in one of three steps.
    SucceedInSteps,
    /// Run until they are cut short.
    Hold,
    /// Compare the time in the payload with the current time, and succeed.
    TakeTime,
}

/// The handlers of one measurement, and what they have recorded.
#[derive(Clone)]
pub(super) struct MeasuringHandler {
    behavior: Behavior,
    begun: Instant,
    late_us: Arc<Mutex<Vec<u64>>>,
}

impl MeasuringHandler {
    pub(super) fn new(behavior: Behavior) -> Self {
        Self { behavior, begun: Instant::now(), late_us: Arc::default() }
    }

    /// Returns a payload with the time at which the job should start: `ahead` from now.
    pub(super) fn due(&self, ahead: Duration) -> Vec<u8> {
        let micros = u64::try_from((self.begun.elapsed() + ahead).as_micros()).unwrap_or(u64::MAX);
        micros.to_string().into_bytes()
    }

    /// Returns how many jobs have started so far.
    pub(super) fn started(&self) -> usize {
        lock(&self.late_us).len()
    }

    /// Forgets those that have started, and makes room for this many.
    pub(super) fn start_over(&self, jobs: usize) {
        *lock(&self.late_us) = Vec::with_capacity(jobs);
    }

    /// Returns a percentile of the lateness, in milliseconds.
    pub(super) fn late_ms(&self, percentile: f64) -> f64 {
        let mut late = lock(&self.late_us).clone();
        late.sort_unstable();
        let at = ((late.len() as f64 - 1.0) * percentile).round().max(0.0) as usize;
        late.get(at).map_or(f64::NAN, |us| *us as f64 / 1000.0)
    }

    fn note(&self, payload: &[u8]) {
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let due = std::str::from_utf8(payload).ok().and_then(|text| text.parse::<u64>().ok());
        if let Some(due) = due {
            lock(&self.late_us).push(now.saturating_sub(due));
        }
    }

    /// Adds the types of the measured jobs to a fleet.
    fn register(&self, fleet: Builder, types: usize) -> Result<Builder> {
        let policy = Policy::default().backoff(Backoff::Fixed(PAUSE));
        let mut fleet = fleet.handler_with(super::FOLLOW_UP, policy.clone(), self.clone())?;
        for nth in 1..types {
            fleet = fleet.handler_with(&type_name(nth), policy.clone(), self.clone())?;
        }
        if self.behavior != Behavior::SucceedInSteps {
            return Ok(fleet.handler_with(super::TYPE, policy, self.clone())?);
        }
        let names = ["first", "second", "third"].into_iter();
        let steps = names.fold(Steps::builder(), |steps, name| steps.auto(name, self.clone()));
        Ok(fleet.steps(super::TYPE, policy, steps.build()?)?)
    }
}

impl Handler for MeasuringHandler {
    type Payload = RawPayload;
    type Output = Option<&'static str>;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<Self::Output, JobError> {
        match self.behavior {
            Behavior::FailFirst if context.attempt() == 1 => Err(JobError::retry("the first attempt fails")),
            Behavior::SnoozeFirst if is_first_delivery(&context) => Err(JobError::snooze(PAUSE)),
            Behavior::Succeed
            | Behavior::PassGate
            | Behavior::Share
            | Behavior::SucceedInSteps
            | Behavior::FailFirst
            | Behavior::SnoozeFirst => Ok(None),
            Behavior::ReturnResult => Ok(Some("a small result")),
            Behavior::Fail => Err(JobError::fatal("every attempt fails")),
            Behavior::Hold => std::future::pending().await,
            Behavior::TakeTime => {
                self.note(&payload.0);
                Ok(None)
            }
        }
    }
}

/// Returns true if the job's id is that of the entry that carries it now. A job that snoozed has another entry.
fn is_first_delivery(context: &JobContext) -> bool {
    context.id().origin().is_some_and(|(entry, _)| entry == context.fence())
}

/// How much a measurement is spread out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// How many fleets there are, each with connections and a consumer of its own.
    pub(super) workers: usize,
    /// How many types the jobs have.
    pub(super) types: usize,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { workers: 1, types: 1 }
    }
}

/// Returns the name of the n-th type.
pub(super) fn type_name(nth: usize) -> String {
    if nth == 0 { super::TYPE.to_owned() } else { format!("{}.{nth}", super::TYPE) }
}

/// A running fleet.
pub(super) struct Running {
    shutdown: Shutdown,
    tasks: JoinSet<()>,
}

impl Running {
    /// Starts a crowd that runs this many handlers at once, and whose events go to the tally.
    pub(super) fn start(
        server: &DevServer,
        (slots, crowd): (usize, Crowd),
        handler: &MeasuringHandler,
        tally: &Arc<Tally>,
    ) -> Result<Self> {
        let launch = Launch { server, slots, workers: crowd.workers, types: crowd.types, tally };
        launch.start(
            |config| {
                if handler.behavior == Behavior::Share {
                    for queue in config.worker.queues.values_mut() {
                        queue.fair_by = Some("h.tenant".to_owned());
                    }
                }
                if handler.behavior == Behavior::PassGate {
                    let limits = Limits::default().concurrency(UNREACHED);
                    config.worker.type_limits = [(super::TYPE.parse()?, limits)].into();
                }
                Ok(())
            },
            |fleet| handler.register(fleet, crowd.types),
        )
    }

    /// Starts a fleet with the handlers that `add` adds, which takes this many jobs beyond those that run.
    pub(super) fn with(
        server: &DevServer,
        (slots, prefetch): (usize, usize),
        tally: &Arc<Tally>,
        add: impl Fn(Builder) -> Result<Builder>,
    ) -> Result<Self> {
        let configure = |config: &mut FleetConfig| {
            config.worker.prefetch = prefetch;
            Ok(())
        };
        Launch { server, slots, workers: 1, types: 1, tally }.start(configure, add)
    }

    /// Stops it. A handler that still runs is cut short.
    pub(super) async fn stop(mut self) {
        self.shutdown.request();
        self.shutdown.request();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// What the fleets of one measurement share.
struct Launch<'a> {
    server: &'a DevServer,
    slots: usize,
    workers: usize,
    types: usize,
    tally: &'a Arc<Tally>,
}

impl Launch<'_> {
    fn start(
        &self,
        configure: impl Fn(&mut FleetConfig) -> Result<()>,
        add: impl Fn(Builder) -> Result<Builder>,
    ) -> Result<Running> {
        // With metrics, as a worker runs.
        let types: Vec<JobType> = (0..self.types)
            .map(|nth| type_name(nth).parse())
            .chain([super::FOLLOW_UP.parse()])
            .collect::<Result<_, _>>()?;
        let queue = super::QUEUE.parse()?;
        let metrics =
            Metrics::new([ServedQueue::new(&queue, self.slots)], &types, &[], &[], &[], (&[], false));
        let events = Events::new(vec![metrics.listener(), self.tally.listener()]);
        let (shutdown, mut tasks) = (Shutdown::new(), JoinSet::new());
        for _ in 0..self.workers {
            let mut config = FleetConfig::default();
            config.redis.url = self.server.url();
            let slots = QueueConfig::default().concurrency((self.slots / self.workers).max(1));
            config.worker.queues = [(queue.clone(), slots)].into();
            configure(&mut config)?;
            let fleet = add(Fleet::builder(config))?.events(events.clone()).build();
            let stop = shutdown.clone();
            tasks.spawn(async move {
                if let Err(error) = fleet.run(stop).await {
                    tracing::error!(%error, "the measured fleet ended");
                }
            });
        }
        Ok(Running { shutdown, tasks })
    }
}
