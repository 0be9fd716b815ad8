//! Each event changes its own series.

use std::collections::BTreeSet;

use super::super::catalogue::{Descriptor, Values};
use super::*;
use crate::broker::{Members, QueueSnapshot, RedisMemory};
use crate::job::{FailureKind, JobId, Timestamp};
use streamfleet::event::{
    ChildEnding, DatabaseEvent, Ending, Finished, JournalReport, OutboxReport, PoolEnding, RedisEvent,
};

fn metrics(queue: &QueueName, types: &[JobType]) -> Metrics {
    let objectives = Objectives { latency: Duration::from_secs(2), dead_ratio: 0.05 };
    Metrics::new(
        [ServedQueue { name: queue, slots: 7, objectives }],
        types,
        types,
        &["php".parse().unwrap()],
        &["chat".parse().unwrap()],
        (std::slice::from_ref(queue), true),
    )
}

fn queue() -> QueueName {
    "mail".parse().unwrap()
}

fn job_type(name: &str) -> JobType {
    name.parse().unwrap()
}

fn finished<'a>(queue: &'a QueueName, job_type: &'a JobType, job: &'a JobId, ending: Ending) -> Event<'a> {
    let mut ended = Finished::malformed(queue, job, "");
    (ended.job_type, ended.ending, ended.attempts) = (Some(job_type), ending, 3);
    ended.age = Some(Duration::from_secs(90));
    Event::Finished(ended)
}

fn started<'a>(queue: &'a QueueName, job_type: &'a JobType, job: &'a JobId, wait: Duration) -> Event<'a> {
    Event::Started { queue, job_type, job, attempt: 1, wait }
}

fn value(rendered: &str, series: &str) -> Option<f64> {
    let line = rendered.lines().find_map(|line| line.strip_prefix(series));
    line.map(|rest| rest.trim().parse().unwrap())
}

#[test]
fn known_series_are_zero_before_anything_happens() {
    let rendered = metrics(&queue(), &[job_type("send")]).render();
    for series in [
        r#"streamfleet_jobs_started_total{queue="mail",job_type="send"}"#,
        r#"streamfleet_jobs_finished_total{queue="mail",job_type="send",outcome="dead"}"#,
        r#"streamfleet_job_failures_total{queue="mail",job_type="send",reason="panic"}"#,
        r#"streamfleet_jobs_started_total{queue="mail",job_type="_unknown"}"#,
        r#"streamfleet_jobs_started_late_total{queue="mail",job_type="send"}"#,
        r#"streamfleet_job_attempts_count{queue="mail",job_type="send"}"#,
        r#"streamfleet_child_processes_total{job_type="send",outcome="not_started"}"#,
        r#"streamfleet_queue_entries_added_total{queue="mail",lane="low"}"#,
        r#"streamfleet_dead_jobs_evicted_total{queue="mail"}"#,
        r#"streamfleet_redis_command_duration_seconds_count{command="promote"}"#,
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
    let metrics = metrics(&queue, std::slice::from_ref(&send));
    let running = |metrics: &Metrics| value(&metrics.render(), r#"streamfleet_jobs_running{queue="mail"}"#);
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
fn unknown_types_and_surplus_types_share_labels() {
    let queue = queue();
    let types: Vec<_> = (0..PAIRS_MAX + 9).map(|n| job_type(&format!("t{n}"))).collect();
    let metrics = metrics(&queue, &types);
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
fn what_campaigns_and_the_archive_do_is_counted() {
    let queue = queue();
    let metrics = metrics(&queue, &[]);
    let count = |name: &str| value(&metrics.render(), &format!("streamfleet_{name}{{queue=\"mail\"}}"));
    for replayed in [3, 4] {
        let queue = &queue;
        metrics.record(&Event::Queue {
            queue,
            event: QueueEvent::Campaigns { running: 2, replayed, succeeded: 5, died: 1 },
        });
    }
    metrics.record(&Event::Queue {
        queue: &queue,
        event: QueueEvent::CampaignStopped { campaign: "00ff", why: "canary" },
    });
    metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::Archived { letters: 20 } });
    metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::ArchiveFailed { why: "canary" } });
    let jobs = ["replayed", "succeeded", "died"].map(|what| count(&format!("campaign_jobs_{what}_total")));
    assert_eq!(jobs, [Some(7.0), Some(10.0), Some(2.0)]);
    assert_eq!([count("campaigns_running"), count("campaigns_stopped_total")], [Some(2.0), Some(1.0)]);
    let archive = [count("dead_jobs_archived_total"), count("dead_archive_failures_total")];
    assert_eq!(archive, [Some(20.0), Some(1.0)]);
    metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::Leading { leading: false } });
    assert_eq!(count("campaigns_running"), Some(0.0));
    assert!(!metrics.render().contains("canary"));
}

#[test]
fn submitted_and_skipped_ticks_are_counted() {
    let (queue, entry) = (queue(), "nightly".parse().unwrap());
    let metrics = metrics(&queue, &[]);
    metrics.record(&Event::Queue {
        queue: &queue,
        event: QueueEvent::CronTicked { entry: &entry, jobs: 2, late: Duration::ZERO },
    });
    metrics
        .record(&Event::Queue { queue: &queue, event: QueueEvent::CronSkipped { entry: &entry, ticks: 7 } });
    let count = |name: &str| value(&metrics.render(), &format!("streamfleet_{name}{{queue=\"mail\"}}"));
    assert_eq!([count("cron_ticks_total"), count("cron_skipped_total")], [Some(2.0), Some(7.0)]);
}

#[test]
fn jobs_that_wait_for_others_of_their_type_are_shown() {
    let queue = queue();
    let metrics = metrics(&queue, &[]);
    let limited = || value(&metrics.render(), r#"streamfleet_worker_limited_jobs{queue="mail"}"#);
    assert_eq!(limited(), Some(0.0));
    metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::Limited { waiting: 4 } });
    assert_eq!(limited(), Some(4.0));
}

#[test]
fn the_runtime_metrics_are_those_of_the_handlers() {
    let runtime = |threads| tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build();
    let (handlers, others) = (runtime(3).unwrap(), runtime(1).unwrap());
    let metrics = handlers.block_on(async { metrics(&queue(), &[]) });
    others.block_on(async { metrics.upkeep() });
    assert_eq!(value(&metrics.render(), "streamfleet_tokio_workers"), Some(3.0));
}

#[test]
fn lag_is_that_of_the_last_seconds() {
    let queue = queue();
    let metrics = metrics(&queue, &[]);
    let lag =
        |metrics: &Metrics| value(&metrics.render(), r#"streamfleet_scheduler_lag_seconds{queue="mail"}"#);
    for late in [900, 1500, 40] {
        metrics.record(&Event::Queue {
            queue: &queue,
            event: QueueEvent::Promoted { jobs: 1, late: Duration::from_millis(late) },
        });
    }
    metrics.upkeep();
    assert_eq!(lag(&metrics), Some(1.5));
    metrics.upkeep();
    assert_eq!(lag(&metrics), Some(0.0));
}

#[test]
fn late_starts_and_job_completions_are_counted() {
    let (queue, send, job) = (queue(), job_type("send"), "a".parse().unwrap());
    let metrics = metrics(&queue, std::slice::from_ref(&send));
    for wait in [1990, 2000, 2001, 60_000] {
        metrics.record(&started(&queue, &send, &job, Duration::from_millis(wait)));
    }
    for ending in [Ending::Retried, Ending::Interrupted, Ending::Succeeded, Ending::Cancelled] {
        metrics.record(&finished(&queue, &send, &job, ending));
    }
    metrics.record(&Event::Finished(Finished::malformed(&queue, &job, "no type")));
    let rendered = metrics.render();
    let of = |name: &str, more: &str| {
        value(&rendered, &format!("streamfleet_{name}{{queue=\"mail\",job_type=\"send\"{more}}}"))
    };
    assert_eq!(of("jobs_started_late_total", ""), Some(2.0));
    assert_eq!([of("job_attempts_count", ""), of("job_attempts_sum", "")], [Some(2.0), Some(6.0)]);
    assert_eq!(of("job_attempts_bucket", ",le=\"2\""), Some(0.0));
    assert_eq!(of("job_completion_seconds_sum", ""), Some(180.0));
    let unknown = r#"streamfleet_job_attempts_count{queue="mail",job_type="_unknown"}"#;
    assert_eq!(value(&rendered, unknown), Some(0.0));
}

#[test]
fn a_former_leader_reports_0_so_the_maximum_is_right() {
    let queue = queue();
    let metrics = metrics(&queue, &[]);
    let leading =
        |leading| metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::Leading { leading } });
    let mut memory = RedisMemory::default();
    (memory.used, memory.max, memory.is_eviction_safe) = (10, 20, true);
    let mut members = Members::default();
    members.live = 2;
    let mut snapshot = QueueSnapshot::default();
    (snapshot.now, snapshot.next_due) = (Timestamp::from_ms(9_000).unwrap(), Timestamp::from_ms(1_000));
    (snapshot.due_soon, snapshot.members, snapshot.memory) = (4, Some(members), Some(memory));
    let tell = |added: [u64; 3]| {
        let mut snapshot = snapshot.clone();
        for (lane, added) in snapshot.lanes.iter_mut().zip(added) {
            (lane.waiting, lane.running, lane.added) = (1, 2, Some(added));
        }
        let (cron_overdue, took) = (Duration::from_secs(3), Duration::ZERO);
        metrics.record(&Event::Queue {
            queue: &queue,
            event: QueueEvent::Surveyed { snapshot: &snapshot, cron_overdue, took },
        });
    };
    leading(true);
    metrics.record(&Event::Queue { queue: &queue, event: QueueEvent::PromoterPolled });
    tell([5, 6, 7]);
    tell([5, 8, 2]);
    let told = [
        r#"streamfleet_queue_jobs{queue="mail",state="waiting"}"#,
        r#"streamfleet_queue_backlog_jobs{queue="mail"}"#,
        r#"streamfleet_queue_overdue_seconds{queue="mail"}"#,
        r#"streamfleet_cron_overdue_seconds{queue="mail"}"#,
        r#"streamfleet_queue_consumers{queue="mail",state="live"}"#,
        "streamfleet_redis_memory_used_bytes",
        "streamfleet_redis_eviction_safe",
    ];
    let read = || told.map(|series| value(&metrics.render(), series).unwrap());
    assert_eq!(read(), [3.0, 13.0, 8.0, 3.0, 2.0, 10.0, 1.0]);
    let added = ["high", "normal", "low"].map(|lane| {
        let series = format!("streamfleet_queue_entries_added_total{{queue=\"mail\",lane=\"{lane}\"}}");
        value(&metrics.render(), &series)
    });
    assert_eq!(added, [Some(0.0), Some(2.0), Some(2.0)]);
    leading(false);
    assert_eq!(read(), [0.0; 7]);
    for when in ["collector_last_success", "scheduler_last_tick"] {
        let series = format!("streamfleet_{when}_timestamp_seconds{{queue=\"mail\"}}");
        assert_eq!(value(&metrics.render(), &series), Some(0.0), "{when}");
    }
}

#[test]
fn programs_and_round_trips_are_counted_by_their_labels() {
    let (queue, send) = (queue(), job_type("send"));
    let metrics = metrics(&queue, std::slice::from_ref(&send));
    for job_type in [&send, &job_type("stranger")] {
        metrics.record(&Event::Program(ProgramEvent::ChildEnded { job_type, ending: ChildEnding::Signal }));
    }
    for command in ["promote", "a new one"] {
        metrics.record(&Event::Redis(RedisEvent::RoundTrip { command, took: Duration::from_micros(300) }));
    }
    let rendered = metrics.render();
    for series in [
        r#"streamfleet_child_processes_total{job_type="send",outcome="signal"}"#,
        r#"streamfleet_child_processes_total{job_type="_other",outcome="signal"}"#,
        r#"streamfleet_redis_command_duration_seconds_bucket{command="promote",le="0.0005"}"#,
        r#"streamfleet_redis_command_duration_seconds_count{command="other"}"#,
    ] {
        assert_eq!(value(&rendered, series), Some(1.0), "{series} in\n{rendered}");
    }
}

#[test]
fn the_rendered_metrics_are_those_of_the_catalogue() {
    let (queue, send) = (queue(), job_type("send"));
    let rendered = metrics(&queue, std::slice::from_ref(&send)).render();
    let typed: BTreeSet<_> = rendered.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let want: BTreeSet<_> =
        catalogue::metrics().map(|metric| format!("{} {}", metric.name, metric.kind.as_str())).collect();
    assert_eq!(typed, want.iter().map(String::as_str).collect());
    assert_eq!(rendered.matches("# HELP").count(), want.len());
}

#[test]
fn labels_have_the_names_and_values_of_the_catalogue() {
    let (queue, send) = (queue(), job_type("send"));
    let rendered = metrics(&queue, std::slice::from_ref(&send)).render();
    for Descriptor { name, labels, .. } in catalogue::metrics() {
        let series = rendered.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) || rest.starts_with("_bucket{")
        });
        let mut seen = 0;
        for line in series {
            seen += 1;
            let inside = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            let pairs = inside.map_or("", |(pairs, _)| pairs).split(',').filter(|pair| !pair.is_empty());
            let pairs: Vec<_> = pairs.filter_map(|pair| pair.split_once('=')).collect();
            let pairs = pairs.iter().filter(|(label, _)| *label != "le");
            for (at, (label, value)) in pairs.enumerate() {
                assert_eq!(*label, labels[at].name, "{line}");
                if let Values::Closed(known) = labels[at].values {
                    assert!(known.contains(&value.trim_matches('"')), "{line}");
                }
            }
        }
        assert!(seen > 0, "{name} has no series");
    }
}

#[test]
fn pools_show_their_programs_and_how_these_end() {
    let metrics = metrics(&queue(), &[]);
    let pool = "php".parse().unwrap();
    let (name, rendered) = ("streamfleet_pool_restarts_total", metrics.render());
    for ending in PoolEnding::ALL {
        let series = format!("{name}{{pool=\"php\",reason=\"{}\"}}", ending.as_str());
        assert_eq!(value(&rendered, &series), Some(0.0), "{series} in\n{rendered}");
    }
    metrics.record(&Event::Program(ProgramEvent::Pool {
        pool: &pool,
        busy: 3,
        idle: 2,
        starting: 1,
        leaving: 4,
        memory: 4096,
    }));
    metrics.record(&Event::Program(ProgramEvent::PoolEnded {
        pool: &pool,
        ending: PoolEnding::Cut,
        why: "canary",
    }));
    let rendered = metrics.render();
    for (series, want) in [
        (r#"streamfleet_pool_processes{pool="php",state="busy"}"#, 3.0),
        (r#"streamfleet_pool_processes{pool="php",state="idle"}"#, 2.0),
        (r#"streamfleet_pool_processes{pool="php",state="starting"}"#, 1.0),
        (r#"streamfleet_pool_processes{pool="php",state="leaving"}"#, 4.0),
        (r#"streamfleet_pool_memory_bytes{pool="php"}"#, 4096.0),
        (r#"streamfleet_pool_restarts_total{pool="php",reason="cut"}"#, 1.0),
    ] {
        assert_eq!(value(&rendered, series), Some(want), "{series} in\n{rendered}");
    }
    assert!(!rendered.contains("canary"), "{rendered}");
}

#[test]
fn what_happens_between_a_process_and_databases_is_counted_only_if_it_has_some() {
    let queue = queue();
    let metrics = metrics(&queue, &[]);
    let waiting = JournalReport { ends: 7, oldest: Duration::from_secs(90), ..JournalReport::default() };
    let rows = OutboxReport { rows: 3, refused: 1, oldest: Duration::from_secs(5) };
    for event in [
        DatabaseEvent::Written { queue: &queue, ends: 5 },
        DatabaseEvent::Journal { queue: &queue, waiting },
        DatabaseEvent::Spilled { queue: &queue, files: 2, bytes: 4096 },
        DatabaseEvent::HistoryFailed { queue: &queue, class: "transient" },
        DatabaseEvent::Relayed { rows: 4, refused: 1 },
        DatabaseEvent::Outbox { waiting: rows },
        DatabaseEvent::OutboxFailed { class: "redis" },
    ] {
        metrics.record(&Event::Database(event));
    }
    let rendered = metrics.render();
    for (series, want) in [
        (r#"history_ends_written_total{queue="mail"}"#, 5.0),
        (r#"history_journal_ends{queue="mail"}"#, 7.0),
        (r#"history_journal_oldest_age_seconds{queue="mail"}"#, 90.0),
        (r#"history_spilled_files{queue="mail"}"#, 2.0),
        (r#"history_errors_total{queue="mail",class="transient"}"#, 1.0),
        (r#"history_errors_total{queue="mail",class="poison"}"#, 0.0),
        ("outbox_rows_relayed_total", 4.0),
        ("outbox_refused_rows", 1.0),
        ("outbox_oldest_age_seconds", 5.0),
        (r#"outbox_errors_total{class="redis"}"#, 1.0),
    ] {
        assert_eq!(value(&rendered, &format!("streamfleet_{series}")), Some(want), "{series} in\n{rendered}");
    }
    metrics.record(&Event::Database(DatabaseEvent::JournalLeft { queue: &queue }));
    metrics.record(&Event::Database(DatabaseEvent::OutboxLeft));
    let rendered = metrics.render();
    for series in [r#"history_journal_ends{queue="mail"}"#, "outbox_refused_rows"] {
        assert_eq!(
            value(&rendered, &format!("streamfleet_{series}")),
            Some(0.0),
            "another process reports it"
        );
    }
    let without = Metrics::new([], &[], &[], &[], &[], (&[], false)).render();
    let others = ["streamfleet_history", "streamfleet_outbox"];
    assert!(!others.iter().any(|other| without.contains(other)), "{without}");
}
