//! The limits on a worker's lifetime and memory.

use std::path::PathBuf;
use std::time::Duration;

use streamfleet::{Fleet, FleetConfig, Shutdown};

use harness::checker::{Case, Report, Rules};
use harness::fleet::Acts;
use harness::history::History;
use harness::ledger::Ledger;
use harness::process::{Launch, Worker, orders};
use harness::program::Program;
use harness::proxy::{Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::remains::{facts, is_allowed, until_at_rest};
use harness::scrape::{address, get};
use harness::wait::until;
use harness::weather::Weather;

const SOON: Duration = Duration::from_secs(60);
const STREAM: &str = "sf:{default}:jobs";
const JOBS: usize = 40;

/// Starts a worker with this limit and jobs with this payload. It must exit on its own, and another finishes its work.
fn recycled(payload: &str, bound: impl Fn(Program) -> Program) -> (Report, usize) {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program { concurrency: 2, ..Program::new(&server.url(), dir.path()) };
    let writer = ledger.writer("producer");
    for _ in 0..JOBS {
        let id = server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", payload]);
        writer.submitted(&redis::from_redis_value::<String>(id).unwrap());
    }
    let worker: Worker = bound(program.clone()).launch().start();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0), "{}", worker.stderr());
    let left: usize = redis::from_redis_value(server.cmd(&["XLEN", STREAM])).unwrap();
    assert!((1..JOBS).contains(&left), "{left} of {JOBS} jobs are left");
    let _successor = program.launch().start();
    until("the successor to have done the rest", SOON, || {
        server.cmd(&["XLEN", STREAM]) == redis::Value::Int(0)
    });
    until_at_rest(&server, Duration::from_secs(10));
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: 1,
        max_losses: 1,
        timeout: None,
        settled_within: Duration::from_millis(500),
        recovered_within: Duration::ZERO,
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let report =
        Case { history: &history, facts: &facts, weather: &Weather::new(&[]), rules: &rules }.check();
    (report, left)
}

#[test]
fn a_worker_past_max_lifetime_exits_with_0_and_its_jobs_run_once() {
    let (report, _left) =
        recycled("sleep 200", |program| Program { max_lifetime_ms: Some(1_500), ..program });
    report.assert_clean();
    assert_eq!((report.totals.done, report.totals.starts), (JOBS, JOBS), "{report}");
}

#[test]
fn a_worker_past_max_rss_exits_with_0_and_its_jobs_run_once() {
    // Two at a time take 100 ms and 8 MiB each, and memory is checked every second: the limit is reached before the jobs end.
    let (report, _left) = recycled("grow 8", |program| Program { max_rss: Some(120 << 20), ..program });
    report.assert_clean();
    assert_eq!((report.totals.done, report.totals.starts), (JOBS, JOBS), "{report}");
}

#[test]
fn a_worker_being_recycled_is_not_ready_and_finishes_its_jobs() {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let config = format!(
        r#"
        [worker]
        lease = "2s"
        max_jobs = 1
        [types.test]
        handler = {{ exec = {{ command = ["sh", "-c", "{wait}"] }} }}
        [telemetry]
        listen = "127.0.0.1:0"
        "#
    );
    let args = ["-c", "{config}", "--json", "--redis", &server.url(), "worker"];
    let worker = Launch::new(&args).config(&config).start();
    let address = address(&worker);
    for _ in 0..2 {
        server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    }
    until("the worker to be recycled", SOON, || {
        get(&address, "/readyz") == Some((503, "stopping\n".to_owned()))
    });
    worker.term();
    until("the signal to be heard", SOON, || worker.stderr().contains("asked to stop"));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0), "{}", worker.stderr());
    assert!(!worker.stderr().contains("cancelling"), "{}", worker.stderr());
    let left: usize = redis::from_redis_value(server.cmd(&["XLEN", STREAM])).unwrap();
    assert!(left <= 1, "the running job was not finished: {left} left");
    let pending: Vec<redis::Value> =
        redis::from_redis_value(server.cmd(&["XPENDING", STREAM, "fleet"])).unwrap();
    assert_eq!(pending[0], redis::Value::Int(0), "an unstarted job was not given back");
}

/// A worker that uses more than `max_rss` as soon as it has found Redis.
#[derive(serde::Serialize, serde::Deserialize)]
struct Swells {
    url: String,
    /// A file that it creates once it is that large.
    swollen: PathBuf,
}

impl Swells {
    fn run(self) {
        let mut config = FleetConfig::default();
        config.redis.url = self.url.as_str().into();
        config.worker.max_rss = Some(120 << 20);
        let fleet = Fleet::builder(config).handler_for("test", Acts::well()).unwrap().build();
        let probe = fleet.probe();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let running = runtime.spawn(fleet.run(Shutdown::new()));
        until("the fleet to wait for Redis", SOON, || probe.started().is_ok());
        let memory = vec![1_u8; 160 << 20];
        std::fs::write(&self.swollen, "").unwrap();
        runtime.block_on(running).unwrap().unwrap();
        drop(memory);
    }
}

/// Returns at once unless this process was started by the test below.
#[test]
fn swelling_worker_entry() {
    if let Some(swells) = orders::<Swells>() {
        swells.run();
    }
}

#[test]
fn a_worker_that_is_past_max_rss_when_it_has_started_is_recycled_and_strands_no_job() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    proxy.set(Mode::Refuse);
    let dir = tempfile::tempdir().unwrap();
    let swells = Swells { url: server.url_through(proxy.addr()), swollen: dir.path().join("swollen") };
    for _ in 0..JOBS {
        server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    }
    let worker = Launch::this_program("recycle::bounds::swelling_worker_entry", &swells).start();
    until("the worker to be large", SOON, || swells.swollen.exists());
    proxy.set(Mode::Pass);
    assert_eq!(worker.wait_exit(SOON).code(), Some(0), "{}", worker.stdout());
    let pending: Vec<redis::Value> =
        redis::from_redis_value(server.cmd(&["XPENDING", STREAM, "fleet"])).unwrap();
    assert_eq!(pending[0], redis::Value::Int(0), "a job was left to its lease");
}
