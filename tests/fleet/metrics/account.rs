//! The metrics of a worker agree with what happened.

use harness::metrics::{SOON, Scraped, submit};
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::wait::until;

const TYPES: &str = r#"
[worker]
lease = "2s"
[queues.default]
concurrency = 4
[queues.default.objectives]
latency = "1m"
dead_ratio = 0.2
[types.note]
handler = "noop"
timeout = "7m"
[types.fail]
handler = { exec = { command = ["false"] } }
max_attempts = 3
backoff = { fixed = "10ms" }
[types.missing]
handler = { exec = { command = ["/no/such/program"] } }
max_attempts = 1
[types.slow]
handler = { exec = { command = ["sleep", "600"] } }
timeout = "500ms"
max_attempts = 1
[types.long]
handler = { exec = { command = ["sleep", "600"] } }
"#;

/// Appends entries dated ten minutes ago: they are late whenever they start.
fn submit_long_ago(server: &RedisServer, jobs: u32) {
    let then = server.now_ms() - 600_000;
    for nth in 1..=jobs {
        let id = format!("{then}-{nth}");
        server.cmd(&["XADD", "sf:{default}:jobs", &id, "type", "note"]);
    }
}

#[test]
fn a_workers_metrics_agree_with_what_happened() {
    let server = RedisServer::start();
    submit_long_ago(&server, 5);
    let worker = Scraped::start(&server.url(), TYPES);
    (0..20).for_each(|_| submit(&server, "note"));
    ["fail", "missing", "slow"].into_iter().for_each(|job_type| submit(&server, job_type));
    let finished = |job_type: &str, outcome: &str| {
        worker.value(&format!(
            "jobs_finished_total{{queue=\"default\",job_type=\"{job_type}\",outcome=\"{outcome}\"}}"
        ))
    };
    until("every job has ended", SOON, || {
        let dead = ["fail", "missing", "slow"].map(|job_type| finished(job_type, "dead"));
        finished("note", "succeeded") == 25.0 && dead == [1.0; 3]
    });
    let figures = worker.scrape();
    let of = |name: &str, job_type: &str, more: &str| {
        figures.value(&format!("{name}{{queue=\"default\",job_type=\"{job_type}\"{more}}}"))
    };
    assert_eq!(
        [of("jobs_started_total", "note", ""), of("jobs_started_late_total", "note", "")],
        [25.0, 5.0]
    );
    assert_eq!(of("job_wait_seconds_bucket", "note", ",le=\"300\""), 20.0);
    let completed = ["300", "1800", "+Inf"]
        .map(|bound| of("job_completion_seconds_bucket", "note", &format!(",le=\"{bound}\"")));
    assert_eq!(completed, [20.0, 25.0, 25.0]);
    // One attempt of each note; three of the job that fails; no abandoned attempt counts twice.
    let attempts = ["note", "fail", "missing", "slow"].map(|job_type| of("job_attempts_sum", job_type, ""));
    assert_eq!(attempts, [25.0, 3.0, 1.0, 1.0]);
    assert_eq!(of("job_attempts_bucket", "fail", ",le=\"2\""), 0.0);
    assert_eq!(of("jobs_finished_total", "fail", ",outcome=\"retried\""), 2.0);
    let failures = [("fail", "error"), ("missing", "error"), ("slow", "timeout")]
        .map(|(job_type, reason)| of("job_failures_total", job_type, &format!(",reason=\"{reason}\"")));
    assert_eq!(failures, [3.0, 1.0, 1.0]);
    let children =
        [("fail", "failed"), ("missing", "not_started"), ("slow", "timeout")].map(|(job_type, outcome)| {
            figures.value(&format!("child_processes_total{{job_type=\"{job_type}\",outcome=\"{outcome}\"}}"))
        });
    assert_eq!(children, [3.0, 1.0, 1.0]);
    let of_queue = ["lease", "timeout", "latency_objective"]
        .map(|name| figures.value(&format!("queue_{name}_seconds{{queue=\"default\"}}")));
    assert_eq!(of_queue, [2.0, 420.0, 60.0]);
    assert_eq!(figures.value("queue_dead_ratio_objective{queue=\"default\"}"), 0.2);
    assert_eq!(figures.value("jobs_running{queue=\"default\"}"), 0.0);
    assert!(figures.value("process_resident_memory_bytes") > 1e6 && figures.value("tokio_workers") >= 1.0);
}

#[test]
fn the_longest_running_attempt_is_reported_while_it_runs() {
    let server = RedisServer::start();
    let worker = Scraped::start(&server.url(), TYPES);
    submit(&server, "long");
    let oldest = || worker.value("jobs_running_oldest_seconds{queue=\"default\"}");
    until("it has run for a while", SOON, || oldest() > 1.5);
    worker.worker.term();
    worker.worker.interrupt();
}

#[test]
fn reconnects_are_counted_and_blocking_reads_are_not_measured() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let worker = Scraped::start(&server.url_through(proxy.addr()), TYPES);
    submit(&server, "note");
    let polled = || worker.value("worker_last_poll_timestamp_seconds{queue=\"default\"}");
    until("a first read", SOON, || polled() > 0.0);
    let first = polled();
    until("a read has returned nothing", SOON, || polled() > first + 1.9);
    for command in ["xreadgroup", "acknowledge", "lead", "beat", "promote", "snapshot"] {
        let series = format!("redis_command_duration_seconds_count{{command=\"{command}\"}}");
        until(&format!("{command} is measured"), SOON, || worker.value(&series) >= 1.0);
    }
    let (figures, reads) = (worker.scrape(), "{command=\"xreadgroup\"");
    let soon = figures.value(&format!("redis_command_duration_seconds_bucket{reads},le=\"1\"}}"));
    assert_eq!(soon, figures.value(&format!("redis_command_duration_seconds_count{reads}}}")));
    // A busy machine may have cost connections.
    let before = figures.value("redis_reconnects_total");
    proxy.set(Mode::Rst);
    until("redis is away", SOON, || worker.value("redis_up") == 0.0);
    proxy.set(Mode::Pass);
    until("connections were made again", SOON, || worker.value("redis_reconnects_total") > before);
}
