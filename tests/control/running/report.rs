//! Progress and log lines: what a handler reports, and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use streamfleet::job::{JobId, State};
use streamfleet::{Handler, JobContext, JobError, RawPayload};
use tokio::sync::watch;

use harness::fleet::{Running, config, queue, quick, submit, until_empty, until_state};
use harness::proxy::{Direction, Mode, Proxy};
use harness::redis_server::RedisServer;
use harness::scene::STREAM;
use harness::scripts::{sha, source};
use harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(20);

/// Reports what its payload says, then waits for the gate if the payload says so.
///
/// `lines <n>` · `shout` (a hundred long lines, then it waits) · `chatter` (progress for a second, as often as it can) · `hold` · `after` (continues to report after its end)
#[derive(Clone)]
struct Speaks(watch::Sender<bool>);

impl Speaks {
    fn held() -> Self {
        Self(watch::Sender::new(false))
    }

    fn let_go(&self) {
        self.0.send_replace(true);
    }
}

impl Handler for Speaks {
    type Payload = RawPayload;
    type Output = u64;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<u64, JobError> {
        let payload = String::from_utf8(payload.0.to_vec())?;
        let mut said = 0;
        match payload.split_once(' ').unwrap_or((&payload, "")) {
            ("lines", count) => (0..count.parse()?).for_each(|nth: u32| context.log(&format!("line {nth}"))),
            ("shout", _) => {
                (0..100).for_each(|_| context.log(&"x".repeat(1024)));
                let gate = self.0.subscribe().wait_for(|open| *open).await.map(drop);
                gate?;
            }
            ("chatter", _) => {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(1) {
                    (0..100).for_each(|_| {
                        said += 1;
                        context.progress(u8::try_from(said % 100).unwrap(), &format!("{said} said"));
                    });
                    tokio::task::yield_now().await;
                }
                context.progress(100, &format!("{said} reports in all"));
            }
            ("hold", _) => {
                context.log("beginning");
                context.progress(40, "rendering");
                let gate = self.0.subscribe().wait_for(|open| *open).await.map(drop);
                gate?;
            }
            ("after", _) => {
                let (context, mut gate) = (context.clone(), self.0.subscribe());
                tokio::task::spawn(async move {
                    gate.wait_for(|open| *open).await.map(drop).unwrap();
                    context.progress(99, "too late");
                });
            }
            _ => {}
        }
        Ok(said)
    }
}

/// Writes a log line, and ends at once.
struct Ends(Arc<AtomicUsize>);

impl Handler for Ends {
    type Payload = RawPayload;
    type Output = ();

    async fn run(&self, _payload: RawPayload, context: JobContext) -> Result<(), JobError> {
        context.log("done");
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn exists(server: &RedisServer, job: &JobId) -> bool {
    server.cmd(&["EXISTS", &format!("sf:{{default}}:job:{job}")]) == redis::Value::Int(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_reports_its_progress_and_log() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Speaks::held();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let job = submit(&queue, "hold").await;
    let status = until_async("its progress", SOON, async || {
        queue.status(&job).await.unwrap().filter(|status| status.progress.is_some())
    })
    .await;
    let progress = status.progress.unwrap();
    assert_eq!((status.state, progress.percent, progress.note.as_str()), (State::Running, 40, "rendering"));
    assert_eq!(status.log.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["beginning"]);
    assert!(progress.at <= status.now && status.log[0].at <= progress.at);
    handler.let_go();
    let status = until_state(&queue, &job, State::Done).await;
    assert_eq!((status.attempts.len(), status.log.len()), (1, 1));
    assert!(matches!(server.cmd(&["PTTL", &format!("sf:{{default}}:job:{job}")]), redis::Value::Int(1..)));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_updates_a_second_cost_a_few_commands() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(3), Speaks::held());
    let before = server.calls("hmget");
    let job = submit(&queue, "chatter").await;
    // Neither the job nor its queue is looked up here, because both read hashes too.
    until("the job to end", SOON, || server.cmd(&["XLEN", STREAM]) == redis::Value::Int(0));
    // The script calls it once per attempt that it writes, and the scripts of the job's end call it a few times in total.
    let written = server.calls("hmget") - before;
    let status = until_state(&queue, &job, State::Done).await;
    let said: u64 = status.result.unwrap().parse().unwrap();
    assert!(said > 10_000, "{said} updates");
    assert!((1..=10).contains(&written), "{written} writes for {said} updates");
    let progress = status.progress.unwrap();
    assert_eq!((progress.percent, progress.note), (100, format!("{said} reports in all")));
    fleet.stop().await;
}

/// Returns how many arguments the longest call of a script had, according to the slow log: it shows some, and counts the rest.
fn most_arguments(server: &RedisServer) -> usize {
    let redis::Value::Array(entries) = server.cmd(&["SLOWLOG", "GET", "-1"]) else { panic!("no slow log") };
    let arguments = entries.into_iter().filter_map(|entry| {
        let redis::Value::Array(parts) = entry else { panic!("{entry:?}") };
        let redis::Value::Array(arguments) = &parts[3] else { panic!("{parts:?}") };
        let text = |nth: usize| redis::from_redis_value::<String>(arguments[nth].clone()).unwrap_or_default();
        let last = text(arguments.len() - 1);
        let more = last.strip_prefix("... (").and_then(|rest| rest.strip_suffix(" more arguments)"));
        let more: usize = more.map_or(1, |count| count.parse().unwrap());
        text(0).starts_with("EVAL").then_some(arguments.len() - 1 + more)
    });
    arguments.max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_script_carries_the_logs_of_many_jobs_at_once() {
    const JOBS: usize = 50;
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut config = config(&server.url());
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = JOBS;
    }
    for setting in [["slowlog-log-slower-than", "0"], ["slowlog-max-len", "1000000"]] {
        server.cmd(&["CONFIG", "SET", setting[0], setting[1]]);
    }
    let handler = Speaks::held();
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(submit(&queue, "shout").await);
    }
    let logged = |job: &JobId| server.cmd(&["HGET", &format!("sf:{{default}}:job:{job}"), "logged"]);
    until_async("all of them to have logged", SOON, async || {
        jobs.iter().all(|job| logged(job) == redis::Value::BulkString(b"100".to_vec()))
    })
    .await;
    let most = most_arguments(&server);
    println!("at most {most} arguments");
    assert!((300..2_000).contains(&most), "{most} arguments");
    handler.let_go();
    until_empty(&queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_keeps_its_last_lines() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fleet = Running::start(&server.url(), quick(3), Speaks::held());
    let job = submit(&queue, "lines 1000").await;
    let status = until_state(&queue, &job, State::Done).await;
    assert_eq!((status.log.len(), status.log[99].text.as_str()), (100, "line 999"));
    let fields: Vec<String> =
        redis::from_redis_value(server.cmd(&["HKEYS", &format!("sf:{{default}}:job:{job}")])).unwrap();
    assert_eq!(fields.iter().filter(|name| name.starts_with("l:")).count(), 100);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempts_reports_are_deleted_when_its_job_is_given_back() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut config = config(&server.url());
    config.worker.drain_timeout = Duration::from_millis(10);
    let fleet = Running::start_with(config, quick(3), Speaks::held());
    let job = submit(&queue, "hold").await;
    until_async("its record", SOON, async || exists(&server, &job)).await;
    fleet.stop().await;
    assert!(!exists(&server, &job));
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_reports_nothing_after_its_end() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Speaks::held();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let (job, next) = (submit(&queue, "after").await, submit(&queue, "lines 1").await);
    until_empty(&queue).await;
    handler.let_go();
    let next_again = submit(&queue, "lines 1").await;
    until_state(&queue, &next_again, State::Done).await;
    assert!(!exists(&server, &job));
    assert!(exists(&server, &next));
    fleet.stop().await;
}

/// One read delivers the jobs. The end of an attempt waits two seconds for its report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_report_that_redis_does_not_take_holds_up_no_other_job() {
    let server = RedisServer::start();
    let (queue, ran) = (queue(&server).await, Arc::new(AtomicUsize::new(0)));
    for _ in 0..24 {
        submit(&queue, "").await;
    }
    let proxy = Proxy::start(server.addr());
    let needle = sha(&server, source("report")).into_bytes();
    proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    let fleet = Running::start(&server.url_through(proxy.addr()), quick(1), Ends(Arc::clone(&ran)));
    until_async("the first one to run", SOON, async || ran.load(Ordering::Relaxed) > 0).await;
    until_async("all to run", Duration::from_secs(4), async || ran.load(Ordering::Relaxed) == 24).await;
    proxy.set(Mode::Pass);
    until_empty(&queue).await;
    fleet.stop().await;
}
