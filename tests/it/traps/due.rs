//! Many delayed jobs that are due at the same time.

use std::time::Duration;

use streamfleet::Producer;
use streamfleet::job::Timestamp;

use super::scene::{LONG, SOON, Scene, job};
use crate::harness::fleet::{Acts, submit};
use crate::harness::wait::until_async;

/// This many jobs with the same due time run once each, and a job that is sent meanwhile need not wait for them.
async fn all_run_once(count: u32) {
    let scene = Scene::new().await;
    let now = scene.queue.snapshot().await.unwrap().now;
    let due: Timestamp = now.after(Duration::from_millis(500));
    let producer = Producer::new(scene.queue.clone());
    producer.submit_all((0..count).map(|_| job("{}").at(due))).await.unwrap();
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    let ready = submit(&scene.queue, "ready").await;
    until_async("the job that is not delayed to run", SOON, async || handler.runs(&ready) == 1).await;
    until_async("all to run", 3 * SOON, async || handler.all_runs() > count).await;
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), count + 1);
    assert_eq!(handler.jobs(), count as usize + 1);
    assert_eq!(scene.int(&["EXISTS", "sf:{default}:delayed", "sf:{default}:delayed:fields"]), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_jobs_than_lua_can_unpack_are_promoted_when_due_at_once() {
    all_run_once(8_001).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_jobs_due_at_once_run_once_each() {
    all_run_once(20_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_with_the_same_id_are_both_kept() {
    let scene = Scene::new().await;
    let stream = super::scene::STREAM;
    for _ in 0..2 {
        scene.server.cmd(&["XADD", stream, "*", "type", "test", "id", "same", "delay_ms", "300"]);
    }
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    until_async("both to run", SOON, async || handler.all_runs() == 2).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}
