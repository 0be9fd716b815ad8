//! Promises of docs/promises.md, each by its name. Other tests try harder to break them; these show what they mean.

use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::State;

use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty, until_state};
use harness::ledger::Ledger;
use harness::program::Program;
use harness::redis_server::RedisServer;
use harness::scene::{Gate, SOON, Scene, send};
use harness::wait::{until, until_async};

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
            ledger.starts().get(&job.to_string()).is_some_and(|starts| starts.len() == deaths)
        });
        worker.kill9();
    }
    let _last = program.launch().start();
    let status = until_state(&queue, &job, State::Dead).await;
    let letters = queue.dead_letters().page(None, 9).await.unwrap();
    assert_eq!((letters.len(), letters[0].text("dead_reason").as_str()), (1, "lost"));
    assert_eq!(status.attempts.len(), 3);
    until_empty(&queue).await;
    assert_eq!(ledger.starts()[&job.to_string()].len(), 3);
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
