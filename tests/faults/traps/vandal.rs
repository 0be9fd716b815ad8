//! Damage that people and scripts do to Redis while a fleet works: they flush it, destroy groups, delete streams.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::State;

use harness::fleet::{Acts, submit, until_state};
use harness::scene::{LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn constantly_flushing_the_script_cache_changes_nothing() {
    let scene = Scene::new().await;
    let handler = Acts::new(|context, payload| match (payload, context.attempt()) {
        (b"fails once", 1) => Err(JobError::retry("not yet")),
        (b"fatal", _) => Err(JobError::fatal("no")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.fleet(LONG, handler.clone());
    let stop = AtomicBool::new(false);
    let producer = scene.producer().await;
    let (sent, ()) = tokio::join!(
        async {
            let mut sent = Vec::new();
            for nth in 0..120 {
                let payload = ["ok", "fails once", "fatal"][nth % 3];
                sent.push((payload, producer.submit(job(payload)).await.unwrap()));
            }
            scene.until_at_rest().await;
            stop.store(true, Ordering::Relaxed);
            sent
        },
        async {
            while !stop.load(Ordering::Relaxed) {
                scene.server.cmd(&["SCRIPT", "FLUSH"]);
                tokio::task::yield_now().await;
            }
        },
    );
    for (payload, job) in &sent {
        assert_eq!(handler.runs(job), if *payload == "fails once" { 2 } else { 1 }, "{payload} {job}");
    }
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 40);
    fleet.stop().await;
}

/// Lets a working fleet suffer this command, and waits until it has run a later job of each lane and a delayed one.
async fn runs_on_after(vandalism: &[&str]) {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(3), handler.clone());
    let before = submit(&scene.queue, "{}").await;
    until_async("a job to run", SOON, async || handler.runs(&before) == 1).await;
    scene.until_at_rest().await;
    scene.server.cmd(vandalism);
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let mut later = Vec::new();
    for lane in streamfleet::job::Lane::ALL {
        later.push(producer.submit(job("{}").lane(lane)).await.unwrap());
    }
    later.push(producer.submit(job("{}").delay(Duration::from_millis(100))).await.unwrap());
    for job in &later {
        until_async("a later job to run", SOON, async || handler.runs(job) > 0).await;
    }
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs(), 5);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_keeps_working_after_flushall() {
    runs_on_after(&["FLUSHALL"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_keeps_working_after_its_group_was_destroyed() {
    runs_on_after(&["XGROUP", "DESTROY", STREAM, "fleet"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_keeps_working_after_its_stream_was_deleted() {
    runs_on_after(&["DEL", STREAM]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_keeps_working_after_an_unused_lanes_stream_was_deleted() {
    runs_on_after(&["DEL", "sf:{default}:jobs:high"]).await;
}

/// Jobs that run while this happens end, their slots become free again, and jobs submitted afterwards run.
async fn frees_its_slots_after(vandalism: &[&str]) {
    let scene = Scene::new().await;
    let handler = harness::scene::Gate::closed();
    let mut config = scene.config(Duration::from_secs(3));
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 2;
    }
    let policy = harness::fleet::quick(3);
    let fleet = harness::fleet::Running::start_with(config, policy, handler.clone());
    let held = [submit(&scene.queue, "wait").await, submit(&scene.queue, "wait").await];
    for job in &held {
        handler.until_started(job).await;
    }
    scene.server.cmd(vandalism);
    let later = submit(&scene.queue, "at once").await;
    handler.open();
    handler.until_ended(&later).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_slots_are_free_again_after_flushall() {
    frees_its_slots_after(&["FLUSHALL"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_slots_are_free_again_after_their_group_was_destroyed() {
    frees_its_slots_after(&["XGROUP", "DESTROY", STREAM, "fleet"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_slots_are_free_again_after_their_stream_was_deleted() {
    frees_its_slots_after(&["DEL", STREAM]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_the_wrong_type_blocks_no_other_job() {
    let scene = Scene::new().await;
    let handler = Acts::new(|context, payload| match (payload, context.attempt()) {
        (b"fails once", 1) => Err(JobError::retry("not yet")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.fleet(LONG, handler.clone());
    scene.server.cmd(&["SET", "sf:{default}:job:spoilt", "a string"]);
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "spoilt"]);
    until_async("the job to be taken", SOON, async || scene.queue.snapshot().await.unwrap().running() == 1)
        .await;
    let other = submit(&scene.queue, "fails once").await;
    until_state(&scene.queue, &other, State::Done).await;
    scene.server.cmd(&["DEL", "sf:{default}:job:spoilt"]);
    scene.until_at_rest().await;
    assert_eq!(handler.runs(&"spoilt".parse().unwrap()), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_stream_of_the_wrong_type_blocks_no_other_job() {
    let scene = Scene::new().await;
    let handler = Acts::new(|context, payload| match (payload, context.attempt()) {
        (b"fails once", 1) => Err(JobError::retry("not yet")),
        (b"fatal", _) => Err(JobError::fatal("no")),
        _ => Ok(Value::Null),
    });
    let fleet = scene.fleet(LONG, handler.clone());
    scene.server.cmd(&["SET", "sf:{default}:dead", "a string"]);
    let fatal = submit(&scene.queue, "fatal").await;
    until_async("the job to run", SOON, async || handler.runs(&fatal) == 1).await;
    let other = submit(&scene.queue, "fails once").await;
    until_state(&scene.queue, &other, State::Done).await;
    scene.server.cmd(&["DEL", "sf:{default}:dead"]);
    until_state(&scene.queue, &fatal, State::Dead).await;
    assert_eq!(handler.runs(&fatal), 1);
    fleet.stop().await;
}
