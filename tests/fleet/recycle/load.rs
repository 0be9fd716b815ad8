//! `max_jobs` under load: workers of the real binary exit after this many jobs each, and are restarted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wiremock::matchers::method;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use harness::checker::{Case, Rules};
use harness::history::History;
use harness::ledger::{Fence, How, Ledger, Run, Writer};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::remains::{facts, is_allowed, until_at_rest};
use harness::wait::until;
use harness::weather::Weather;

const JOBS: usize = 2_000;
const WORKERS: usize = 4;
const MAX_JOBS: usize = 60;
const CONCURRENCY: usize = 8;
const STREAM: &str = "sf:{default}:jobs";
const SOON: Duration = Duration::from_secs(60);

/// The endpoint that the workers post to. It writes the ledger, with the number of a worker's life as its process id.
struct Endpoint {
    writer: Writer,
    runs: Arc<Mutex<BTreeMap<u32, usize>>>,
}

impl Respond for Endpoint {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
        let fence = header("x-streamfleet-job-fence");
        let (ms, seq) = fence.split_once('-').unwrap();
        let life = header("x-life").parse().unwrap();
        let run = Run {
            job: header("x-streamfleet-job-id"),
            attempt: header("x-streamfleet-job-attempt").parse().unwrap(),
            fence: Fence(ms.parse().unwrap(), seq.parse().unwrap()),
            pid: life,
        };
        *self.runs.lock().unwrap().entry(life).or_default() += 1;
        self.writer.started(&run);
        self.writer.ended(&run, How::Ok);
        ResponseTemplate::new(204).set_delay(Duration::from_millis(10))
    }
}

fn start(server: &RedisServer, endpoint: &str, life: u32) -> Worker {
    let config = format!(
        r#"
        [worker]
        lease = "2s"
        max_jobs = {MAX_JOBS}
        [queues.default]
        concurrency = {CONCURRENCY}
        [types.test]
        handler = {{ http = {{ url = "{endpoint}", headers = {{ x-life = "{life}" }} }} }}
        max_attempts = 1
        max_losses = 1
        [telemetry]
        listen = "off"
        "#
    );
    Launch::new(&["-c", "{config}", "--redis", &server.url(), "worker"]).config(&config).start()
}

/// Restarts each worker that has ended, until nothing is left to do. Returns how many ended on their own.
fn keep_running(server: &RedisServer, endpoint: &str) -> u32 {
    let mut lives = 0..;
    let mut next = || start(server, endpoint, lives.next().unwrap());
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| next()).collect();
    let (mut ended, begun) = (0, Instant::now());
    until("all jobs to be done", 3 * SOON, || {
        for worker in &mut workers {
            if let Some(status) = worker.exit_status() {
                assert_eq!(status.code(), Some(0), "{}", worker.stderr());
                assert!(
                    worker.stderr().contains("max_jobs: 60 attempts were started"),
                    "{}",
                    worker.stderr()
                );
                ended += 1;
                *worker = next();
            }
        }
        server.cmd(&["XLEN", STREAM]) == redis::Value::Int(0)
    });
    eprintln!("{ended} workers were recycled in {:.1?}", begun.elapsed());
    for worker in &workers {
        // Before that, a signal would kill it.
        until("the worker to start jobs", SOON, || {
            worker.stderr().contains("working") || worker.exit_status().is_some()
        });
        worker.term();
        assert_eq!(worker.wait_exit(SOON).code(), Some(0), "{}", worker.stderr());
    }
    ended
}

/// In other systems, a worker that had reached its limit stayed alive and consumed nothing (hyperf/hyperf#7320). Here it
/// exits, and its successor continues where it stopped.
#[tokio::test(flavor = "multi_thread")]
async fn recycled_workers_under_load_lose_nothing_and_spend_no_attempt() {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let runs = Arc::<Mutex<BTreeMap<u32, usize>>>::default();
    let endpoint = MockServer::builder().disable_request_recording().start().await;
    let notes = Endpoint { writer: ledger.writer("endpoint"), runs: Arc::clone(&runs) };
    Mock::given(method("POST")).respond_with(notes).mount(&endpoint).await;
    let producer = ledger.writer("producer");
    for _ in 0..JOBS {
        let id = server.cmd(&["XADD", STREAM, "*", "type", "test"]);
        producer.submitted(&redis::from_redis_value::<String>(id).unwrap());
    }
    let ended = tokio::task::block_in_place(|| keep_running(&server, &endpoint.uri()));
    tokio::task::block_in_place(|| until_at_rest(&server, Duration::from_secs(10)));
    assert!(ended as usize >= JOBS / (MAX_JOBS + CONCURRENCY) - WORKERS, "{ended} workers ended");
    for (life, runs) in runs.lock().unwrap().iter() {
        assert!(*runs <= MAX_JOBS + CONCURRENCY, "life {life} ran {runs} jobs");
    }
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: 1,
        max_losses: 1,
        timeout: None,
        settled_within: Duration::from_secs(1),
        recovered_within: Duration::ZERO,
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let report =
        Case { history: &history, facts: &facts, weather: &Weather::new(&[]), rules: &rules }.check();
    report.assert_clean();
    assert_eq!((report.totals.done, report.totals.starts), (JOBS, JOBS), "{report}");
}
