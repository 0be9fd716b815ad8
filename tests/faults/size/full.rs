//! A server at its memory limit: the fleet moves and finishes the existing jobs, which frees memory.

use std::time::Duration;

use streamfleet::{ErrorClass, JobError, Producer, SubmitError};

use harness::fleet::Acts;
use harness::scene::{LONG, SOON, Scene, job};
use harness::wait::until_async;

const DELAYED: &str = "sf:{default}:delayed";

/// Fails the first attempt of each job, so that each passes through the delayed set once more.
fn fails_once() -> Acts {
    Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry("once more")),
        _ => Ok(serde_json::Value::Null),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_on_a_full_server_finishes_its_delayed_jobs() {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let payload = "x".repeat(20_000);
    let waiting = (0..100).map(|_| job(payload.clone()));
    let delayed = (0..100).map(|_| job(payload.clone()).delay(Duration::from_millis(300)));
    let jobs = producer.submit_all(waiting.chain(delayed)).await.unwrap();
    // Below the current use, so that no command that adds data is admitted.
    scene.server.cmd(&["CONFIG", "SET", "maxmemory", "1mb"]);
    match producer.submit(job("one too many")).await {
        Err(SubmitError::Broker(error)) => assert_eq!(error.class(), Some(ErrorClass::Full), "{error}"),
        other => panic!("{other:?}"),
    }
    let handler = fails_once();
    let fleet = scene.fleet(LONG, handler.clone());
    until_async("all to be done", 2 * SOON, async || jobs.iter().all(|job| handler.runs(job) == 2)).await;
    scene.until_at_rest().await;
    assert_eq!(scene.int(&["ZCARD", DELAYED]), 0);
    scene.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    fleet.stop().await;
}
