//! The leader reports a queue's state, and the maximum over all processes is right.

use harness::metrics::{SOON, Scraped, submit};
use harness::redis_server::RedisServer;
use harness::wait::until;

const TYPES: &str = r#"
[worker]
lease = "1s"
[types.note]
handler = "noop"
[cron.yearly]
schedule = "0 0 1 1 *"
type = "note"
"#;

/// Returns the gauges of this test's queue that only the leader reports.
fn leader_figures(scraped: &Scraped) -> [f64; 6] {
    let figures = scraped.scrape();
    [
        "queue_jobs{queue=\"default\",state=\"delayed\"}",
        "queue_jobs{queue=\"default\",state=\"dead\"}",
        "queue_backlog_jobs{queue=\"default\"}",
        "scheduler_leader{queue=\"default\"}",
        "redis_eviction_safe",
        "cron_overdue_seconds{queue=\"default\"}",
    ]
    .map(|series| figures.value(series))
}

#[test]
fn the_maximum_over_workers_is_right_even_after_the_leader_is_killed() {
    let server = RedisServer::start();
    for delay in ["58000", "3600000", "3600000"] {
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "note", "delay_ms", delay]);
    }
    server.cmd(&["XADD", "sf:{default}:dead", "1700000000000-1", "type", "note"]);
    let (one, other) = (Scraped::start(&server.url(), TYPES), Scraped::start(&server.url(), TYPES));
    // Three are delayed, and one of them is due within a minute.
    let want = [3.0, 1.0, 1.0, 1.0, 1.0, 0.0];
    let both = || [leader_figures(&one), leader_figures(&other)];
    let leads = until("one of them to report everything, and the other nothing", SOON, || {
        let [one, other] = both();
        if one == want && other == [0.0; 6] {
            Some(0)
        } else {
            (other == want && one == [0.0; 6]).then_some(1)
        }
    });
    let (leader, heir) = if leads == 0 { (one, other) } else { (other, one) };
    let live = "queue_consumers{queue=\"default\",state=\"live\"}";
    until("both are members", SOON, || leader.value(live) == 2.0);
    let figures = leader.scrape();
    assert!(figures.value("dead_jobs_oldest_seconds{queue=\"default\"}") > 3600.0);
    for when in ["collector_last_success", "scheduler_last_tick"] {
        let series = format!("{when}_timestamp_seconds{{queue=\"default\"}}");
        assert!(figures.value(&series) > 1.7e9, "{when}");
        assert_eq!(heir.value(&series), 0.0, "{when}");
    }
    assert!(figures.value("collector_duration_seconds{queue=\"default\"}") > 0.0);
    assert!(figures.value("redis_memory_used_bytes") > 1e5);
    leader.worker.kill9();
    until("the other one to report it", SOON, || leader_figures(&heir) == want);
    let added = "queue_entries_added_total{queue=\"default\",lane=\"normal\"}";
    let before = heir.value(added);
    (0..7).for_each(|_| submit(&server, "note"));
    until("what is added is counted", SOON, || heir.value(added) - before == 7.0);
}

#[test]
fn a_graceful_stop_leaves_no_queue_metrics_behind() {
    let server = RedisServer::start();
    let config =
        format!("{TYPES}[types.long]\nhandler = {{ exec = {{ command = [\"sleep\", \"600\"] }} }}\n");
    let worker = Scraped::start(&server.url(), &config);
    submit(&server, "long");
    let running = "queue_jobs{queue=\"default\",state=\"running\"}";
    // The leader counts every job that a worker has. The worker gives one that it has not begun back, and stops at once.
    let begun = "jobs_running{queue=\"default\"}";
    until("the job to run and be reported", SOON, || {
        worker.value(begun) == 1.0 && worker.value(running) == 1.0
    });
    worker.worker.term();
    until("it has stopped leading", SOON, || leader_figures(&worker) == [0.0; 6]);
    assert_eq!((worker.value(running), worker.value("worker_draining")), (0.0, 1.0));
    worker.worker.interrupt();
}

#[test]
fn the_successor_counts_the_attempt_of_a_killed_worker_as_lost() {
    let server = RedisServer::start();
    let config =
        "[worker]\nlease = \"1s\"\n[types.long]\nhandler = { exec = { command = [\"sleep\", \"600\"] } }\n";
    let first = Scraped::start(&server.url(), config);
    submit(&server, "long");
    until("it runs", SOON, || first.value("jobs_running{queue=\"default\"}") == 1.0);
    let heir = Scraped::start(&server.url(), config);
    first.worker.kill9();
    let lost = "job_failures_total{queue=\"default\",job_type=\"long\",reason=\"lost\"}";
    let retried = "jobs_finished_total{queue=\"default\",job_type=\"long\",outcome=\"retried\"}";
    until("the retry is counted, after the loss", SOON, || heir.value(retried) == 1.0);
    assert_eq!(heir.value(lost), 1.0);
    assert_eq!(heir.value("jobs_reclaimed_total{queue=\"default\",reason=\"idle\"}"), 1.0);
}
