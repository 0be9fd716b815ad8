//! The fleet that is measured: it runs in this process, with handlers that only count or take times.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use streamfleet::dev_server::DevServer;
use streamfleet::event::Events;
use streamfleet::job::{Backoff, Policy};
use streamfleet::telemetry::{Metrics, ServedQueue};
use streamfleet::worker::QueueConfig;
use streamfleet::{Fleet, FleetConfig, Handler, JobContext, JobError, RawPayload, Shutdown};
use tokio::task::JoinSet;

/// What the handlers of one measurement have recorded.
#[derive(Clone)]
pub(super) struct MeasuringHandler {
    begun: Instant,
    done: Arc<AtomicUsize>,
    late_us: Arc<Mutex<Vec<u64>>>,
    fails_first: bool,
    timed: bool,
}

impl MeasuringHandler {
    /// Handlers that only count.
    pub(super) fn counting() -> Self {
        Self {
            begun: Instant::now(),
            done: Arc::default(),
            late_us: Arc::default(),
            fails_first: false,
            timed: false,
        }
    }

    /// Handlers that compare the time in the payload with the current time.
    pub(super) fn timing() -> Self {
        Self { timed: true, ..Self::counting() }
    }

    /// Handlers whose first attempt fails.
    pub(super) fn failing_first() -> Self {
        Self { fails_first: true, ..Self::counting() }
    }

    /// Returns a payload with the time at which the job should start: `ahead` from now.
    pub(super) fn due(&self, ahead: Duration) -> Vec<u8> {
        let micros = u64::try_from((self.begun.elapsed() + ahead).as_micros()).unwrap_or(u64::MAX);
        micros.to_string().into_bytes()
    }

    /// Returns how many jobs have succeeded.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until this many jobs have succeeded.
    pub(super) async fn until(&self, jobs: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(120);
        while self.done.load(Ordering::Relaxed) < jobs {
            if Instant::now() > deadline {
                bail!(
                    "timed out: only {} of {jobs} jobs were done within 120 s",
                    self.done.load(Ordering::Relaxed)
                );
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Returns a percentile of the lateness, in milliseconds.
    pub(super) fn late_ms(&self, percentile: f64) -> f64 {
        let mut late = self.late_us.lock().unwrap_or_else(PoisonError::into_inner).clone();
        late.sort_unstable();
        let at = ((late.len() as f64 - 1.0) * percentile).round().max(0.0) as usize;
        late.get(at).map_or(f64::NAN, |us| *us as f64 / 1000.0)
    }

    fn note(&self, payload: &[u8]) {
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let due = std::str::from_utf8(payload).ok().and_then(|text| text.parse::<u64>().ok());
        if let Some(due) = due {
            self.late_us.lock().unwrap_or_else(PoisonError::into_inner).push(now.saturating_sub(due));
        }
    }
}

impl Handler for MeasuringHandler {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        if self.timed {
            self.note(&payload.0);
        }
        if self.fails_first && context.attempt() == 1 {
            return Err(JobError::retry("the first attempt fails"));
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A running fleet.
pub(super) struct Running {
    shutdown: Shutdown,
    tasks: JoinSet<()>,
}

impl Running {
    /// Starts a fleet with this handler.
    pub(super) fn start(server: &DevServer, concurrency: usize, handler: &MeasuringHandler) -> Result<Self> {
        let mut config = FleetConfig::default();
        config.redis.url = server.url();
        let queue = QueueConfig::default().concurrency(concurrency);
        config.worker.queues = [(super::QUEUE.parse()?, queue)].into();
        let backoff = Backoff::Fixed(Duration::from_millis(10));
        let policy = Policy::default().backoff(backoff);
        // With metrics, as a worker runs.
        let queues = config.worker.queues.iter();
        let queues = queues.map(|(name, queue)| ServedQueue::new(name, queue.concurrency));
        let metrics = Metrics::new(queues, &[super::TYPE.parse()?], &[]);
        let events = Events::new(vec![metrics.listener()]);
        let fleet =
            Fleet::builder(config).handler_with(super::TYPE, policy, handler.clone())?.events(events).build();
        let shutdown = Shutdown::new();
        let stop = shutdown.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(error) = fleet.run(stop).await {
                tracing::error!(%error, "the measured fleet ended");
            }
        });
        Ok(Self { shutdown, tasks })
    }

    /// Stops it gracefully.
    pub(super) async fn stop(mut self) {
        self.shutdown.request();
        while self.tasks.join_next().await.is_some() {}
    }
}
