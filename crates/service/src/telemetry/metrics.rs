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
    AlertSeries, ChildSeries, Maker, NotificationSeries, PAIRS_MAX, PoolSeries, QueueSeries, RedisSeries,
    Rendered, RuntimeSeries,
};
use super::unix_time::unix_seconds;
use crate::job::{JobType, PoolName, QueueName, SinkName};
use streamfleet::event::Event;

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
    /// a program per job, runs these pools, and sends messages to these sinks. All their series exist from the start. The runtime's metrics describe the runtime that calls
    /// this.
    pub fn new<'a>(
        queues: impl IntoIterator<Item = ServedQueue<'a>>,
        types: &[JobType],
        programs: &[JobType],
        pools: &[PoolName],
        sinks: &[SinkName],
    ) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let maker = Maker::new(&recorder);
        let mut room = PAIRS_MAX;
        let queues = queues.into_iter().map(|ServedQueue { name, slots, objectives }| {
            maker.gauge(&catalogue::CONCURRENCY, &[name.as_str()]).set(slots as f64);
            (name.clone(), QueueSeries::new(&maker, name, objectives, types, &mut room))
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
        let Shared { redis, notification, children, pools, alerts, draining, .. } = &*self.shared;
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
            Event::ChildEnded { job_type, ending } => children.ended(job_type, ending),
            Event::PoolPrograms { pool, busy, idle, starting, leaving, memory } => {
                pools.set(pool, [busy, idle, starting, leaving], memory);
            }
            Event::PoolProgramEnded { pool, ending, why: _ } => pools.ended(pool, ending),
            Event::RedisError { kind, error: _ } => redis.error(kind),
            Event::RoundTrip { command, took } => redis.trip(command, took),
            Event::Reconnected { times } => redis.reconnects.increment(times),
            Event::Contact { alive } => redis.up.set(f64::from(u8::from(alive))),
            Event::HookFailed { kind, hook: _, error: _ } => notification.failed(kind),
            Event::Published { events } => notification.published.increment(events),
            Event::NotificationsDropped { recipient, notifications } => {
                notification.notifications_dropped(recipient, notifications)
            }
            Event::Exported { spans } => notification.spans_exported.increment(spans),
            Event::Unexported { spans, loss, why: _ } => notification.dropped(loss, spans),
            Event::Stopping => draining.set(1.0),
            Event::Incidents { kind, open } => alerts.set(kind, open),
            Event::AlertSent { sink, incidents: _ } => alerts.sent(sink),
            Event::AlertFailed { sink, why: _, is_given_up } => alerts.failed(sink, is_given_up),
            // The number of open incidents says it, and a person watches a task.
            Event::IncidentChanged { .. } | Event::TaskFailed { .. } => {}
            Event::Joined { .. }
            | Event::LongestRun { .. }
            | Event::Limited { .. }
            | Event::Fenced { .. }
            | Event::Parked { .. }
            | Event::Admitted { .. }
            | Event::Sorted { .. }
            | Event::LetOut { .. }
            | Event::SetAside { .. }
            | Event::ClockSetBack { .. }
            | Event::Served { .. }
            | Event::Unserved { .. }
            | Event::LeaseLost { .. }
            | Event::Claimed { .. }
            | Event::OrphansReclaimed { .. }
            | Event::BodiesLost { .. }
            | Event::Promoted { .. }
            | Event::PromoterPolled { .. }
            | Event::Evicted { .. }
            | Event::Archived { .. }
            | Event::ArchiveFailed { .. }
            | Event::Campaigns { .. }
            | Event::CampaignStopped { .. }
            | Event::TypeUnserved { .. }
            | Event::UnservedTypes { .. }
            | Event::CronTicked { .. }
            | Event::CronSkipped { .. }
            | Event::GroupRecreated { .. }
            | Event::Leading { .. }
            | Event::Read { .. }
            | Event::QueueLength { .. }
            | Event::Surveyed { .. } => self.record_of_queue(event),
        }
    }

    /// Records an event of a queue that belongs to none of its jobs in particular.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the caller passes only these events")]
    fn record_of_queue(&self, event: &Event<'_>) {
        match *event {
            Event::Joined { queue, lease, longest_timeout } => self.with(queue, |series| {
                series.lease.set(lease.as_secs_f64());
                series.timeout.set(longest_timeout.as_secs_f64());
            }),
            Event::LongestRun { queue, elapsed } => {
                self.with(queue, |series| series.oldest_running.set(elapsed.as_secs_f64()));
            }
            Event::Limited { queue, waiting } => {
                self.with(queue, |series| series.limited.set(waiting as f64));
            }
            Event::SetAside { queue, .. } => self.with(queue, |series| series.set_aside.increment(1)),
            Event::Served { queue } => self.with(queue, |series| series.served.set(1.0)),
            Event::Unserved { queue, why: _ } => self.with(queue, |series| series.served.set(0.0)),
            Event::ClockSetBack { queue, by: _ } => {
                self.with(queue, |series| series.clock_set_back.increment(1));
            }
            Event::Fenced { queue } => self.with(queue, |series| series.fenced.increment(1)),
            Event::Parked { queue, .. }
            | Event::Admitted { queue, .. }
            | Event::Sorted { queue, .. }
            | Event::LetOut { queue, .. } => self.with(queue, |series| series.gated(event)),
            Event::LeaseLost { queue } => self.with(queue, |series| series.leases_lost.increment(1)),
            Event::Claimed { queue, jobs } => self.with(queue, |series| series.reclaimed.increment(jobs)),
            Event::OrphansReclaimed { queue, count } => {
                self.with(queue, |series| series.orphans.increment(count));
            }
            Event::BodiesLost { queue, entries } => {
                self.with(queue, |series| series.bodies_lost.increment(entries));
            }
            Event::Promoted { queue, jobs, late } => self.with(queue, |series| {
                series.promoted.increment(jobs);
                series.late(late);
            }),
            Event::PromoterPolled { queue } => self.with(queue, |series| series.state.promoter_polled()),
            Event::Evicted { queue, .. }
            | Event::Archived { queue, .. }
            | Event::ArchiveFailed { queue, .. }
            | Event::Campaigns { queue, .. }
            | Event::CampaignStopped { queue, .. } => {
                self.with(queue, |series| series.letters.record(event));
            }
            Event::UnservedTypes { queue, types, jobs } => {
                self.with(queue, |series| series.state.unserved(types, jobs));
            }
            Event::CronTicked { queue, jobs, entry: _, late: _ } => {
                self.with(queue, |series| series.cron_ticks.increment(jobs as u64));
            }
            Event::CronSkipped { queue, ticks, entry: _ } => {
                self.with(queue, |series| series.cron_skipped.increment(ticks as u64));
            }
            Event::GroupRecreated { queue } => {
                self.with(queue, |series| series.groups_recreated.increment(1));
            }
            Event::Leading { queue, leading } => {
                self.with(queue, |series| series.lead(leading));
                self.shared.redis.lead(queue, leading);
            }
            Event::Read { queue, entries: _ } => {
                self.with(queue, |series| series.last_poll.set(unix_seconds()));
            }
            Event::Surveyed { queue, snapshot, cron_overdue, took } => {
                self.with(queue, |series| series.state.set(snapshot, cron_overdue, took));
                snapshot.memory.into_iter().for_each(|memory| self.shared.redis.memory(memory));
            }
            // `QueueLength`: the survey reports the same and more. `TypeUnserved`: a type that no worker knows is no label.
            _ => {}
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
