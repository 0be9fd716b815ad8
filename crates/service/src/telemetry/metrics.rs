//! Events as metrics, in Prometheus's text format.

use std::sync::Arc;
use std::time::Duration;

use metrics::Gauge;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use rustc_hash::FxHashMap;

use super::catalogue;
use super::objectives::Objectives;
use super::process::ProcessFigures;
use super::series::{
    AlertSeries, ChildSeries, DatabaseSeries, Maker, NotificationSeries, PAIRS_MAX, PoolSeries, QueueSeries,
    RedisSeries, Rendered, RuntimeSeries,
};
use crate::job::{JobType, PoolName, QueueName, SinkName};
use streamfleet::event::{AlertEvent, Event, ProgramEvent, QueueEvent};

/// How often [`Metrics::upkeep`] must run.
pub(crate) const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The metrics of one process. They are not global: if a program runs several processes of a fleet, each has its own.
#[derive(Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

struct Shared {
    handle: PrometheusHandle,
    rendered: Rendered,
    queues: FxHashMap<QueueName, QueueSeries>,
    draining: Gauge,
    redis: RedisSeries,
    notification: NotificationSeries,
    children: ChildSeries,
    pools: PoolSeries,
    alerts: AlertSeries,
    databases: DatabaseSeries,
    runtime: RuntimeSeries,
    process: ProcessFigures,
}

/// A queue that a process serves.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ServedQueue<'a> {
    /// Its name.
    pub name: &'a QueueName,
    /// How many of its handlers run at the same time.
    pub slots: usize,
    /// Its service objectives.
    pub objectives: Objectives,
}

impl<'a> ServedQueue<'a> {
    /// Returns the queue of this name, of which this many handlers run at the same time, with the default objectives.
    pub fn new(name: &'a QueueName, slots: usize) -> Self {
        Self { name, slots, objectives: Objectives::default() }
    }

    setters! {
        /// Sets the queue's service objectives.
        objectives: Objectives;
    }
}

impl Metrics {
    /// Creates metrics for a process that serves these queues, has handlers for these types, of which `programs` run
    /// a program per job, runs these pools, and sends messages to these sinks. It may write the history of some queues, and relay an
    /// outbox. All their series exist from the start. The runtime's metrics describe the runtime that calls this.
    pub fn new<'a>(
        queues: impl IntoIterator<Item = ServedQueue<'a>>,
        types: &[JobType],
        programs: &[JobType],
        pools: &[PoolName],
        sinks: &[SinkName],
        (history, has_outbox): (&[QueueName], bool),
    ) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let maker = Maker::new(&recorder);
        let mut left = PAIRS_MAX;
        let queues = queues.into_iter().map(|ServedQueue { name, slots, objectives }| {
            maker.gauge(&catalogue::CONCURRENCY, &[name.as_str()]).set(slots as f64);
            (name.clone(), QueueSeries::new(&maker, name, objectives, types, &mut left))
        });
        let queues = queues.collect();
        let revision = option_env!("STREAMFLEET_REVISION").unwrap_or("unknown");
        maker.gauge(&catalogue::BUILD, &[env!("CARGO_PKG_VERSION"), revision]).set(1.0);
        let shared = Shared {
            handle: recorder.handle(),
            queues,
            draining: maker.gauge(&catalogue::DRAINING, &[]),
            redis: RedisSeries::new(&maker),
            notification: NotificationSeries::new(&maker),
            children: ChildSeries::new(&maker, programs),
            pools: PoolSeries::new(&maker, pools),
            alerts: AlertSeries::new(&maker, sinks),
            databases: DatabaseSeries::new(&maker, history, has_outbox),
            runtime: RuntimeSeries::new(&maker),
            process: ProcessFigures::new(),
            rendered: maker.finish(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns a listener that records every event here.
    pub fn listener(&self) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let metrics = self.clone();
        Arc::new(move |event| metrics.record(event))
    }

    /// Records one event.
    pub fn record(&self, event: &Event<'_>) {
        let Shared { redis, notification, children, pools, alerts, databases, draining, .. } = &*self.shared;
        match *event {
            Event::Started { queue, job_type, wait, job: _, attempt: _ } => {
                self.with(queue, |series| series.start(job_type, wait));
            }
            Event::Ran { queue, job_type, elapsed } => {
                self.with(queue, |series| series.ran(job_type, elapsed));
            }
            Event::Finished(ref end) => self.with(end.queue, |series| series.of(end.job_type).finish(end)),
            Event::Failed { queue, job_type, kind, job: _, error: _ } => {
                self.with(queue, |series| series.of(Some(job_type)).fail(kind));
            }
            Event::Lost { queue, job_type } => self.with(queue, |series| series.of(Some(job_type)).lose()),
            Event::Queue { queue, event } => self.record_of_queue(queue, event),
            Event::Program(ProgramEvent::ChildEnded { job_type, ending }) => children.ended(job_type, ending),
            Event::Program(ProgramEvent::Pool { pool, busy, idle, starting, leaving, memory }) => {
                pools.set(pool, [busy, idle, starting, leaving], memory);
            }
            Event::Program(ProgramEvent::PoolEnded { pool, ending, why: _ }) => pools.ended(pool, ending),
            Event::Redis(event) => redis.record(event),
            Event::Report(event) => notification.record(event),
            Event::Alert(AlertEvent::Incidents { kind, open }) => alerts.set(kind, open),
            Event::Alert(AlertEvent::Sent { sink, incidents: _ }) => alerts.sent(sink),
            Event::Alert(AlertEvent::Failed { sink, why: _, is_given_up }) => {
                alerts.failed(sink, is_given_up)
            }
            // The number of open incidents says it.
            Event::Alert(AlertEvent::IncidentChanged { .. }) => {}
            Event::Database(event) => databases.record(event),
            Event::Stopping => draining.set(1.0),
        }
    }

    /// Records an event of a queue, and what it says about the queue's server.
    fn record_of_queue(&self, queue: &QueueName, event: QueueEvent<'_>) {
        self.with(queue, |series| series.record(event));
        if let QueueEvent::Leading { leading } = event {
            self.shared.redis.lead(queue, leading);
        }
        if let QueueEvent::Surveyed { snapshot, .. } = event {
            snapshot.memory.into_iter().for_each(|memory| self.shared.redis.memory(memory));
        }
    }

    /// Returns all metrics in Prometheus's text format.
    pub fn render(&self) -> String {
        let mut text = self.shared.handle.render();
        self.shared.rendered.write(&mut text);
        self.shared.process.write(&mut text);
        text
    }

    /// Keeps memory bounded and short-lived values up to date.
    pub fn upkeep(&self) {
        self.shared.handle.run_upkeep();
        self.shared.runtime.sample();
        self.shared.queues.values().for_each(QueueSeries::tick);
    }

    /// Ignores events of queues that this process does not serve.
    fn with(&self, queue: &QueueName, record: impl FnOnce(&QueueSeries)) {
        if let Some(series) = self.shared.queues.get(queue) {
            record(series);
        }
    }
}

#[cfg(test)]
mod tests;
