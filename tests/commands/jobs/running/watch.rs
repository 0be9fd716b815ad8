//! `status --watch` and `enqueue --wait`, through the real binary.

use std::time::Duration;

use serde_json::Value;

use harness::assert_output;
use harness::cli::{launch, sf};
use harness::process::{Launch, Output, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);
const SIGINT: i32 = 2;

/// A worker that runs programs: `ok` prints a result, `bad` fails permanently, `slow` reports progress and waits for a file.
fn worker(server: &RedisServer, gate: &std::path::Path) -> Worker {
    let slow = format!(
        "echo beginning >&2; echo '::progress 40 rendering' >&2; while ! [ -e {} ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    let config = format!(
        "[worker]\nlease = \"2s\"\n[telemetry]\nlisten = \"off\"\n\
         [types.ok]\nhandler = {{ exec = {{ command = [\"echo\", '{{\"rows\": 3}}'] }} }}\n\
         [types.bad]\nhandler = {{ exec = {{ command = [\"sh\", \"-c\", \"echo no such account >&2; exit 65\"] }} }}\n\
         [types.slow]\nhandler = {{ exec = {{ command = [\"sh\", \"-c\", \"{slow}\"] }} }}\n"
    );
    Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(&config).start()
}

fn enqueue(server: &RedisServer, args: &[&str]) -> String {
    let output = sf(server, &[&["enqueue"], args].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout.trim().to_owned()
}

fn until_progress(server: &RedisServer, job: &str) {
    until("the job's progress", SOON, || {
        let status = sf(server, &["status", job, "--json"]);
        status.stdout.contains("\"percent\": 40")
    });
}

fn documents(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn watching_a_job_prints_each_change_until_it_is_done() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let gate = dir.path().join("open");
    let _worker = worker(&server, &gate);
    let job = enqueue(&server, &["slow", "--track"]);
    until_progress(&server, &job);
    assert_output!(sf(&server, &["status", &job]).stdout);
    let (people, programs) = (
        launch(&server, &["status", &job, "--watch"]).start(),
        launch(&server, &["status", &job, "--watch", "--json"]).start(),
    );
    until("both to have begun", SOON, || {
        people.stdout().contains("40%") && programs.stdout().contains("rendering")
    });
    std::fs::write(&gate, "").unwrap();
    assert_eq!((people.wait_exit(SOON).code(), programs.wait_exit(SOON).code()), (Some(0), Some(0)));
    assert_output!(people.stdout());
    let changes = documents(&programs.stdout());
    let states: Vec<_> = changes.iter().map(|change| change["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["running", "done"]);
    assert_eq!((&changes[0]["progress"]["percent"], &changes[1]["result"]), (&40.into(), &"done".into()));
    assert_eq!(changes[1]["log"][0]["text"], "beginning");
}

#[test]
fn watching_exits_with_1_for_a_dead_job_and_4_for_an_unknown_one() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let _worker = worker(&server, dir.path());
    let job = enqueue(&server, &["bad"]);
    let output = launch(&server, &["status", &job, "--watch"]).output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stdout.contains("is dead") && output.stdout.contains("no such account"), "{output:?}");
    assert_eq!(sf(&server, &["status", "nobody", "--watch"]).code, Some(4));
}

#[test]
fn waiting_for_a_job_prints_its_result_or_its_error() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let _worker = worker(&server, dir.path());
    let waited = |args: &[&str]| -> Output { launch(&server, args).output(SOON) };
    let done = waited(&["enqueue", "ok", "--wait"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "{\"rows\":3}\n", ""));
    let done = waited(&["enqueue", "ok", "--wait=20s", "--json"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&report["state"], &report["result"]["rows"]), (&"done".into(), &3.into()));
    let dead = waited(&["enqueue", "bad", "--wait"]);
    assert_eq!((dead.code, dead.stdout.as_str()), (Some(1), ""));
    assert_output!(dead.stderr);
}

#[test]
fn a_wait_that_times_out_prints_how_to_continue() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let output = launch(&server, &["enqueue", "slow", "--wait=100ms"]).output(SOON);
    assert_eq!(output.code, Some(6), "{output:?}");
    assert_output!(output.stderr);
    let output = launch(&server, &["enqueue", "slow", "--wait=100ms", "--json"]).output(SOON);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, &report["state"]), (Some(6), &"waiting".into()));
    drop(dir);
}

#[test]
fn a_wait_that_redis_does_not_answer_names_its_job_and_exits_with_3() {
    let server = RedisServer::start();
    let waiting = launch(&server, &["enqueue", "slow", "--id", "mine", "--delay", "1h", "--wait=6s"]).start();
    until("the job", SOON, || sf(&server, &["status", "mine"]).code == Some(0));
    server.stop_gracefully();
    assert_eq!(waiting.wait_exit(SOON).code(), Some(3));
    let said = waiting.stderr();
    assert!(
        said.contains("redis does not answer, so the state of mine is unknown; waiting for redis ("),
        "{said}"
    );
    assert!(said.contains("error: the job mine cannot be looked up: "), "{said}");
}

#[test]
fn a_wait_that_is_interrupted_prints_how_to_continue() {
    let server = RedisServer::start();
    let waiting = launch(&server, &["enqueue", "slow", "--id", "mine", "--wait"]).start();
    until("the wait", SOON, || waiting.catches(SIGINT));
    waiting.interrupt();
    assert_eq!(waiting.wait_exit(SOON).code(), Some(6));
    let want = "mine is submitted and continues; to wait for its end: streamfleet status mine --queue default --watch\n";
    assert_eq!(waiting.stderr(), want);
}
