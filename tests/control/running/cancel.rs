//! Cancelling a job, wherever it is.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::handlers::{Exec, ExecConfig, Http, HttpConfig};
use streamfleet::job::{Encoding, JobId, Policy, State, Tracking};
use streamfleet::{Handler, JobContext, JobError, Producer, Queue, RawPayload, Submission};
use streamfleet_engine::admin::Cancellation;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use harness::fleet::{Running, config, queue, quick, until_empty, until_state};
use harness::ledger::Ledger;
use harness::program::Program;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);
const KEPT: Duration = Duration::from_secs(3600);

/// A handler whose payload says what it does when it is cancelled.
///
/// `heeds` (returns an error) · `deaf` (waits for the gate) · `finishes` (succeeds within its grace period) ·
/// `fails` (fails when the gate opens) · anything else succeeds
#[derive(Clone)]
struct Obeys {
    gate: watch::Sender<bool>,
    started: Arc<Mutex<Vec<JobId>>>,
}

impl Obeys {
    fn new() -> Self {
        Self { gate: watch::Sender::new(false), started: Arc::default() }
    }

    fn starts(&self, job: &JobId) -> usize {
        self.started.lock().unwrap().iter().filter(|started| *started == job).count()
    }

    async fn until_started(&self, job: &JobId) {
        until_async("the job to start", SOON, async || self.starts(job) > 0).await;
    }
}

impl Handler for Obeys {
    type Payload = RawPayload;
    type Output = String;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<String, JobError> {
        self.started.lock().unwrap().push(context.id().clone());
        let mut gate = self.gate.subscribe();
        match &payload.0[..] {
            b"heeds" => {
                context.cancellation().cancelled().await;
                Err(JobError::retry("cancelled"))
            }
            b"finishes" => {
                context.cancellation().cancelled().await;
                Ok("finished anyway".to_owned())
            }
            b"deaf" => {
                gate.wait_for(|open| *open).await.map(drop)?;
                Ok("never notified".to_owned())
            }
            b"fails" => {
                gate.wait_for(|open| *open).await.map(drop)?;
                Err(JobError::retry("as told"))
            }
            _ => Ok("at once".to_owned()),
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(300)
    }
}

fn job(payload: &str) -> Submission {
    Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Raw).unwrap()
}

async fn submit(queue: &Queue, submission: Submission) -> JobId {
    Producer::new(queue.clone()).submit(submission).await.unwrap()
}

async fn cancel(queue: &Queue, job: &JobId) -> Cancellation {
    queue.cancel(job, "a test", KEPT).await.unwrap()
}

/// A policy whose retries are too late to happen within a test.
fn patient() -> Policy {
    quick(5).backoff(streamfleet::job::Backoff::Fixed(Duration::from_secs(3600)))
}

fn cancel_requests(server: &RedisServer) -> redis::Value {
    server.cmd(&["ZCARD", "sf:{default}:cancels"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_worker_runs_is_cancelled_at_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let waiting = submit(&queue, job("x")).await;
    let named = submit(&queue, job("x").id("mine".parse().unwrap()).lane(streamfleet::job::Lane::Low)).await;
    let delayed = submit(&queue, job("x").delay(Duration::from_secs(3600))).await;
    for id in [&waiting, &named, &delayed] {
        assert_eq!(cancel(&queue, id).await, Cancellation::Done, "{id}");
        let status = queue.status(id).await.unwrap().unwrap();
        assert_eq!((status.state, status.job_type.as_str()), (State::Cancelled, "test"), "{id}");
        assert_eq!(status.cancelled_by.as_deref(), Some("a test"));
        assert_eq!(cancel(&queue, id).await, Cancellation::Ended(State::Cancelled), "{id}");
    }
    assert_eq!(cancel_requests(&server), redis::Value::Int(0));
    let handler = Obeys::new();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let last = submit(&queue, job("x").tracking(Tracking::All)).await;
    until_state(&queue, &last, State::Done).await;
    assert_eq!(handler.started.lock().unwrap().len(), 1);
    assert_eq!(cancel(&queue, &last).await, Cancellation::Ended(State::Done));
    assert_eq!(queue.status(&last).await.unwrap().unwrap().state, State::Done);
    assert_eq!(cancel(&queue, &"nobody".parse().unwrap()).await, Cancellation::Unknown);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_handler_is_cancelled_within_seconds_and_not_rerun() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Obeys::new();
    let mut config = config(&server.url());
    config.worker.lease = Duration::from_secs(60);
    let fleet = Running::start_with(config, quick(5), handler.clone());
    for payload in ["heeds", "deaf"] {
        let id = submit(&queue, job(payload)).await;
        handler.until_started(&id).await;
        let begun = Instant::now();
        assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
        let twice = cancel(&queue, &id).await;
        assert!(
            matches!(twice, Cancellation::Requested | Cancellation::Ended(State::Cancelled)),
            "{twice:?}"
        );
        let status = until_state(&queue, &id, State::Cancelled).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(3), "{payload} took {took:?}");
        assert_eq!(status.attempts.last().unwrap().outcome, "cancelled");
        assert_eq!((handler.starts(&id), cancel_requests(&server)), (1, redis::Value::Int(0)), "{payload}");
    }
    assert_eq!(queue.snapshot().await.unwrap().dead, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_within_the_grace_period_stays_a_success() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Obeys::new();
    let fleet = Running::start(&server.url(), quick(5), handler.clone());
    let id = submit(&queue, job("finishes").tracking(Tracking::All)).await;
    handler.until_started(&id).await;
    assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
    let status = until_state(&queue, &id, State::Done).await;
    assert_eq!(status.result.as_deref(), Some("\"finished anyway\""));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unstarted_job_is_cancelled_while_its_workers_slots_are_busy() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Obeys::new();
    let mut config = config(&server.url());
    config.worker.prefetch = 5;
    config.worker.queues.values_mut().for_each(|queue| queue.concurrency = 1);
    let fleet = Running::start_with(config, quick(5), handler.clone());
    let busy = submit(&queue, job("deaf")).await;
    handler.until_started(&busy).await;
    let held = submit(&queue, job("x")).await;
    until_async("it to be held", SOON, async || queue.snapshot().await.unwrap().running() == 2).await;
    assert_eq!(cancel(&queue, &held).await, Cancellation::Requested);
    until_state(&queue, &held, State::Cancelled).await;
    assert_eq!((handler.starts(&held), handler.starts(&busy)), (0, 1));
    // Its place is free again.
    let next: Vec<JobId> = futures_util::future::join_all((0..5).map(|_| submit(&queue, job("x")))).await;
    until_async("the place to be used", SOON, async || queue.snapshot().await.unwrap().running() == 6).await;
    handler.gate.send_replace(true);
    until_empty(&queue).await;
    assert!(next.iter().all(|id| handler.starts(id) == 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_retry_is_cancelled_at_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Obeys::new();
    handler.gate.send_replace(true);
    let fleet = Running::start(&server.url(), patient(), handler.clone());
    let id = submit(&queue, job("fails")).await;
    until_state(&queue, &id, State::Retrying).await;
    assert_eq!(cancel(&queue, &id).await, Cancellation::Done);
    assert_eq!(queue.status(&id).await.unwrap().unwrap().state, State::Cancelled);
    assert_eq!(queue.snapshot().await.unwrap().delayed, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_worker_dies_after_the_cancel_request_is_not_rerun() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let worker = program.launch().start();
    let id = submit(&queue, job(&format!("block {}", dir.path().join("never").display()))).await;
    until_async("it to run", SOON, async || queue.snapshot().await.unwrap().running() == 1).await;
    // While frozen, it cannot see the request; then it dies.
    worker.freeze();
    assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
    worker.kill9();
    let _heir = program.launch().start();
    let status = until_state(&queue, &id, State::Cancelled).await;
    assert_eq!(status.attempts.last().unwrap().outcome, "lost");
    assert_eq!(
        (queue.snapshot().await.unwrap().delayed, cancel_requests(&server)),
        (0, redis::Value::Int(0))
    );
    drop(ledger);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_affects_only_the_generation_it_was_made_for() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    // A request that was never fulfilled, because its job succeeded just then.
    server.cmd(&["ZADD", "sf:{default}:cancels", "1700000000000", "mine"]);
    let handler = Obeys::new();
    let fleet = Running::start(&server.url(), quick(5), handler.clone());
    let id = submit(&queue, job("x").id("mine".parse().unwrap())).await;
    until_state(&queue, &id, State::Done).await;
    fleet.stop().await;
}

/// Returns true if a process still runs. A zombie process does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn written(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok()?.strip_suffix('\n').map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_sigterm_and_then_its_whole_group_is_killed() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let dir = tempfile::tempdir().unwrap();
    // It notes the SIGTERM and continues anyway, as does its child.
    let script = "trap 'echo told > told' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & \
                  echo $! > child; echo $$ > leader; while :; do sleep 0.1; done";
    let config =
        ExecConfig::new(["sh", "-c", script]).directory(dir.path()).grace(Duration::from_millis(700));
    let fleet = Running::start(&server.url(), quick(5), Exec::new(config).unwrap());
    let id = submit(&queue, job("")).await;
    let at = |name: &str| dir.path().join(name);
    let pids =
        until_async("both to run", SOON, async || Some([written(&at("leader"))?, written(&at("child"))?]))
            .await;
    let begun = Instant::now();
    assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
    until_async("TERM", SOON, async || written(&at("told"))).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "TERM came after {:?}", begun.elapsed());
    until_state(&queue, &id, State::Cancelled).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "cancelled after {:?}", begun.elapsed());
    until_async("both to be gone", SOON, async || !pids.iter().any(|pid| lives(pid))).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_of_an_http_handler_is_aborted() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let endpoint = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jobs", endpoint.local_addr().unwrap());
    let http = Http::open(HttpConfig::new(url)).unwrap();
    let fleet = Running::start(&server.url(), quick(5), http);
    let id = submit(&queue, job("{}")).await;
    let (mut request, _) = tokio::time::timeout(SOON, endpoint.accept()).await.unwrap().unwrap();
    let mut head = [0; 4];
    request.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"POST");
    assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
    let mut rest = Vec::new();
    // The connection ends, with FIN or RST.
    let closed = tokio::time::timeout(SOON, request.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is still open");
    until_state(&queue, &id, State::Cancelled).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_triggers_its_follow_ups_wherever_it_was() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let xadd = |id: &str| {
        let fields =
            ["XADD", "sf:{default}:jobs", "*", "type", "test", "id", id, "unique", "k", "payload", "heeds"];
        server.cmd(&["SET", "sf:{default}:unique:k", id]);
        server.cmd(&fields);
    };
    let lock = || server.cmd(&["EXISTS", "sf:{default}:unique:k"]);
    xadd("waits");
    assert_eq!(cancel(&queue, &"waits".parse().unwrap()).await, Cancellation::Done);
    assert_eq!(lock(), redis::Value::Int(0));
    let handler = Obeys::new();
    let fleet = Running::start(&server.url(), quick(5), handler.clone());
    xadd("runs");
    let id = "runs".parse().unwrap();
    handler.until_started(&id).await;
    assert_eq!(cancel(&queue, &id).await, Cancellation::Requested);
    until_state(&queue, &id, State::Cancelled).await;
    assert_eq!(lock(), redis::Value::Int(0));
    fleet.stop().await;
}
