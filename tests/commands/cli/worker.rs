//! `worker`: how it starts, what it reports if it cannot, and how it stops.

use std::net::TcpListener;
use std::time::Duration;

use redis::Value;

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scrape::{address, get, series};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// A worker's configuration: `note` succeeds at once, `long` takes as long as the test.
const TYPES: &str = r#"
[worker]
lease = "2s"
[types.note]
handler = "noop"
[types.long]
handler = { exec = { command = ["sleep", "600"] } }
[telemetry]
listen = "127.0.0.1:0"
"#;

fn launch(url: &str, config: &str) -> Launch {
    Launch::new(&["--config", "{config}", "--json", "worker"])
        .env("STREAMFLEET__REDIS__URL", url)
        .config(config)
}

fn ready(worker: &Worker) -> String {
    let address = address(worker);
    until("the worker is ready", SOON, || get(&address, "/readyz").is_some_and(|(status, _)| status == 200));
    address
}

fn submit(server: &RedisServer, job_type: &str) {
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", job_type]);
}

fn succeeded(address: &str, job_type: &str) -> f64 {
    let labels = format!(r#"queue="default",job_type="{job_type}",outcome="succeeded""#);
    series(address, &format!("streamfleet_jobs_finished_total{{{labels}}}")).unwrap_or(0.0)
}

fn waiting_and_running(server: &RedisServer) -> (Value, Value) {
    let Value::Array(pending) = server.cmd(&["XPENDING", "sf:{default}:jobs", "fleet"]) else {
        panic!("XPENDING returned no list")
    };
    (server.cmd(&["XLEN", "sf:{default}:jobs"]), pending[0].clone())
}

fn until_running(address: &str) {
    until("a job runs", SOON, || {
        series(address, r#"streamfleet_jobs_running{queue="default"}"#) == Some(1.0)
    });
}

#[test]
fn a_worker_runs_and_counts_jobs_and_exits_with_0_on_sigterm() {
    let server = RedisServer::start();
    let worker = launch(&server.url(), TYPES).start();
    let address = ready(&worker);
    (0..3).for_each(|_| submit(&server, "note"));
    until("three jobs are done", SOON, || succeeded(&address, "note") == 3.0);
    let started = series(&address, r#"streamfleet_jobs_started_total{queue="default",job_type="note"}"#);
    assert_eq!(started, Some(3.0));
    // On a busy machine, the worker may have lost contact with Redis briefly.
    until("Redis is up", SOON, || series(&address, "streamfleet_redis_up") == Some(1.0));
    assert_eq!(get(&address, "/livez").map(|(status, _)| status), Some(200));
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!(server.cmd(&["XLEN", "sf:{default}:jobs"]), Value::Int(0));
}

#[test]
fn a_worker_prints_in_one_line_what_it_serves() {
    let server = RedisServer::start();
    let args =
        ["-c", "{config}", "--redis", &server.url(), "worker", "--queues", "a,b", "--concurrency", "7"];
    let worker = Launch::new(&args).config(TYPES).start();
    let line = until("the line", SOON, || Some(worker.stdout()).filter(|text| text.ends_with('\n')));
    let want =
        format!("serving a (7 at once), b (7 at once) at {} with handlers for long, note", server.url());
    assert!(line.starts_with(&want), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
}

#[test]
fn jobs_that_outlast_the_drain_timeout_are_given_back() {
    let server = RedisServer::start();
    let config = TYPES.replace("[worker]", "[worker]\ndrain_timeout = \"100ms\"");
    let worker = launch(&server.url(), &config).start();
    let address = ready(&worker);
    submit(&server, "long");
    until_running(&address);
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!(waiting_and_running(&server), (Value::Int(1), Value::Int(0)));
}

#[test]
fn a_second_signal_cuts_running_jobs_short_and_gives_them_back() {
    let server = RedisServer::start();
    let worker = launch(&server.url(), TYPES).start();
    let address = ready(&worker);
    submit(&server, "long");
    until_running(&address);
    worker.term();
    until("it drains", SOON, || get(&address, "/readyz") == Some((503, "stopping\n".to_owned())));
    assert_eq!(series(&address, "streamfleet_worker_draining"), Some(1.0));
    assert_eq!(worker.exit_status(), None);
    worker.interrupt();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!(waiting_and_running(&server), (Value::Int(1), Value::Int(0)));
}

#[test]
fn a_worker_waits_until_redis_is_up() {
    let server = RedisServer::start();
    server.kill9();
    let worker = launch(&server.url(), TYPES).start();
    let address = address(&worker);
    until("it says that redis is away", SOON, || worker.stderr().contains("cannot start yet"));
    assert_eq!(get(&address, "/readyz"), Some((503, "waiting for redis\n".to_owned())));
    assert_eq!(get(&address, "/livez").map(|(status, _)| status), Some(200));
    server.restart();
    ready(&worker);
    submit(&server, "note");
    until("the job is done", SOON, || succeeded(&address, "note") == 1.0);
}

#[test]
fn a_worker_that_waits_for_redis_stops_on_sigterm() {
    let server = RedisServer::start();
    server.kill9();
    let worker = launch(&server.url(), TYPES).start();
    until("it says that redis is away", SOON, || worker.stderr().contains("cannot start yet"));
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

#[test]
fn a_missing_or_wrong_password_is_logged_as_the_reason() {
    let server = RedisServer::builder().password("secret").start();
    for (login, reason) in [("", "NOAUTH"), (":wrong@", "WRONGPASS")] {
        let worker = launch(&format!("redis://{login}{}", server.addr()), TYPES).start();
        until("the reason", SOON, || worker.stderr().contains(reason));
        assert_eq!(worker.exit_status(), None);
        assert!(!worker.stderr().contains("wrong"), "{}", worker.stderr());
    }
}

#[test]
fn a_stream_key_of_the_wrong_type_is_logged_and_survived() {
    let server = RedisServer::start();
    server.cmd(&["SET", "sf:{default}:jobs", "not a stream"]);
    let worker = launch(&server.url(), TYPES).start();
    until("the reason", SOON, || worker.stderr().contains("WRONGTYPE"));
    assert_eq!(worker.exit_status(), None);
    server.cmd(&["DEL", "sf:{default}:jobs"]);
    let address = ready(&worker);
    submit(&server, "note");
    until("the job is done", SOON, || succeeded(&address, "note") == 1.0);
}

#[test]
fn a_worker_refuses_to_start_without_handlers() {
    let server = RedisServer::start();
    let none = launch(&server.url(), "").output(SOON);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("no types are configured"), "{none:?}");
    let missing = launch(&server.url(), "[types.a]\n[types.b]\n").output(SOON);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("types.a: has no handler"), "{missing:?}");
    assert!(missing.stderr.contains("types.b: has no handler"), "{missing:?}");
}

#[test]
fn a_port_in_use_is_reported_with_its_configuration_key() {
    let server = RedisServer::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let output = launch(&server.url(), TYPES).env("STREAMFLEET__TELEMETRY__LISTEN", &listen).output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(&format!("telemetry.listen: {listen} cannot be used")), "{output:?}");
}

#[test]
fn queue_lengths_are_exported_while_no_job_starts_or_ends() {
    let server = RedisServer::start();
    let config = format!("{TYPES}[events]\nqueue_length_every = \"1s\"\n");
    let worker = launch(&server.url(), &config).start();
    let address = ready(&worker);
    submit(&server, "long");
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "note", "delay_ms", "3600000"]);
    server.cmd(&["XADD", "sf:{default}:dead", "*", "type", "note"]);
    let jobs = |state: &str| {
        series(&address, &format!(r#"streamfleet_queue_jobs{{queue="default",state="{state}"}}"#))
    };
    until("one job of each state in the metrics", SOON, || {
        ["running", "delayed", "dead"].map(jobs) == [Some(1.0); 3] && jobs("waiting") == Some(0.0)
    });
    let latency = r#"streamfleet_queue_latency_seconds{queue="default"}"#;
    until("the latency in the metrics", SOON, || series(&address, latency) == Some(0.0));
}

#[test]
fn debug_logs_have_each_start_and_each_end_with_its_duration() {
    let server = RedisServer::start();
    let config = TYPES.replace("[telemetry]", "[telemetry]\nlog = \"debug\"");
    let worker = launch(&server.url(), &config).start();
    submit(&server, "note");
    let line = |message: &str| {
        let said = worker.stderr();
        let mut lines = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.find(|line| line["message"] == message)
    };
    let begun = until("the start is logged", SOON, || line("a handler starts"));
    let ended = until("the end is logged", SOON, || line("an attempt ended"));
    assert_eq!((&begun["job_type"], &begun["attempt"]), (&"note".into(), &1.into()));
    assert_eq!((&ended["outcome"], &ended["job"]), (&"succeeded".into(), &begun["job"]));
    assert!(ended["elapsed_ms"].is_u64(), "{ended}");
}
