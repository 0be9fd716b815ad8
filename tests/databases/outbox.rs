//! The outbox: each row becomes one job, whatever dies.

use harness::wait::{until, until_async};
use streamfleet::job::State;

use crate::kit::Place;
use crate::scene::{SOON, Scene};

on_all_databases!(
    each_row_becomes_one_job,
    a_row_that_cannot_be_a_job_is_kept_with_the_reason,
    a_killed_relay_loses_nothing_and_submits_nothing_twice,
    a_full_queue_holds_up_no_other,
    a_relay_that_is_woken_does_not_wait_for_its_turn,
);

const OUTBOX: &str =
    "[outbox]\nurl_file = \"{url}\"\npoll = \"50ms\"\n[queues.default]\ntracking = \"all\"\n";

/// How many rows the outbox has, refused ones included.
pub(crate) const LEFT: &str = "SELECT COUNT(*) FROM streamfleet_outbox";

fn insert(first: usize, count: usize) -> String {
    let rows = (first..first + count).map(|nth| format!("('order-{nth}', 'default', 'test', '{{}}')"));
    format!(
        "INSERT INTO streamfleet_outbox (job_id, queue, type, payload) VALUES {}",
        rows.collect::<Vec<_>>().join(", ")
    )
}

async fn each_row_becomes_one_job(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    hand.run(&insert(0, 300)).await;
    let worker = scene.worker(OUTBOX);
    until_async("an empty outbox", SOON, async || hand.number(LEFT).await == 0).await;
    for nth in [0, 150, 299] {
        let id = format!("order-{nth}").parse().unwrap();
        until_async("the job", SOON, async || {
            scene.queue.status(&id).await.unwrap().is_some_and(|status| status.state == State::Done)
        })
        .await;
    }
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_relay_that_is_woken_does_not_wait_for_its_turn(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let worker = scene.worker(&OUTBOX.replace("50ms", "1m"));
    let is_led = || scene.redis.cmd(&["EXISTS", "sf:outbox:{outbox}:relay"]) == redis::Value::Int(1);
    until("a relay", SOON, is_led);
    // Each turn ends long before the next one is due.
    for nth in 0..3 {
        hand.run(&insert(nth, 1)).await;
        scene.broker.wake_outbox().await.unwrap();
        until_async("an empty outbox", SOON, async || hand.number(LEFT).await == 0).await;
    }
    assert_eq!(scene.redis.cmd(&["XLEN", "sf:outbox:{outbox}:wake"]), redis::Value::Int(1));
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_row_that_cannot_be_a_job_is_kept_with_the_reason(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    hand.run(
        "INSERT INTO streamfleet_outbox (job_id, queue, type, payload, options) VALUES ('bad', 'default', 'test', '{}', '{\"color\": \"red\"}')",
    )
    .await;
    hand.run(&insert(0, 3)).await;
    let worker = scene.worker(OUTBOX);
    until_async("one row", SOON, async || hand.number(LEFT).await == 1).await;
    until_async("the reason", SOON, async || {
        let told =
            "SELECT COUNT(*) FROM streamfleet_outbox WHERE refused LIKE 'options: color is not a field%'";
        hand.number(told).await == 1
    })
    .await;
    worker.term();
    worker.wait_exit(SOON);
}

async fn a_killed_relay_loses_nothing_and_submits_nothing_twice(place: Place) {
    kill_relays(place, 4, 500).await;
}

/// Kills this many relays, each while it submits this many rows.
pub(crate) async fn kill_relays(place: Place, kills: usize, rows: usize) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    let mut worker = scene.worker(OUTBOX);
    for kill in 0..kills {
        hand.run(&insert(kill * rows, rows)).await;
        // Each time somewhere else within reading, submitting and deleting.
        let left = i64::try_from(rows - 80 * kill % rows).unwrap();
        until_async("some rows", SOON, async || hand.number(LEFT).await <= left).await;
        worker.kill9();
        worker = scene.worker(OUTBOX);
    }
    until_async("an empty outbox", SOON, async || hand.number(LEFT).await == 0).await;
    let done = async || {
        let snapshot = scene.queue.snapshot().await.unwrap();
        snapshot.waiting() + snapshot.running() + snapshot.delayed == 0
    };
    until_async("the end of all jobs", SOON, done).await;
    for nth in 0..kills * rows {
        let status = scene.queue.status(&format!("order-{nth}").parse().unwrap()).await.unwrap();
        let status = status.unwrap_or_else(|| panic!("order-{nth} was lost"));
        assert_eq!(status.state, State::Done, "order-{nth}");
        // A job whose worker was killed has an attempt that was lost. It has one success.
        let succeeded = status.attempts.iter().filter(|attempt| attempt.outcome == "done").count();
        assert_eq!(succeeded, 1, "order-{nth}: {:?}", status.attempts);
    }
    worker.term();
    worker.wait_exit(SOON);
}

/// The workers agree on a limit of the depth, and nothing takes jobs out of that queue.
async fn a_full_queue_holds_up_no_other(place: Place) {
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    scene.redis.cmd(&["HSET", "sf:{full}:control", "max_depth", "1"]);
    scene.redis.cmd(&["XADD", "sf:{full}:jobs", "*", "type", "test", "payload", "{}"]);
    hand.run(&insert(0, 1200).replace("'default'", "'full'")).await;
    hand.run(&insert(1200, 10)).await;
    let worker = scene.worker(OUTBOX);
    until_async("the rows of the other queue", SOON, async || hand.number(LEFT).await == 1200).await;
    // Less than a round trip.
    scene.redis.cmd(&["HSET", "sf:{full}:control", "max_depth", "51"]);
    until_async("as many rows as there is room", SOON, async || hand.number(LEFT).await == 1150).await;
    scene.redis.cmd(&["HDEL", "sf:{full}:control", "max_depth"]);
    until_async("an empty outbox", SOON, async || hand.number(LEFT).await == 0).await;
    worker.term();
    worker.wait_exit(SOON);
}
