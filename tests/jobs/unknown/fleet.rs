//! Whole fleets in which some worker does not know a type.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use streamfleet::Fleet;
use streamfleet::job::{JobId, State};
use streamfleet::worker::QueueConfig;
use streamfleet_engine::admin::Cancellation;

use super::{DEAD, LIST, LISTS, PATIENCE, start, until_joined, until_parked};
use harness::fleet::{Acts, Running, quick, until_state};
use harness::proxy::{Mode, Proxy};
use harness::scene::{Gate, LONG, SOON, STREAM, Scene};
use harness::scripts::{reply, sha, source, status_and_rest};
use harness::wait::until_async;

/// Appends a job of the type `test` with this id.
fn add(scene: &Scene, id: &str) {
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", id]);
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|nth| format!("job-{nth:04}")).collect()
}

fn runs(handler: &Acts, id: &str) -> u32 {
    handler.runs(&id.parse().unwrap())
}

/// Waits until each of these jobs has run, and makes sure that none has run twice.
async fn until_each_ran_once(handler: &Acts, ids: &[String]) {
    until_async("every job to run", 3 * SOON, async || handler.jobs() == ids.len()).await;
    for id in ids {
        assert_eq!(runs(handler, id), 1, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lacks_a_type_does_not_delay_its_jobs() {
    let scene = Scene::new().await;
    let started: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    let noted = Arc::clone(&started);
    let handler = Acts::new(move |context, _| {
        noted.lock().unwrap().entry(context.id().to_string()).or_insert_with(Instant::now);
        Ok(serde_json::Value::Null)
    });
    let ignorant = start(scene.config(LONG), &["other"], &handler);
    let knowing = start(scene.config(LONG), &["test"], &handler);
    until_joined(&scene, 2).await;
    let ids = ids(100);
    let added: Vec<Instant> = ids
        .iter()
        .map(|id| {
            add(&scene, id);
            Instant::now()
        })
        .collect();
    until_each_ran_once(&handler, &ids).await;
    let started = started.lock().unwrap().clone();
    let mut waits: Vec<Duration> =
        ids.iter().zip(added).map(|(id, added)| started[id].saturating_duration_since(added)).collect();
    waits.sort_unstable();
    assert!(waits[94] < Duration::from_secs(2), "{:?} at the 95th percentile", waits[94]);
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_in_their_waiting_list_until_a_worker_that_knows_their_type_joins() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let ignorant = start(scene.config(LONG), &["other"], &handler);
    let ids = ids(200);
    ids.iter().for_each(|id| add(&scene, id));
    until_parked(&scene, 200).await;
    assert_eq!(scene.int(&["XLEN", STREAM]), 0);
    let knowing = start(scene.config(LONG), &["test"], &handler);
    until_each_ran_once(&handler, &ids).await;
    until_async("nothing to be left", SOON, async || {
        scene.int(&["EXISTS", LIST, LISTS, "sf:{default}:rooms:places", "sf:{default}:rooms:asked"]) == 0
    })
    .await;
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_nobody_knows_dies_as_unroutable_and_can_be_replayed() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let mut config = scene.config(LONG);
    config.worker.unroutable_after = PATIENCE;
    let began = Instant::now();
    let ignorant = start(config, &["other"], &handler);
    scene.server.cmd(&["XADD", "sf:{default}:jobs:low", "*", "type", "test", "id", "odd", "payload", "x"]);
    let odd: JobId = "odd".parse().unwrap();
    until_state(&scene.queue, &odd, State::Dead).await;
    assert!(began.elapsed() >= PATIENCE);
    let letter = scene.queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    let said =
        ["dead_reason", "dead_origin", "payload", "lane", "unroutable_ms"].map(|name| letter.text(name));
    assert_eq!(said, ["unroutable", "low", "x", "", ""].map(str::to_owned));
    let knowing = start(scene.config(LONG), &["test"], &handler);
    assert!(scene.queue.dead_letters().replay(letter.entry, &letter.job()).await.unwrap().is_done());
    until_state(&scene.queue, &odd, State::Done).await;
    assert_eq!((handler.runs(&odd), scene.int(&["XLEN", DEAD])), (1, 0));
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_of_the_wrong_type_keeps_jobs_of_no_other_type_from_their_end() {
    let scene = Scene::new().await;
    let mut config = scene.config(LONG);
    config.worker.unroutable_after = PATIENCE;
    let ignorant = start(config, &["other"], &Acts::well());
    let types = ["a", "b", "c", "d", "test"];
    for name in types {
        scene.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", name, "id", name]);
    }
    let waitlist = |name: &str| format!("sf:{{default}}:room:unknown:{name}");
    until_async("the jobs to be in their rooms", SOON, async || {
        types.iter().all(|name| scene.int(&["EXISTS", &waitlist(name)]) == 1)
    })
    .await;
    for name in &types[..4] {
        scene.server.cmd(&["SET", &waitlist(name), "x"]);
    }
    until_state(&scene.queue, &"test".parse().unwrap(), State::Dead).await;
    ignorant.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_type_with_a_backlog_never_dies_as_unroutable() {
    let scene = Scene::new().await;
    let handler = Acts::new(|_, _| {
        harness::wait::pause_for(Duration::from_millis(200));
        Ok(serde_json::Value::Null)
    });
    let mut config = scene.config(LONG);
    config.worker.unroutable_after = Duration::ZERO;
    let ignorant = start(config.clone(), &["other"], &handler);
    let ids = ids(60);
    let one_slot = QueueConfig::default().concurrency(1);
    config.worker.queues.insert("default".parse().unwrap(), one_slot);
    let knowing = start(config, &["test"], &handler);
    until_joined(&scene, 2).await;
    ids.iter().for_each(|id| add(&scene, id));
    until_each_ran_once(&handler, &ids).await;
    assert_eq!(scene.int(&["XLEN", DEAD]), 0);
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_worker_that_knows_tens_of_thousands_of_types_keeps_them_all_alive() {
    let scene = Scene::new().await;
    let gate = Gate::closed();
    let mut config = scene.config(LONG);
    config.worker.unroutable_after = 2 * PATIENCE;
    let ignorant = start(config.clone(), &["other"], &Acts::well());
    let one_slot = QueueConfig::default().concurrency(1);
    config.worker.queues.insert("default".parse().unwrap(), one_slot);
    let types: Vec<String> = (0..30_000).map(|nth| format!("type-{nth:05}")).collect();
    let mut knowing = Fleet::builder(config).handler_with("test", quick(3), gate.clone()).unwrap();
    for name in &types {
        knowing = knowing.handler_with(name, quick(3), gate.clone()).unwrap();
    }
    let knowing = Running::of(knowing.build());
    until_joined(&scene, 2).await;
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "busy", "payload", "wait"]);
    gate.until_started(&"busy".parse().unwrap()).await;
    let parked: Vec<&str> = types.iter().step_by(7_500).map(String::as_str).collect();
    for name in &parked {
        scene.server.cmd(&["XADD", STREAM, "*", "type", name, "id", name]);
    }
    until_async("the jobs to be in their rooms", SOON, async || scene.int(&["HLEN", LISTS]) == 4).await;
    let began = Instant::now();
    until_async("the time to pass after which jobs of unknown types die", 2 * SOON, async || {
        let unknown = scene.queue.unknown_types(100).await.unwrap();
        assert!(unknown.iter().all(|unknown| unknown.unserved_for.is_none()), "{unknown:?}");
        began.elapsed() > 4 * PATIENCE
    })
    .await;
    assert_eq!(scene.int(&["XLEN", DEAD]), 0);
    gate.open();
    for name in &parked {
        gate.until_ended(&name.parse().unwrap()).await;
    }
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_worker_that_died_after_taking_them_run_elsewhere() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let lease = Duration::from_secs(1);
    let ignorant = start(scene.config(lease), &["other"], &handler);
    let ids = ids(10);
    ids.iter().for_each(|id| add(&scene, id));
    until_parked(&scene, 10).await;
    let keys = super::scripts::take_keys("default");
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let args = ["unknown:test", "ghost", "50", "262144", "", "", ""];
    let (moved, rest) = status_and_rest(reply(&scene.server, source("take"), &keys, &args));
    assert_eq!((moved, rest.len()), (10, 12));
    let knowing = start(scene.config(lease), &["test"], &handler);
    until_each_ran_once(&handler, &ids).await;
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_whose_take_lost_its_reply_run_once() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let ignorant = start(scene.config(LONG), &["other"], &handler);
    let ids = ids(20);
    ids.iter().for_each(|id| add(&scene, id));
    until_parked(&scene, 20).await;
    let proxy = Proxy::start(scene.server.addr());
    proxy.set(Mode::drop_reply_to(&sha(&scene.server, source("take")), 1));
    let mut config = scene.config(LONG);
    config.redis.url = scene.server.url_through(proxy.addr()).as_str().into();
    let knowing = start(config, &["test"], &handler);
    until_each_ran_once(&handler, &ids).await;
    assert_eq!(proxy.hits(), 1);
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_types_are_taken_by_the_worker_that_knows_them() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let ignorant = start(scene.config(LONG), &["other"], &handler);
    let ids = ids(1000);
    let mut jobs = redis::pipe();
    for id in &ids {
        jobs.cmd("XADD").arg(&[STREAM, "*", "type", id, "id", id]);
    }
    scene.server.try_pipe(&jobs).unwrap();
    until_async("all to be in rooms", 2 * SOON, async || scene.int(&["HLEN", LISTS]) == 1000).await;
    let types: Vec<&str> = ids.iter().map(String::as_str).collect();
    let knowing = start(scene.config(LONG), &types, &handler);
    until_each_ran_once(&handler, &ids).await;
    ignorant.stop().await;
    knowing.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_unknown_type_that_was_cancelled_never_runs() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let ignorant = start(scene.config(LONG), &["other"], &handler);
    ["stays", "goes"].iter().for_each(|id| add(&scene, id));
    until_parked(&scene, 2).await;
    let cancelled = scene.queue.cancel(&"goes".parse().unwrap(), "ann", LONG).await.unwrap();
    assert_eq!(cancelled, Cancellation::Done);
    let knowing = start(scene.config(LONG), &["test"], &handler);
    until_async("the other to run", SOON, async || runs(&handler, "stays") == 1).await;
    until_async("the waiting list to be empty", SOON, async || scene.int(&["EXISTS", LIST]) == 0).await;
    scene.until_at_rest().await;
    assert_eq!(runs(&handler, "goes"), 0);
    ignorant.stop().await;
    knowing.stop().await;
}
