//! A server that answers only with refusals: it is loading, read-only, out of memory, or cannot write to its disk.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::State;
use streamfleet::{ErrorClass, JobError, SubmitError};

use harness::fleet::{Acts, submit, until_state};
use harness::proxy::Mode;
use harness::redis_server::{Aof, RedisServer};
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;

/// A handler that fails once if the payload says so, and then succeeds.
fn obeys() -> Acts {
    Acts::new(|context, payload| match (payload, context.attempt()) {
        (b"fails once", 1) => Err(JobError::retry("not yet")),
        _ => Ok(Value::Null),
    })
}

/// Refuses everything that the fleet sends with this error for a while: jobs that run meanwhile are settled once, and
/// waiting jobs run once.
async fn outlasts(error: &str) {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.fleet(LONG, handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    scene.proxy.set(Mode::inject(error));
    handler.open();
    handler.until_ended(&running).await;
    let waiting = submit(&scene.queue, "ok").await;
    until_async("the fleet to be refused several times", SOON, async || scene.proxy.hits() > 5).await;
    scene.proxy.set(Mode::Pass);
    scene.until_at_rest().await;
    for job in [&running, &waiting] {
        assert_eq!((handler.of(job).starts, handler.of(job).ends), (1, 1));
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlasts_a_server_that_is_loading() {
    outlasts("LOADING Redis is loading the dataset in memory").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlasts_a_server_that_is_read_only() {
    outlasts("READONLY You can't write against a read only replica.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlasts_a_server_that_cannot_write_its_disk() {
    outlasts(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlasts_a_server_that_runs_a_slow_script() {
    outlasts("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_outlasts_a_cluster_that_is_down() {
    outlasts("CLUSTERDOWN The cluster is down").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_learns_that_redis_refused() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    scene.proxy.set(Mode::inject("MISCONF Errors writing to the AOF file"));
    match producer.submit(job("{}")).await {
        Err(SubmitError::Broker(error)) => assert_eq!(error.class(), Some(ErrorClass::Busy), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.int(&["EXISTS", STREAM]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_becomes_a_replica_and_a_master_again_loses_nothing() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.fleet(LONG, handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    let producer = scene.producer().await;
    producer.submit(job("ok")).await.unwrap();
    // A replica of an unreachable master keeps its data and refuses writes.
    scene.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    handler.open();
    handler.until_ended(&running).await;
    let refused = until_async("a submission to be refused", SOON, async || {
        producer.submit(job("ok")).await.err().filter(|error| error.to_string().contains("READONLY"))
    })
    .await;
    assert!(matches!(&refused, SubmitError::Broker(error) if error.class() == Some(ErrorClass::Busy)));
    scene.server.cmd(&["REPLICAOF", "NO", "ONE"]);
    let later =
        until_async("a submission to be accepted", SOON, async || producer.submit(job("ok")).await.ok())
            .await;
    handler.until_ended(&later).await;
    scene.until_at_rest().await;
    assert_eq!((handler.of(&running).starts, handler.of(&later).starts), (1, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_new_jobs_and_lets_the_fleet_finish() {
    // Half of what they take is more than what the server itself needs.
    const LARGE: usize = 600;
    let scene = Scene::new().await;
    let handler = obeys();
    let producer = scene.producer().await;
    let payload = "x".repeat(20_000);
    let mut jobs = producer.submit_all((0..LARGE).map(|_| job(payload.clone()))).await.unwrap();
    for _ in 0..5 {
        jobs.push(producer.submit(job("fails once")).await.unwrap());
    }
    let used = || -> u64 {
        let info: String = redis::from_redis_value(scene.server.cmd(&["INFO", "memory"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        line.trim().parse().unwrap()
    };
    let full = used();
    scene.server.cmd(&["CONFIG", "SET", "maxmemory", &(full / 2).to_string()]);
    match producer.submit(job("one too many")).await {
        Err(SubmitError::Broker(error)) => assert_eq!(error.class(), Some(ErrorClass::Full), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        producer.submit(job("later").delay(SOON)).await,
        Err(SubmitError::Broker(error)) if error.class() == Some(ErrorClass::Full)
    ));
    let fleet = scene.fleet(LONG, handler.clone());
    scene.until_at_rest().await;
    assert!(used() < full / 2 + full / 4, "{} of {full}", used());
    for (job, runs) in jobs.iter().zip([1; LARGE].into_iter().chain([2; 5])) {
        assert_eq!(handler.runs(job), runs, "{job}");
    }
    producer.submit(job("fits again")).await.unwrap();
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_resumes_with_its_data_and_its_fleet() {
    let scene = Scene::on(RedisServer::builder().aof(Aof::Always).start()).await;
    // Enough data that the fleet reconnects while the server is still loading.
    let filler = "for n = 1, 30000 do redis.call('SET', ARGV[1] .. n, string.rep('x', 100)) end return 1";
    for part in 0..10 {
        scene.server.cmd(&["EVAL", filler, "0", &format!("filler:{part}:")]);
    }
    let handler = Gate::closed();
    let fleet = scene.fleet(LONG, handler.clone());
    let producer = scene.producer().await;
    let mut jobs = Vec::new();
    for nth in 0..40 {
        jobs.push(producer.submit(job(if nth % 2 == 0 { "wait" } else { "ok" })).await.unwrap());
    }
    until_async("half of them to be done", SOON, async || {
        scene.queue.snapshot().await.is_ok_and(|snapshot| snapshot.running() == 20 && snapshot.waiting() == 0)
    })
    .await;
    scene.server.kill9();
    handler.open();
    scene.server.restart();
    scene.until_at_rest().await;
    for job in &jobs {
        assert_eq!((handler.of(job).starts, handler.of(job).ends), (1, 1), "{job}");
    }
    let tracked = job("ok").tracking(streamfleet::job::Tracking::All);
    let later = until_async("a submission to be accepted", SOON, async || {
        producer.submit(tracked.clone()).await.ok()
    })
    .await;
    until_state(&scene.queue, &later, State::Done).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_started_before_its_server_begins_once_it_is_up() {
    let server = RedisServer::builder().aof(Aof::Always).start();
    let scene = Scene::on(server).await;
    let waiting = submit(&scene.queue, "{}").await;
    scene.server.kill9();
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(2), handler.clone());
    until_async("the fleet to try", SOON, async || scene.proxy.accepted() > 1).await;
    scene.server.restart();
    until_async("the job to run", SOON, async || handler.runs(&waiting) == 1).await;
    fleet.stop().await;
}
