//! Draining one worker of a fleet, by a request in its own key.

mod scripts;

use streamfleet::job::ConsumerName;
use streamfleet::worker::QueueConfig;
use streamfleet::{Broker, FleetConfig};
use streamfleet_engine::admin::{Drain, DrainOutcome};

use harness::fleet::{Running, config, quick, submit};
use harness::scene::{Gate, LONG, SOON, STREAM, Scene};
use harness::wait::until_async;

/// A connection to the server, and the only worker.
async fn only_worker(scene: &Scene) -> (Broker, ConsumerName) {
    let broker = Broker::connect(config(&scene.server.url()).redis).await.unwrap();
    let name = until_async("the worker to report", SOON, async || {
        broker
            .workers()
            .await
            .unwrap()
            .found
            .first()
            .map(|worker| worker.consumer.parse::<ConsumerName>().unwrap())
    })
    .await;
    (broker, name)
}

async fn until_state(broker: &Broker, name: &ConsumerName, state: &str) {
    until_async(&format!("the worker to be {state}"), SOON, async || {
        let worker = broker.worker(name).await.unwrap();
        worker.is_some_and(|worker| worker.facts.get("state").is_some_and(|known| known == state))
    })
    .await;
}

/// How many entries of the main lane are pending.
fn pending(scene: &Scene) -> i64 {
    let redis::Value::Array(summary) = scene.server.cmd(&["XPENDING", STREAM, "fleet"]) else {
        panic!("XPENDING returned no list")
    };
    redis::from_redis_value(summary[0].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_finishes_what_runs_and_takes_nothing_more() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    let (broker, name) = only_worker(&scene).await;
    let request = Drain::new("ann", "its disk is failing");
    assert_eq!(broker.drain_worker(&name, &request).await.unwrap(), DrainOutcome::Noted);
    until_state(&broker, &name, "draining").await;
    let waits = submit(&scene.queue, "quick").await;
    handler.open();
    handler.until_ended(&running).await;
    until_state(&broker, &name, "drained").await;
    let known = broker.worker(&name).await.unwrap().unwrap();
    assert!(known.can_drain() && known.has_heard() && known.started().is_some());
    let drain = known.drain().unwrap();
    assert_eq!((drain.by.as_str(), drain.why.as_str(), drain.exits), ("ann", "its disk is failing", false));
    assert_eq!((handler.of(&waits).starts, scene.queue.snapshot().await.unwrap().waiting()), (0, 1));
    assert_eq!(broker.resume_worker(&name, "bob", "").await.unwrap(), DrainOutcome::Noted);
    handler.until_ended(&waits).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_worker_gives_back_what_it_has_not_started() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let mut slow: FleetConfig = config(&scene.server.url());
    let queue = QueueConfig::default().concurrency(1);
    slow.worker = slow.worker.lease(LONG).prefetch(10).queues([("default".parse().unwrap(), queue)]);
    let fleet = Running::start_with(slow, quick(3), handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(submit(&scene.queue, "quick").await);
    }
    until_async("all jobs to be delivered", SOON, async || pending(&scene) == 6).await;
    let (broker, name) = only_worker(&scene).await;
    broker.drain_worker(&name, &Drain::new("ann", "")).await.unwrap();
    until_async("the others to be given back", SOON, async || pending(&scene) == 1).await;
    assert!(others.iter().all(|job| handler.of(job).starts == 0));
    let second = scene.sound_fleet(LONG, handler.clone());
    for job in &others {
        handler.until_ended(job).await;
    }
    assert_eq!(handler.of(&running).ends, 0, "it runs on");
    handler.open();
    handler.until_ended(&running).await;
    scene.until_at_rest().await;
    assert_eq!(handler.cancelled(), 0);
    fleet.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_redis_has_lost_is_noted_again() {
    let scene = Scene::new().await;
    let fleet = scene.sound_fleet(LONG, Gate::closed());
    let (broker, name) = only_worker(&scene).await;
    broker.drain_worker(&name, &Drain::new("ann", "its disk")).await.unwrap();
    until_state(&broker, &name, "drained").await;
    scene.server.cmd(&["DEL", &format!("sf:worker:{name}")]);
    until_async("the request to be noted again", SOON, async || {
        let worker = broker.worker(&name).await.unwrap();
        worker.and_then(|worker| worker.drain()).is_some_and(|drain| drain.by == "ann")
    })
    .await;
    until_state(&broker, &name, "drained").await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_to_its_end_ends_once_it_runs_nothing() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let running = submit(&scene.queue, "wait").await;
    handler.until_started(&running).await;
    let (broker, name) = only_worker(&scene).await;
    broker.drain_worker(&name, &Drain::new("ann", "").exits(true)).await.unwrap();
    until_state(&broker, &name, "draining").await;
    handler.open();
    handler.until_ended(&running).await;
    until_async("the worker to be gone", SOON, async || broker.worker(&name).await.unwrap().is_none()).await;
    assert_eq!(handler.cancelled(), 0);
    // It has ended by itself, so this only awaits it.
    fleet.stop().await;
    scene.until_at_rest().await;
}
