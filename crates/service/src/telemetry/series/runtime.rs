//! The series of the runtime that runs the handlers.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use metrics::Gauge;
use streamfleet_engine::mutex::lock;
use tokio::runtime::{Handle, RuntimeMetrics};

use super::Maker;
use crate::telemetry::catalogue;

/// The series of the runtime.
pub(in super::super) struct RuntimeSeries {
    /// The runtime that created the series. Upkeep may run in another one.
    runtime: Option<RuntimeMetrics>,
    workers: Gauge,
    busy: Gauge,
    tasks: Gauge,
    queued: Gauge,
    /// The time of the last measurement, and how long its threads had been busy by then.
    before: Mutex<Option<(Instant, Duration)>>,
}

impl RuntimeSeries {
    /// Creates series for the current runtime, if there is one.
    pub(in super::super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            runtime: Handle::try_current().ok().map(|runtime| runtime.metrics()),
            workers: maker.gauge(&catalogue::TOKIO_WORKERS, &[]),
            busy: maker.gauge(&catalogue::TOKIO_BUSY, &[]),
            tasks: maker.gauge(&catalogue::TOKIO_TASKS, &[]),
            queued: maker.gauge(&catalogue::TOKIO_QUEUED, &[]),
            before: Mutex::default(),
        }
    }

    /// Measures the runtime.
    pub(in super::super) fn sample(&self) {
        let Some(runtime) = &self.runtime else { return };
        let (now, busy) = (Instant::now(), busy(runtime));
        let before = lock(&self.before).replace((now, busy));
        self.workers.set(runtime.num_workers() as f64);
        self.tasks.set(runtime.num_alive_tasks() as f64);
        self.queued.set(runtime.global_queue_depth() as f64);
        if let Some((then, busy_then)) = before {
            let passed = now.duration_since(then) * u32::try_from(runtime.num_workers()).unwrap_or(1);
            self.busy.set(ratio(busy.saturating_sub(busy_then), passed));
        }
    }
}

/// Returns how long all threads together have been busy.
fn busy(runtime: &RuntimeMetrics) -> Duration {
    (0..runtime.num_workers()).map(|worker| runtime.worker_total_busy_duration(worker)).sum()
}

/// Returns the busy fraction, at most 1. A long busy period is recorded only when it ends, so it may exceed the time
/// since the last measurement.
fn ratio(busy: Duration, passed: Duration) -> f64 {
    if passed.is_zero() { 0.0 } else { (busy.as_secs_f64() / passed.as_secs_f64()).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_threads_are_never_busier_than_time_allows() {
        let second = Duration::from_secs(1);
        assert_eq!(ratio(second, 4 * second), 0.25);
        assert_eq!((ratio(9 * second, second), ratio(second, Duration::ZERO)), (1.0, 0.0));
    }
}
