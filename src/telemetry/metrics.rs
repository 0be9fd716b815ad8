//! Events as figures, in the text form that Prometheus reads.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Counter, Gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use rustc_hash::FxHashMap;

use super::catalogue::{self, CATALOGUE, Kind};
use super::series::{AudienceSeries, Maker, PAIRS_MAX, QueueSeries};
use crate::broker;
use crate::event::{Event, Finished};
use crate::job::{JobType, QueueName};

/// How often [`Metrics::upkeep`] must run: it moves observations from a list that grows into buckets that do not.
pub(super) const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The figures of one process. Not global: each process of a fleet in a program has its own.
#[derive(Clone)]
pub struct Metrics {
    shared: Arc<Shared>,
}

struct Shared {
    handle: PrometheusHandle,
    queues: FxHashMap<QueueName, QueueSeries>,
    redis_up: Gauge,
    draining: Gauge,
    redis_errors: [Counter; broker::Error::KINDS.len()],
    audience: AudienceSeries,
}

impl Metrics {
    /// Figures for a process that serves these queues, with so many slots each, and has handlers for these types. All
    /// their series are there from the start.
    pub fn new<'a>(queues: impl IntoIterator<Item = (&'a QueueName, usize)>, types: &[JobType]) -> Self {
        let recorder = bucketed().expect("every histogram has buckets").build_recorder();
        let maker = Maker(&recorder);
        maker.describe();
        let mut room = PAIRS_MAX;
        let queues = queues.into_iter().map(|(queue, slots)| {
            maker.gauge(&catalogue::CONCURRENCY, &[queue.as_str()]).set(slots as f64);
            (queue.clone(), QueueSeries::new(&maker, queue, types, &mut room))
        });
        let queues = queues.collect();
        let revision = option_env!("STREAMFLEET_REVISION").unwrap_or("unknown");
        maker.gauge(&catalogue::BUILD, &[env!("CARGO_PKG_VERSION"), revision]).set(1.0);
        let shared = Shared {
            handle: recorder.handle(),
            queues,
            redis_up: maker.gauge(&catalogue::REDIS_UP, &[]),
            draining: maker.gauge(&catalogue::DRAINING, &[]),
            audience: AudienceSeries::new(&maker),
            redis_errors: broker::Error::KINDS.map(|kind| maker.counter(&catalogue::REDIS_ERRORS, &[kind])),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A listener that records every event here.
    pub fn listener(&self) -> Arc<dyn Fn(&Event<'_>) + Send + Sync> {
        let metrics = self.clone();
        Arc::new(move |event| metrics.record(event))
    }

    /// Records one event.
    pub fn record(&self, event: &Event<'_>) {
        match *event {
            Event::Started { queue, job_type, wait, job: _, attempt: _ } => self.with(queue, |series| {
                let of_type = series.of(Some(job_type));
                of_type.started.increment(1);
                of_type.wait.record(wait.as_secs_f64());
                series.running.increment(1.0);
            }),
            Event::Ran { queue, job_type, elapsed } => self.with(queue, |series| {
                series.of(Some(job_type)).duration.record(elapsed.as_secs_f64());
                series.running.decrement(1.0);
            }),
            Event::Finished(Finished { queue, job_type, ending, .. }) => {
                self.with(queue, |series| series.of(job_type).finished(ending).increment(1));
            }
            Event::Failed { queue, job_type, kind, job: _, error: _ } => {
                self.with(queue, |series| series.of(Some(job_type)).failure(kind).increment(1));
            }
            Event::Fenced { queue } => self.with(queue, |series| series.fenced.increment(1)),
            Event::LeaseLost { queue } => self.with(queue, |series| series.leases_lost.increment(1)),
            Event::Claimed { queue, jobs } => self.with(queue, |series| series.reclaimed.increment(jobs)),
            Event::BodiesLost { queue, entries } => {
                self.with(queue, |series| series.bodies_lost.increment(entries));
            }
            Event::Promoted { queue, jobs, late } => self.with(queue, |series| {
                series.promoted.increment(jobs);
                series.late(late);
            }),
            Event::CronTicked { queue, jobs, entry: _, late: _ } => {
                self.with(queue, |series| series.cron_ticks.increment(jobs as u64));
            }
            Event::CronSkipped { queue, ticks, entry: _ } => {
                self.with(queue, |series| series.cron_skipped.increment(ticks as u64));
            }
            Event::GroupRecreated { queue } => {
                self.with(queue, |series| series.groups_recreated.increment(1));
            }
            Event::Leading { queue, leading } => self.with(queue, |series| series.lead(leading)),
            Event::QueueLength { queue, waiting, running, delayed, dead, oldest_waiting } => {
                let jobs = [waiting, running, delayed, dead];
                self.with(queue, |series| series.long(jobs, oldest_waiting.unwrap_or_default()));
            }
            Event::HookFailed { kind, hook: _, error: _ } => self.shared.audience.failed(kind),
            Event::Published { events } => self.shared.audience.published.increment(events),
            Event::Exported { spans } => self.shared.audience.spans_exported.increment(spans),
            Event::Unexported { spans, loss, why: _ } => self.shared.audience.dropped(loss, spans),
            Event::Untold { whom, facts } => self.shared.audience.untold(whom, facts),
            Event::Read { queue, entries: _ } => {
                self.with(queue, |series| series.last_poll.set(unix_seconds()));
            }
            Event::RedisError { kind, error: _ } => self.redis_error(kind),
            Event::Contact { alive } => self.shared.redis_up.set(f64::from(u8::from(alive))),
            Event::Stopping => self.shared.draining.set(1.0),
        }
    }

    /// All figures, as Prometheus reads them.
    pub fn render(&self) -> String {
        self.shared.handle.render()
    }

    /// Keeps memory bounded and the figures of the last seconds fresh.
    pub fn upkeep(&self) {
        self.shared.handle.run_upkeep();
        self.shared.queues.values().for_each(QueueSeries::tick);
    }

    /// Events of queues that this process does not serve are nobody's.
    fn with(&self, queue: &QueueName, record: impl FnOnce(&QueueSeries)) {
        if let Some(series) = self.shared.queues.get(queue) {
            record(series);
        }
    }

    fn redis_error(&self, kind: &str) {
        let at = broker::Error::KINDS.iter().position(|known| *known == kind);
        if let Some(at) = at {
            self.shared.redis_errors[at].increment(1);
        }
    }
}

fn bucketed() -> Result<PrometheusBuilder, BuildError> {
    CATALOGUE.iter().try_fold(PrometheusBuilder::new(), |builder, descriptor| match descriptor.kind {
        Kind::Histogram(bounds) => {
            builder.set_buckets_for_metric(Matcher::Full(descriptor.name.to_owned()), bounds)
        }
        Kind::Counter | Kind::Gauge => Ok(builder),
    })
}

#[expect(clippy::disallowed_methods, reason = "Prometheus compares it with its own clock, not with Redis's")]
fn unix_seconds() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::Ending;
    use crate::job::{FailureKind, JobId};

    fn queue() -> QueueName {
        "mail".parse().unwrap()
    }

    fn job_type(name: &str) -> JobType {
        name.parse().unwrap()
    }

    fn finished<'a>(
        queue: &'a QueueName,
        job_type: &'a JobType,
        job: &'a JobId,
        ending: Ending,
    ) -> Event<'a> {
        let (job_type, elapsed) = (Some(job_type), Duration::ZERO);
        let attempt = 1;
        Event::Finished(Finished { queue, job_type, job, attempt, ending, error: None, delay: None, elapsed })
    }

    fn started<'a>(queue: &'a QueueName, job_type: &'a JobType, job: &'a JobId, wait: Duration) -> Event<'a> {
        Event::Started { queue, job_type, job, attempt: 1, wait }
    }

    fn value(rendered: &str, series: &str) -> Option<f64> {
        let line = rendered.lines().find_map(|line| line.strip_prefix(series));
        line.map(|rest| rest.trim().parse().unwrap())
    }

    #[test]
    fn known_series_are_there_as_zero_before_anything_happens() {
        let rendered = Metrics::new([(&queue(), 7)], &[job_type("send")]).render();
        for series in [
            r#"streamfleet_jobs_started_total{queue="mail",job_type="send"}"#,
            r#"streamfleet_jobs_finished_total{queue="mail",job_type="send",outcome="dead"}"#,
            r#"streamfleet_job_failures_total{queue="mail",job_type="send",reason="panic"}"#,
            r#"streamfleet_jobs_started_total{queue="mail",job_type="_unknown"}"#,
            r#"streamfleet_redis_errors_total{kind="configuration"}"#,
            "streamfleet_redis_up",
        ] {
            assert_eq!(value(&rendered, series), Some(0.0), "{series} in\n{rendered}");
        }
        assert_eq!(value(&rendered, r#"streamfleet_worker_concurrency{queue="mail"}"#), Some(7.0));
    }

    #[test]
    fn an_attempt_is_counted_from_start_to_end() {
        let (queue, send, job) = (queue(), job_type("send"), "a".parse().unwrap());
        let metrics = Metrics::new([(&queue, 1)], std::slice::from_ref(&send));
        let running =
            |metrics: &Metrics| value(&metrics.render(), r#"streamfleet_jobs_running{queue="mail"}"#);
        metrics.record(&started(&queue, &send, &job, Duration::from_millis(3)));
        assert_eq!(running(&metrics), Some(1.0));
        metrics.record(&Event::Ran { queue: &queue, job_type: &send, elapsed: Duration::from_secs(2) });
        let kind = FailureKind::Timeout;
        metrics.record(&Event::Failed { queue: &queue, job_type: &send, job: &job, kind, error: "canary" });
        metrics.record(&finished(&queue, &send, &job, Ending::Retried));
        assert_eq!(running(&metrics), Some(0.0));
        let rendered = metrics.render();
        for series in [
            r#"streamfleet_jobs_started_total{queue="mail",job_type="send"}"#,
            r#"streamfleet_jobs_finished_total{queue="mail",job_type="send",outcome="retried"}"#,
            r#"streamfleet_job_failures_total{queue="mail",job_type="send",reason="timeout"}"#,
            r#"streamfleet_job_duration_seconds_bucket{queue="mail",job_type="send",le="2.5"}"#,
            r#"streamfleet_job_wait_seconds_bucket{queue="mail",job_type="send",le="0.005"}"#,
        ] {
            assert_eq!(value(&rendered, series), Some(1.0), "{series} in\n{rendered}");
        }
        assert!(!rendered.contains("canary"), "{rendered}");
    }

    #[test]
    fn types_without_a_handler_share_a_label_and_so_do_too_many_types() {
        let queue = queue();
        let types: Vec<_> = (0..PAIRS_MAX + 9).map(|n| job_type(&format!("t{n}"))).collect();
        let metrics = Metrics::new([(&queue, 1)], &types);
        let job = "a".parse().unwrap();
        for name in ["t0", "t203", "t205", "stranger", "another"] {
            metrics.record(&finished(&queue, &job_type(name), &job, Ending::Succeeded));
        }
        let rendered = metrics.render();
        let count = |label: &str| {
            let labels = format!("queue=\"mail\",job_type=\"{label}\",outcome=\"succeeded\"");
            value(&rendered, &format!("streamfleet_jobs_finished_total{{{labels}}}"))
        };
        assert_eq!([count("t0"), count("_other"), count("_unknown")], [Some(1.0), Some(2.0), Some(2.0)]);
        assert_eq!(count("t205"), None);
    }

    #[test]
    fn ticks_of_recurring_jobs_are_counted_where_they_are_submitted_and_where_they_are_skipped() {
        let (queue, entry) = (queue(), "nightly".parse().unwrap());
        let metrics = Metrics::new([(&queue, 1)], &[]);
        metrics.record(&Event::CronTicked { queue: &queue, entry: &entry, jobs: 2, late: Duration::ZERO });
        metrics.record(&Event::CronSkipped { queue: &queue, entry: &entry, ticks: 7 });
        let count = |name: &str| value(&metrics.render(), &format!("streamfleet_{name}{{queue=\"mail\"}}"));
        assert_eq!([count("cron_ticks_total"), count("cron_skipped_total")], [Some(2.0), Some(7.0)]);
    }

    #[test]
    fn lag_is_that_of_the_last_seconds() {
        let queue = queue();
        let metrics = Metrics::new([(&queue, 1)], &[]);
        let lag = |metrics: &Metrics| {
            value(&metrics.render(), r#"streamfleet_scheduler_lag_seconds{queue="mail"}"#)
        };
        for late in [900, 1500, 40] {
            metrics.record(&Event::Promoted { queue: &queue, jobs: 1, late: Duration::from_millis(late) });
        }
        metrics.upkeep();
        assert_eq!(lag(&metrics), Some(1.5));
        metrics.upkeep();
        assert_eq!(lag(&metrics), Some(0.0));
    }

    #[test]
    fn what_is_rendered_is_what_the_catalogue_has() {
        let (queue, send) = (queue(), job_type("send"));
        let metrics = Metrics::new([(&queue, 1)], std::slice::from_ref(&send));
        metrics.record(&started(&queue, &send, &"a".parse().unwrap(), Duration::ZERO));
        metrics.record(&Event::Ran { queue: &queue, job_type: &send, elapsed: Duration::ZERO });
        let rendered = metrics.render();
        let typed: BTreeSet<_> = rendered.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let want: BTreeSet<_> = CATALOGUE
            .iter()
            .map(|descriptor| {
                let kind = match descriptor.kind {
                    Kind::Counter => "counter",
                    Kind::Gauge => "gauge",
                    Kind::Histogram(_) => "histogram",
                };
                format!("{} {kind}", descriptor.name)
            })
            .collect();
        assert_eq!(typed, want.iter().map(String::as_str).collect());
        assert_eq!(rendered.matches("# HELP").count(), CATALOGUE.len());
    }

    #[test]
    fn names_follow_the_rules() {
        for Descriptor { name, kind, unit, .. } in CATALOGUE {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(name.ends_with(unit), "{name}");
        }
    }

    use super::super::Descriptor;
}
