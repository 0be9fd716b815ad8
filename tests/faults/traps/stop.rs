//! A worker that stops in a bad moment: in the middle of a takeover, or while Redis is away.

use std::time::Duration;

use streamfleet::job::{Lane, QueueName};
use streamfleet::worker::QueueConfig;
use streamfleet::{Broker, Producer};
use streamfleet_engine::Role;

use harness::fleet::{Acts, Running, config, quick, submit};
use harness::proxy::{Direction, Mode, Scope};
use harness::scene::{Claims, Gate, LONG, SOON, Scene, job};
use harness::scripts::{sha, source};
use harness::wait::{until, until_async};

/// Long enough that no page of a takeover is settled too slowly.
const LEASE: Duration = Duration::from_secs(6);

/// With the latency of [`slow`], more than a process can take over while a test runs.
const STALE: u64 = 4_000;

/// A network with some latency.
fn slow() -> Mode {
    Mode::Delay { by: Duration::from_millis(20), direction: Direction::Replies }
}

/// Starts a process behind the proxy, and waits until it leads.
async fn leader(scene: &Scene, handler: &Acts, claims: &Claims) -> Running {
    let fleet = claims.start(scene.config(LEASE), handler.clone());
    until_async("a leader", SOON, async || scene.int(&["EXISTS", "sf:{default}:leader"]) == 1).await;
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_in_a_takeover_starts_nothing_more() {
    let scene = Scene::new().await;
    let (handler, claims) = (Acts::well(), Claims::default());
    let fleet = leader(&scene, &handler, &claims).await;
    scene.proxy.set(slow());
    scene.leave_stale(STALE);
    until_async("the takeover to begin", SOON, async || claims.count() > 0).await;
    let stopping = tokio::spawn(fleet.stop());
    until_async("reading to have ended", SOON, async || !is_read(&scene)).await;
    assert!(claims.count() < STALE, "reading goes on while the takeover does");
    let late = submit(&scene.queue, "late").await;
    stopping.await.unwrap();
    assert_eq!(handler.runs(&late), 0, "a job started after the stop");
    assert!(claims.count() < STALE, "the takeover went on to its end");
    let consumers = scene.queue.consumers(Lane::Normal).await.unwrap();
    let unsettled = consumers.iter().find(|consumer| consumer.name.ends_with(".claims"));
    assert!(unsettled.is_none(), "what was claimed is not settled: {unsettled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_takeover_is_not_answered_stops_in_time() {
    let scene = Scene::new().await;
    let (handler, claims) = (Acts::well(), Claims::default());
    let fleet = leader(&scene, &handler, &claims).await;
    let needle = sha(&scene.server, source("defer")).into_bytes();
    scene.proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    scene.leave_stale(50);
    until_async("the settlement to be sent", SOON, async || scene.proxy.hits() > 0).await;
    scene.proxy.set(Mode::blackhole(Scope::NeverSent("XREADGROUP".to_owned())));
    let stopped = tokio::time::timeout(Duration::from_secs(28), fleet.stop()).await;
    assert!(stopped.is_ok(), "the leader waits for Redis");
}

/// Starts a process with a job that waits in each of these queues, and waits until all have started.
async fn busy(scene: &Scene, queues: &[&str]) -> (Running, Gate) {
    let (mut config, handler) = (config(&scene.server.url()), Gate::closed());
    let queues: Vec<QueueName> = queues.iter().map(|name| name.parse().unwrap()).collect();
    config.worker =
        config.worker.lease(LONG).queues(queues.iter().map(|name| (name.clone(), QueueConfig::default())));
    let broker = Broker::connect(config.redis.clone()).await.unwrap();
    let fleet = Running::start_with(config, quick(3), handler.clone());
    for name in queues {
        let id = Producer::new(broker.queue(name)).submit(job("wait")).await.unwrap();
        handler.until_started(&id).await;
    }
    (fleet, handler)
}

/// Returns true if a client of the server reads jobs.
fn is_read(scene: &Scene) -> bool {
    let clients = redis::from_redis_value::<String>(scene.server.cmd(&["CLIENT", "LIST"])).unwrap();
    clients.lines().any(|client| client.contains(" cmd=xreadgroup "))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_many_queues_stops_in_time_without_redis() {
    let scene = Scene::new().await;
    let (fleet, handler) = busy(&scene, &["a", "b", "c"]).await;
    let stopping = tokio::spawn(fleet.stop());
    until_async("reading to have ended", SOON, async || !is_read(&scene)).await;
    scene.server.freeze();
    handler.open();
    // Each queue alone takes ten seconds and more.
    let stopped = tokio::time::timeout(Duration::from_secs(22), stopping).await;
    scene.server.thaw();
    assert!(stopped.is_ok(), "one queue waits for another");
}

/// Asserts that a second signal cuts the only handler while Redis is frozen.
async fn a_second_signal_cuts(scene: &Scene, fleet: Running, handler: &Gate) {
    scene.server.freeze();
    fleet.shutdown.request();
    fleet.shutdown.request();
    let cut = async || handler.cancelled() == 1;
    until_async("the handler to be cut", Duration::from_secs(3), cut).await;
    scene.server.thaw();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_handlers_at_once_though_redis_is_silent() {
    let scene = Scene::new().await;
    let (fleet, handler) = busy(&scene, &["default"]).await;
    until_async("the worker to read", SOON, async || is_read(&scene)).await;
    a_second_signal_cuts(&scene, fleet, &handler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_handlers_though_another_queue_waits_for_redis() {
    let scene = Scene::new().await;
    let (mut config, handler) = (config(&scene.server.url()), Gate::closed());
    let queues: [QueueName; 2] = ["full", "idle"].map(|name| name.parse().unwrap());
    config.worker.prefetch = 0;
    let mut one = QueueConfig::default();
    one.concurrency = 1;
    config.worker = config.worker.lease(LONG).queues(queues.clone().map(|name| (name, one.clone())));
    let full = Broker::connect(config.redis.clone()).await.unwrap().queue(queues[0].clone());
    let fleet = Running::start_with(config, quick(3), handler.clone());
    let id = Producer::new(full).submit(job("wait")).await.unwrap();
    handler.until_started(&id).await;
    until_async("the idle queue to be read", SOON, async || is_read(&scene)).await;
    a_second_signal_cuts(&scene, fleet, &handler).await;
}

/// Redis 7.0 crashes if a client is unblocked whose write command waits for the end of a pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_a_pause_of_writes_holds_back_is_not_unblocked() {
    let scene = Scene::new().await;
    scene.queue.join(LONG).await.unwrap();
    let link = scene.queue.open(Role::Blocking).await.unwrap();
    scene.server.cmd(&["CLIENT", "PAUSE", "3000", "WRITE"]);
    let (queue, reading) = (scene.queue.clone(), link.clone());
    let read = tokio::spawn(async move {
        let consumer = "reader".parse().unwrap();
        queue.read_waiting(&reading, &consumer, &Lane::ALL, (1, LONG)).await
    });
    let sent = || format!("{:?}", scene.server.cmd(&["CLIENT", "LIST"])).contains("cmd=xreadgroup");
    until("the read to be sent", SOON, sent);
    link.unblock().await;
    scene.server.cmd(&["PING"]);
    until_async("the read to be unblocked after the pause", SOON, async || {
        link.unblock().await;
        read.is_finished()
    })
    .await;
    assert!(read.await.unwrap().unwrap().is_empty());
}
