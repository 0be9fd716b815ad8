//! Jobs that are set aside hold no place in a gate: others pass it meanwhile, and they ask it again before they start.

use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{Breaker, JobId, Limits, Rate};
use streamfleet::{Fleet, JobError};

use super::limits::{Crowd, is_tripped, test_type};
use harness::fleet::{Acts, Running, quick, submit};
use harness::proxy::{Direction, Mode};
use harness::scene::{LONG, SOON, STREAM, Scene};
use harness::tally::{Tally, start};
use harness::wait::until_async;

const HELD: &str = "sf:{default}:held:type:test";

/// The record of the job `bad`.
const RECORD: &str = "sf:{default}:job:bad";

/// Jobs that were set aside are tried again after at most a minute and a half.
const AGAIN: Duration = Duration::from_secs(100);

fn obeys() -> Acts {
    Acts::new(|_, payload| match payload {
        b"fatal" | b"fail" => Err(JobError::fatal("no")),
        _ => Ok(Value::Null),
    })
}

fn bad() -> JobId {
    "bad".parse().unwrap()
}

/// Limits the type of the jobs.
async fn limit(scene: &Scene, limits: Limits) {
    scene.queue.gates().set(&test_type(), &limits).await.unwrap();
}

/// Adds a job whose record Redis cannot read. Returns its entry.
fn add_unreadable(scene: &Scene) -> String {
    scene.server.cmd(&["SET", RECORD, "a string"]);
    redis::from_redis_value(scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "bad"])).unwrap()
}

async fn until_nobody_holds_a_place(scene: &Scene) {
    until_async("all places to be given back", SOON, async || scene.int(&["EXISTS", HELD]) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_8_a_job_that_cannot_be_buried_keeps_no_other_from_its_gate() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    limit(&scene, Limits::default().concurrency(1)).await;
    scene.server.cmd(&["SET", "sf:{default}:dead", "a string"]);
    let bad = submit(&scene.queue, "fatal").await;
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    until_async("the bad one to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    let mut good = Vec::new();
    for _ in 0..20 {
        good.push(submit(&scene.queue, "ok").await);
    }
    until_async("the good ones to be done", SOON, async || {
        good.iter().all(|job| tally.of(job) == ["succeeded"])
    })
    .await;
    until_nobody_holds_a_place(&scene).await;
    scene.server.cmd(&["DEL", "sf:{default}:dead"]);
    until_async("the bad one to be buried", AGAIN, async || tally.of(&bad) == ["dead"]).await;
    fleet.stop().await;
    assert_eq!((handler.runs(&bad), tally.quarantine().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_begin_leaves_its_gate_and_asks_it_again() {
    let scene = Scene::new().await;
    let (crowd, tally) = (Crowd::taking(Duration::from_millis(5)), Tally::default());
    limit(&scene, Limits::default().concurrency(1)).await;
    add_unreadable(&scene);
    let fleet = start(scene.config(LONG), crowd.clone(), &tally);
    until_async("the bad one to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    for _ in 0..20 {
        submit(&scene.queue, "ok").await;
    }
    until_async("the good ones to be done", SOON, async || crowd.done() == 20).await;
    until_nobody_holds_a_place(&scene).await;
    scene.server.cmd(&["DEL", RECORD]);
    // Others compete with it all the time.
    until_async("the bad one to be done", AGAIN, async || {
        submit(&scene.queue, "ok").await;
        tally.of(&bad()) == ["succeeded"]
    })
    .await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!(crowd.most(), 1);
    until_nobody_holds_a_place(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_begin_uses_up_no_start() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    limit(&scene, Limits::default().rate("1/1h".parse::<Rate>().unwrap())).await;
    add_unreadable(&scene);
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    until_async("the bad one to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    let good = submit(&scene.queue, "ok").await;
    until_async("the good one to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    fleet.stop().await;
    assert_eq!(handler.runs(&bad()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_tries_another_job_if_the_one_it_tries_is_set_aside() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    let breaker = Breaker::new(0.5, 2, Duration::from_secs(60), Duration::from_secs(6)).unwrap();
    limit(&scene, Limits::default().breaker(breaker)).await;
    let fleet = start(scene.config(LONG), handler.clone(), &tally);
    for _ in 0..2 {
        submit(&scene.queue, "fail").await;
    }
    until_async("the breaker to open", SOON, async || is_tripped(&scene).await).await;
    scene.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "bad"]);
    until_async("it to wait", SOON, async || scene.queue.snapshot().await.unwrap().in_rooms == 1).await;
    scene.server.cmd(&["SET", RECORD, "a string"]);
    let good = submit(&scene.queue, "ok").await;
    until_async("the first one to be tried", SOON, async || tally.quarantine().len() == 1).await;
    until_async("the other one to be done", SOON, async || tally.of(&good) == ["succeeded"]).await;
    until_async("the breaker to close", SOON, async || !is_tripped(&scene).await).await;
    fleet.stop().await;
    assert_eq!(handler.runs(&bad()), 0);
}

/// What the network does to the first call that gives a place back.
async fn a_call_that_gives_a_place_back_fails(
    mode: impl FnOnce(&str) -> Mode,
    is_over: impl Fn(&Scene) -> bool,
) {
    let scene = Scene::new().await;
    let (crowd, tally) = (Crowd::taking(Duration::from_millis(5)), Tally::default());
    limit(&scene, Limits::default().concurrency(1)).await;
    let entry = add_unreadable(&scene);
    // No other call has these words.
    scene.proxy.set(mode(&format!("normal {entry}")));
    let fleet = start(scene.config(LONG), crowd.clone(), &tally);
    until_async("the bad one to be set aside", SOON, async || tally.quarantine().len() == 1).await;
    scene.server.cmd(&["DEL", RECORD]);
    until_async("its place to be given back once more", SOON, async || {
        let runs = tally.of(&bad()).len();
        is_over(&scene) || {
            assert_eq!(runs, 0);
            false
        }
    })
    .await;
    until_async("the bad one to be done", AGAIN, async || {
        submit(&scene.queue, "ok").await;
        tally.of(&bad()) == ["succeeded"]
    })
    .await;
    scene.until_at_rest().await;
    fleet.stop().await;
    assert_eq!(crowd.most(), 1);
    until_nobody_holds_a_place(&scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_given_back_again_if_nobody_knows_whether_it_was() {
    let lose = |words: &str| Mode::drop_reply_to(words, 1);
    a_call_that_gives_a_place_back_fails(lose, |scene| scene.proxy.hits() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_set_aside_asks_for_no_place_before_its_own_was_given_back() {
    let hold = |words: &str| Mode::Hold { needle: words.into(), nth: 1, way: Direction::Requests };
    a_call_that_gives_a_place_back_fails(hold, |scene| scene.proxy.met() >= 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_job_that_cannot_be_settled_keeps_no_other_from_its_gate() {
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    let lease = Duration::from_secs(1);
    scene.queue.join(lease).await.unwrap();
    limit(&scene, Limits::default().concurrency(1)).await;
    let place = format!("normal {}", add_unreadable(&scene));
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    scene.server.cmd(&["HSET", HELD, &place, "1"]);
    let good = submit(&scene.queue, "ok").await;
    let fleet = start(scene.config(lease), handler.clone(), &tally);
    until_async("the other one to be done", SOON, async || tally.of(&good).last() == Some(&"succeeded"))
        .await;
    until_async("the lost one to be reported", SOON, async || !tally.quarantine().is_empty()).await;
    assert!(tally.quarantine()[0].starts_with("bad: "), "{:?}", tally.quarantine());
    scene.server.cmd(&["DEL", RECORD]);
    until_async("the bad one to be done", AGAIN, async || tally.of(&bad()).last() == Some(&"succeeded"))
        .await;
    fleet.stop().await;
    until_nobody_holds_a_place(&scene).await;
}

/// Jobs with a place of a value each, all of which are lost.
#[tokio::test(flavor = "multi_thread")]
async fn lost_jobs_leave_no_places_of_their_values_behind() {
    const JOBS: i64 = 150;
    let scene = Scene::new().await;
    let (handler, tally) = (obeys(), Tally::default());
    let lease = Duration::from_secs(1);
    scene.queue.join(lease).await.unwrap();
    let each = "key:h.order".parse().unwrap();
    scene.queue.gates().set(&each, &Limits::default().concurrency(1)).await.unwrap();
    for order in 0..JOBS {
        // Some are large, and are settled alone.
        let payload = "x".repeat(if order % 50 == 0 { 200_000 } else { 10 });
        let order = order.to_string();
        let fields = ["type", "test", "h.order", &order, "encoding", "raw", "payload", &payload];
        let added = scene.server.cmd(&[&["XADD", STREAM, "*"][..], &fields].concat());
        let entry: String = redis::from_redis_value(added).unwrap();
        let held = format!("sf:{{default}}:held:key:h.order={order}");
        scene.server.cmd(&["HSET", &held, &format!("normal {entry}"), "1"]);
    }
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    // A job that is not retried never meets its gate again.
    let builder = Fleet::builder(scene.config(lease)).events(tally.events());
    let policy = quick(1).max_losses(1);
    let fleet = Running::of(builder.handler_with("test", policy, handler.clone()).unwrap().build());
    until_async("all to be dead", SOON, async || scene.int(&["XLEN", "sf:{default}:dead"]) == JOBS).await;
    until_async("all places to be given back", SOON, async || {
        let held = scene.server.cmd(&["KEYS", "sf:{default}:held:*"]);
        redis::from_redis_value::<Vec<String>>(held).unwrap().is_empty()
    })
    .await;
    fleet.stop().await;
    assert_eq!(handler.all_runs(), 0);
}
