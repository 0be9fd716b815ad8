//! Promises of the README, each by its name. Other tests try harder to break them; these show what they mean.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use streamfleet::job::{JobId, State};
use streamfleet::{JobError, Producer};

use harness::checker::{Case, Rules};
use harness::clock::monotonic_ns;
use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty, until_state};
use harness::history::History;
use harness::ledger::{Ledger, Record};
use harness::program::Program;
use harness::redis_server::{Aof, RedisServer};
use harness::remains::{facts, is_allowed, until_at_rest, until_no_job_is_left};
use harness::scene::{Gate, SOON, Scene, job};
use harness::wait::{until, until_async};
use harness::weather::{Cause, Event, Weather};

/// Returns the starts in a ledger, by job.
fn starts(ledger: &Ledger) -> BTreeMap<String, Vec<u64>> {
    let mut starts: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in ledger.read() {
        if let Record::Start { run, t } = record {
            starts.entry(run.job).or_default().push(t);
        }
    }
    starts.values_mut().for_each(|times| times.sort_unstable());
    starts
}

async fn send(server: &RedisServer, payloads: &[&str]) -> Vec<JobId> {
    let producer = Producer::new(queue(server).await);
    producer.submit_all(payloads.iter().map(|payload| job(*payload))).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_1_no_accepted_job_is_lost() {
    let server = RedisServer::builder().aof(Aof::Always).start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let workers = [program.launch().start(), program.launch().start()];
    let writer = ledger.writer("producer");
    let payloads = ["ok", "sleep 300", "fail 2", "fail 99", "fatal", "panic"].repeat(50);
    for id in send(&server, &payloads).await {
        writer.submitted(&id.to_string());
    }
    until("the workers to be busy", SOON, || starts(&ledger).len() > 50);
    let from = monotonic_ns();
    server.kill9();
    workers[0].kill9();
    let killed = monotonic_ns();
    server.restart();
    let back = Instant::now();
    until_no_job_is_left(&server, SOON);
    // A connection that is asked to reconnect while it already does so would delay this by seconds.
    assert!(back.elapsed() < SOON / 2, "all jobs ended only after {:?}", back.elapsed());
    until_at_rest(&server, SOON);
    let both = |cause, pid, until| Event { cause, pid, from, until };
    let weather = Weather::new(&[
        both(Cause::Kill, Some(workers[0].pid()), killed),
        both(Cause::Redis, None, monotonic_ns()),
    ]);
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: 4,
        max_losses: 3,
        timeout: None,
        settled_within: Duration::from_secs(1),
        recovered_within: SOON,
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let report = Case { history: &history, facts: &facts, weather: &weather, rules: &rules }.check();
    report.assert_clean();
    assert_eq!((report.totals.submitted, report.totals.dead), (300, 150));
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_2_at_least_once_and_exactly_once_in_calm_weather() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleets: Vec<Running> = (0..3)
        .map(|_| {
            let mut config = config(&server.url());
            config.worker.lease = Duration::from_secs(15);
            Running::start_with(config, quick(3), handler.clone())
        })
        .collect();
    let jobs = send(&server, &["ok"; 3_000]).await;
    until_async("all to run", SOON, async || handler.all_runs() >= 3_000).await;
    until_empty(&queue).await;
    assert_eq!(handler.all_runs(), 3_000);
    for job in &jobs {
        assert_eq!(handler.runs(job), 1);
    }
    for fleet in fleets {
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_3_bounded_failures_then_dead_lettered_once_byte_for_byte() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|_, _| Err(JobError::retry("never")));
    let fleet = Running::start(&server.url(), quick(4), handler.clone());
    let payload = "{\"a\":\"\u{0}\u{1F980}\"}";
    let job = submit(&queue, payload).await;
    let status = until_state(&queue, &job, State::Dead).await;
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!(letter.fields.get(b"payload"), Some(payload.as_bytes()));
    assert_eq!((letter.text("dead_reason"), letter.text("dead_attempts")), ("exhausted".into(), "4".into()));
    assert_eq!((handler.runs(&job), queue.dead_letters().page(None, 9).await.unwrap().len()), (4, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_3_bounded_worker_deaths_then_dead_lettered_once() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let job = send(&server, &["sleep 60000"]).await.remove(0);
    for deaths in 1..=program.policy().max_losses as usize {
        let worker = program.launch().start();
        until("the job to start", SOON, || {
            starts(&ledger).get(&job.to_string()).is_some_and(|starts| starts.len() == deaths)
        });
        worker.kill9();
    }
    let _last = program.launch().start();
    let status = until_state(&queue, &job, State::Dead).await;
    let letters = queue.dead_letters().page(None, 9).await.unwrap();
    assert_eq!((letters.len(), letters[0].text("dead_reason").as_str()), (1, "lost"));
    assert_eq!(status.attempts.len(), 3);
    until_empty(&queue).await;
    assert_eq!(starts(&ledger)[&job.to_string()].len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_5_recovery_in_seconds() {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program::new(&server.url(), dir.path());
    let doomed = program.launch().start();
    let jobs = send(&server, &["sleep 60000"; 10]).await;
    until("all to start", SOON, || starts(&ledger).len() == jobs.len());
    let _others = [program.launch().start(), program.launch().start()];
    until("the others to join", SOON, || {
        let workers = server.cmd(&["KEYS", "sf:worker:*"]);
        redis::from_redis_value::<Vec<String>>(workers).unwrap().len() == 3
    });
    doomed.kill9();
    let killed = monotonic_ns();
    until("all to start again", SOON, || starts(&ledger).values().all(|starts| starts.len() == 2));
    let promised = Duration::from_millis(program.lease_ms * 4 / 3 + 1_000 + program.backoff_ms);
    for (job, starts) in starts(&ledger) {
        let took = Duration::from_nanos(starts[1] - killed);
        assert!(took <= promised, "{job} started again after {took:?}, but {promised:?} were promised");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_6_deploys_cost_nothing() {
    let scene = Scene::new().await;
    let mut config = scene.config(Duration::from_secs(60));
    config.worker.prefetch = 50;
    config.worker.drain_timeout = Duration::from_millis(300);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 2;
    }
    let old = Gate::closed();
    let mut jobs = Vec::new();
    for _ in 0..40 {
        jobs.push(submit(&scene.queue, "wait").await);
    }
    let fleet = Running::start_with(config, quick(1), old.clone());
    until_async("two to run and the rest to be prefetched", SOON, async || {
        let running = jobs.iter().filter(|job| old.of(job).starts > 0).count();
        running == 2 && scene.queue.snapshot().await.unwrap().running() == 40
    })
    .await;
    let stopping = tokio::task::spawn(fleet.stop());
    until_async("the unstarted jobs to be given back", SOON, async || {
        scene.queue.snapshot().await.unwrap().waiting() >= 38
    })
    .await;
    stopping.await.unwrap();
    assert_eq!(scene.queue.snapshot().await.unwrap().waiting(), 40);
    // If one of them had spent its only attempt, it would be dead.
    let new = Acts::new(|context, _| match context.attempt() {
        1 => Ok(Value::Null),
        nth => Err(JobError::fatal(format!("attempt {nth}"))),
    });
    let fleet = scene.fleet(Duration::from_secs(60), new.clone());
    scene.until_at_rest().await;
    assert_eq!((new.all_runs(), new.jobs()), (40, 40));
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 0);
    fleet.stop().await;
}

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
