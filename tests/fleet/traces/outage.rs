//! Collectors that are unreachable, hang or refuse: jobs continue, and the worker stops in time.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use streamfleet::{Producer, Queue, Submission};

use super::collector::Collector;
use harness::fleet::queue;
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::scrape::{address, series};
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);

/// More than the queue of spans and a batch hold together.
const MANY: usize = 6000;

fn worker(server: &RedisServer, traces: &str) -> Worker {
    let toml = format!(
        "[redis]\nurl = \"{}\"\n[types.test]\nhandler = \"noop\"\n[telemetry]\nlisten = \"127.0.0.1:0\"\n\
         [telemetry.traces]\n{traces}\n",
        server.url()
    );
    Launch::new(&["--config", "{config}", "--json", "worker"]).config(&toml).start()
}

async fn submit(queue: &Queue, count: usize) {
    let jobs = (0..count).map(|_| Submission::new("test").unwrap());
    Producer::new(queue.clone()).submit_all(jobs).await.unwrap();
}

async fn until_done(server: &RedisServer) {
    until_async("all jobs to be done", SOON, async || jobs_left(server) == 0).await;
}

async fn until_series(address: &str, name: &str, value: f64) {
    let reached = async || series(address, name).is_some_and(|count| count >= value);
    until_async(&format!("{name} to be {value}"), SOON, reached).await;
}

/// Stops a worker, which must not wait too long for the collector.
fn stop(worker: &Worker) {
    let asked = Instant::now();
    worker.term();
    assert!(worker.wait_exit(Duration::from_secs(10)).success());
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(5), "stopping took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_collector_costs_spans_but_no_jobs_and_no_slow_stop() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let worker = worker(&server, &format!("endpoint = \"http://{}\"", silent.local_addr().unwrap()));
    let address = address(&worker);
    submit(&queue, MANY).await;
    until_done(&server).await;
    until_series(&address, "streamfleet_spans_dropped_total{reason=\"full\"}", 1.0).await;
    assert_eq!(series(&address, "streamfleet_spans_exported_total"), Some(0.0));
    let succeeded =
        "streamfleet_jobs_finished_total{queue=\"default\",job_type=\"test\",outcome=\"succeeded\"}";
    until_series(&address, succeeded, MANY as f64).await;
    assert_eq!(series(&address, succeeded), Some(MANY as f64));
    stop(&worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_costs_spans_but_no_jobs_and_no_slow_stop() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    // Nobody listens there. A port that was free a moment ago may soon have another test's server.
    let worker = worker(&server, "endpoint = \"http://127.0.0.1:1\"");
    let address = address(&worker);
    submit(&queue, 100).await;
    until_done(&server).await;
    assert_eq!(series(&address, "streamfleet_spans_exported_total"), Some(0.0));
    stop(&worker);
    let said = worker.stderr();
    assert!(said.contains("spans were lost") && said.contains("\"reason\":\"unreachable\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_rejected_by_a_busy_collector_are_sent_again() {
    let (server, collector) = (RedisServer::start(), Collector::answering(&[503, 429]).await);
    let queue = queue(&server).await;
    let worker = worker(&server, &format!("endpoint = \"{}\"", collector.endpoint()));
    submit(&queue, 3).await;
    until_series(&address(&worker), "streamfleet_spans_exported_total", 3.0).await;
    let requests = collector.requests().await;
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| *request == requests[0]), "the same batch must be sent again");
    stop(&worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_spans_are_counted_and_no_secret_is_logged() {
    let (server, collector) = (RedisServer::start(), Collector::answering(&[401]).await);
    let queue = queue(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("headers");
    std::fs::write(&headers, "authorization: Bearer canary\n").unwrap();
    let traces = format!("endpoint = \"{}\"\nheaders_file = {headers:?}", collector.endpoint());
    let worker = worker(&server, &traces);
    submit(&queue, 3).await;
    let dropped = "streamfleet_spans_dropped_total{reason=\"refused\"}";
    until_series(&address(&worker), dropped, 3.0).await;
    submit(&queue, 1).await;
    until_series(&address(&worker), "streamfleet_spans_exported_total", 1.0).await;
    let raw = collector.raw().await;
    assert!(raw.iter().all(|request| request.headers["authorization"] == "Bearer canary"));
    stop(&worker);
    let said = worker.stderr();
    assert!(said.contains("the collector answered 401") && !said.contains("canary"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_exported_when_a_worker_stops() {
    let (server, collector) = (RedisServer::start(), Collector::start().await);
    let queue = queue(&server).await;
    let worker = worker(&server, &format!("endpoint = \"{}\"", collector.endpoint()));
    address(&worker);
    submit(&queue, 700).await;
    until_done(&server).await;
    stop(&worker);
    assert_eq!(collector.spans(700).await.len(), 700);
}
