//! Connections that are open but silent: only the missing answers show that they are dead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streamfleet::{RedisError, SubmitError};
use tokio::task::JoinSet;

use harness::fleet::{Acts, submit};
use harness::proxy::{Mode, Scope};
use harness::scene::{Gate, LONG, SOON, Scene, job};
use harness::wait::until_async;

/// Four seconds until a read counts as lost, and at most three and a half until the client reconnects.
const READS_AGAIN: Duration = Duration::from_secs(12);

/// Two command timeouts and the pauses after them. Usually there is one; if a slow machine processes an earlier answer late, the
/// first lost command does not count as lost.
const ASKS_AGAIN: Duration = Duration::from_secs(15);

/// Connections that have sent this word become silent; later ones work.
fn silence(word: &str) -> Mode {
    Mode::blackhole(Scope::OpenSent(word.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_on_a_silent_connection_resumes_and_finds_its_entries() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    scene.proxy.set(silence("XREADGROUP"));
    let asked = Instant::now();
    let mut jobs = Vec::new();
    // The pending read gets the first job; for the next ones there is no reader.
    for _ in 0..3 {
        jobs.push(submit(&scene.queue, "{}").await);
        until_async("a reply to be swallowed", SOON, async || scene.proxy.hits() > 0).await;
    }
    scene.until_at_rest().await;
    assert!(asked.elapsed() < READS_AGAIN, "{:?}", asked.elapsed());
    for job in &jobs {
        assert_eq!(handler.runs(job), 1);
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_on_a_silent_connection_is_sent_again_on_another() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    scene.proxy.set(silence("XACK XACKDEL"));
    let asked = Instant::now();
    let jobs = [submit(&scene.queue, "{}").await, submit(&scene.queue, "{}").await];
    scene.until_at_rest().await;
    assert!(asked.elapsed() < ASKS_AGAIN, "{:?}", asked.elapsed());
    assert_eq!(jobs.each_ref().map(|job| handler.runs(job)), [1, 1]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_in_flight_when_the_client_is_replaced_may_have_run() {
    let scene = Scene::new().await;
    let producer = Arc::new(scene.producer().await);
    producer.submit(job("first")).await.unwrap();
    scene.proxy.set(Mode::blackhole(Scope::All));
    let (mut under_way, mut answers, mut last) = (JoinSet::new(), Vec::new(), Instant::now());
    until_async("a new client to be made", 3 * SOON, async || {
        // One after another, so that they do not all end at the same time.
        if last.elapsed() > Duration::from_millis(100) {
            last = Instant::now();
            let (producer, sent) = (Arc::clone(&producer), Instant::now());
            under_way.spawn(async move { (producer.submit(job("precious")).await, sent.elapsed()) });
        }
        let before = answers.len();
        answers.extend(std::iter::from_fn(|| under_way.try_join_next()).map(Result::unwrap));
        // A command ends at its timeout of five seconds; nothing else ends it before the old client is abandoned.
        answers[before..].iter().any(|(_, took)| *took < Duration::from_secs(4))
    })
    .await;
    for (answer, took) in answers {
        assert!(
            matches!(answer, Err(SubmitError::Broker(RedisError::Unknown { .. }))),
            "{answer:?} after {took:?}"
        );
    }
    scene.proxy.set(Mode::Pass);
    let works = async || producer.submit(job("last")).await.is_ok();
    until_async("the new client to work", SOON, works).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_maintenance_connection_does_not_stop_maintenance() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let fleet = scene.fleet(Duration::from_secs(5), handler.clone());
    submit(&scene.queue, "warm up").await;
    scene.until_at_rest().await;
    scene.proxy.set(silence("sf:{default}:leader"));
    let asked = Instant::now();
    let producer = streamfleet::Producer::new(scene.queue.clone());
    let job = producer.submit(job("late").delay(Duration::from_millis(50))).await.unwrap();
    scene.until_at_rest().await;
    assert!(asked.elapsed() < ASKS_AGAIN, "{:?}", asked.elapsed());
    assert_eq!(handler.runs(&job), 1);
    fleet.stop().await;
}

/// Returns the worker's own key, which only the heartbeat's connection names.
async fn worker_key(scene: &Scene) -> String {
    until_async("the worker's first heartbeat", SOON, async || {
        let found = scene.server.cmd(&["KEYS", "sf:worker:*"]);
        let keys: Vec<String> = redis::from_redis_value(found).unwrap();
        keys.into_iter().next()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_on_a_silent_connection_reconnects_before_the_lease_ends() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let lease = Duration::from_secs(12);
    let fleet = scene.fleet(lease, handler.clone());
    let jobs = [submit(&scene.queue, "wait").await, submit(&scene.queue, "wait").await];
    for job in &jobs {
        handler.until_started(job).await;
    }
    let key = worker_key(&scene).await;
    let other = scene.sound_fleet(lease, handler.clone());
    scene.proxy.set(silence(&key));
    let silenced = Instant::now();
    until_async("one and a half leases to pass", 2 * lease, async || silenced.elapsed() > lease * 3 / 2)
        .await;
    assert!(scene.proxy.hits() > 0);
    handler.open();
    scene.until_at_rest().await;
    for job in &jobs {
        assert_eq!((handler.of(job).starts, handler.of(job).ends), (1, 1), "{:?}", handler.of(job));
    }
    fleet.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cut_off_from_redis_ends_its_handlers_within_its_lease() {
    let scene = Scene::new().await;
    let (handler, lease) = (Gate::closed(), Duration::from_secs(6));
    let fleet = scene.fleet(lease, handler.clone());
    let job = submit(&scene.queue, "wait").await;
    handler.until_started(&job).await;
    let key = worker_key(&scene).await;
    // Just before the heartbeat is busiest: at intervals of at least 3.5 s it renews the worker's key for 30 s.
    until_async("the next renewal of the worker's key to be due", SOON, async || {
        scene.int(&["PTTL", &key]) < 26_600
    })
    .await;
    scene.proxy.set(Mode::blackhole(Scope::All));
    let cut_off = Instant::now();
    until_async("the handler to be cancelled", SOON, async || handler.of(&job).cancelled == 1).await;
    assert!(cut_off.elapsed() < lease, "{:?}", cut_off.elapsed());
    scene.proxy.set(Mode::Pass);
    handler.open();
    scene.until_at_rest().await;
    assert_eq!(handler.of(&job).starts, 2);
    fleet.stop().await;
}
