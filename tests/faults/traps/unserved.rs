//! Jobs that a worker gets before it can run them: it has no handler for their type (see also `unknown`), or they are not
//! due yet.

use std::time::{Duration, Instant};

use streamfleet::Fleet;
use streamfleet::job::State;

use harness::fleet::{Acts, Running, quick, until_state};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

const DELAYED: &str = "sf:{default}:delayed";

/// Starts a fleet that has a handler only for this type, and buries jobs of other types after this time.
fn start(scene: &Scene, job_type: &str, unroutable_after: Duration, handler: &Acts) -> Running {
    let mut config = scene.config(LONG);
    config.worker.unroutable_after = unroutable_after;
    let builder = Fleet::builder(config).handler_with(job_type, quick(3), handler.clone()).unwrap();
    Running::of(builder.build())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_job_of_unknown_type_gets_its_full_time_from_its_first_offer() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let yesterday = (scene.server.now_ms() - 86_400_000).to_string();
    let old = ["type", "other", "id", "old", "created_ms", &yesterday, "attempt", "1"];
    scene.server.cmd(&[&["XADD", STREAM, "*"], &old[..]].concat());
    let fleet = start(&scene, "test", Duration::from_secs(3600), &handler);
    let waitlist = "sf:{default}:room:unknown:other";
    until_async("it to be in its waiting list", SOON, async || scene.int(&["XLEN", waitlist]) == 1).await;
    assert_eq!(scene.int(&["XLEN", "sf:{default}:dead"]), 0);
    fleet.stop().await;
    let fleet = start(&scene, "other", Duration::from_secs(3600), &handler);
    until_async("it to run", SOON, async || handler.runs(&"old".parse().unwrap()) == 1).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_unknown_type_dies_when_its_time_is_up() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    scene.server.cmd(&["XADD", STREAM, "*", "type", "other", "id", "odd"]);
    let (begun, time) = (Instant::now(), Duration::from_secs(2));
    let fleet = start(&scene, "test", time, &handler);
    let odd = "odd".parse().unwrap();
    until_state(&scene.queue, &odd, State::Dead).await;
    assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
    let letter = scene.queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    assert_eq!(letter.text("dead_reason"), "unroutable");
    assert_eq!(letter.text("unroutable_ms"), "");
    fleet.stop().await;
}

/// Returns when the only delayed job is due, in milliseconds after its first entry.
async fn due_after(scene: &Scene, entry: &str) -> u64 {
    let due = until_async("it to be postponed", SOON, async || {
        let found = scene.server.cmd(&["ZRANGE", DELAYED, "0", "0", "WITHSCORES"]);
        redis::from_redis_value::<Vec<String>>(found).unwrap().get(1).cloned()
    })
    .await;
    due.parse::<u64>().unwrap() - entry.split('-').next().unwrap().parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_offered_to_a_worker_without_its_type_keeps_its_time() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let entry = scene.server.cmd(&["XADD", STREAM, "*", "type", "other", "delay_ms", "40000"]);
    let fleet = start(&scene, "test", Duration::ZERO, &handler);
    assert_eq!(due_after(&scene, &redis::from_redis_value::<String>(entry).unwrap()).await, 40_000);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_whose_worker_dies_with_it_keeps_its_time() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    let entry = scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "delay_ms", "20000"]);
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    let fleet = scene.fleet(Duration::from_secs(1), handler.clone());
    assert_eq!(due_after(&scene, &redis::from_redis_value::<String>(entry).unwrap()).await, 20_000);
    fleet.stop().await;
    assert_eq!(handler.all_runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_attempt_is_recorded() {
    interrupted_attempt_is_recorded(["id", "cut"]).await;
    // The record of such a job begins with the end of its first attempt.
    interrupted_attempt_is_recorded(["tracking", "all"]).await;
}

async fn interrupted_attempt_is_recorded([name, value]: [&str; 2]) {
    let scene = Scene::new().await;
    let gate = harness::scene::Gate::closed();
    let added = scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", "wait", name, value]);
    let entry: String = redis::from_redis_value(added).unwrap();
    let cut = if name == "id" { value } else { entry.as_str() }.parse().unwrap();
    let mut config = scene.config(LONG);
    config.worker.drain_timeout = Duration::from_millis(10);
    let fleet = Running::start_with(config, quick(3), gate.clone());
    gate.until_started(&cut).await;
    fleet.stop().await;
    gate.open();
    let fleet = scene.fleet(LONG, gate.clone());
    let status = until_state(&scene.queue, &cut, State::Done).await;
    let outcomes: Vec<_> = status.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["interrupted", "done"]);
    assert_ne!(status.attempts[0].worker, status.attempts[1].worker);
    fleet.stop().await;
}
