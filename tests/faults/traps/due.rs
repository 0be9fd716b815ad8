//! Many delayed jobs that are due at the same time.

use std::time::Duration;

use redis::Value;
use streamfleet::Producer;
use streamfleet::job::{Envelope, Lane, Timestamp};

use harness::fleet::{Acts, submit};
use harness::scene::{LONG, SOON, Scene, job};
use harness::scripts::Scripts;
use harness::scripts::keys::{DELAYED, FIELDS, PROMOTE_KEYS, STREAM};
use harness::scripts::source;
use harness::wait::until_async;

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
    for _ in 0..2 {
        scene.server.cmd(&[
            "XADD",
            harness::scene::STREAM,
            "*",
            "type",
            "test",
            "id",
            "same",
            "delay_ms",
            "300",
        ]);
    }
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    until_async("both to run", SOON, async || handler.all_runs() == 2).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

/// Small jobs are read many at once, and large ones alone.
#[test]
fn jobs_of_all_sizes_are_promoted_in_their_order_as_far_as_they_fit() {
    let scripts = Scripts::start();
    let sizes = [10, 10, 300_000, 10, 10, 10, 300_000, 300_000, 10, 10];
    for (nth, size) in sizes.into_iter().enumerate() {
        let (id, due, payload) = (nth.to_string(), (nth + 1).to_string(), "x".repeat(size));
        let fields = [("type", "test"), ("id", id.as_str()), ("payload", payload.as_str())];
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let pack = Envelope::new(fields.into_iter()).pack(Lane::Normal);
        scripts.server.cmd(&[b"HSET".as_slice(), FIELDS.as_bytes(), id.as_bytes(), &pack]);
        scripts.server.cmd(&["ZADD", DELAYED, &due, &id]);
    }
    let moved = [0; 3].map(|_| {
        let (moved, rest) = scripts.call(source("promote"), &PROMOTE_KEYS, &["400", "524288"]);
        (moved, rest[2].clone())
    });
    assert_eq!(moved, [(6, Value::Int(1)), (1, Value::Int(1)), (3, Value::Int(0))]);
    let entries: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", STREAM, "-", "+"])).unwrap();
    let ids: Vec<_> = entries.iter().map(|(_, fields)| fields[3].as_str()).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}
