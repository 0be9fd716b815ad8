//! The history and the outbox while what they need dies again and again: each end and each row counts once.

use std::time::Duration;

use harness::nemesis::seed;
use harness::wait::{pause_for, until_async};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::Value;

use crate::history::{ENDED, HISTORY, kill_writers};
use crate::kit::Place;
use crate::outbox::kill_relays;
use crate::scene::{SOON, Scene};

on_all_databases!(alone:
    forty_killed_writers_lose_nothing_and_write_nothing_twice,
    forty_killed_relays_lose_nothing_and_submit_nothing_twice,
    a_server_that_crashes_while_ends_are_written_loses_none,
    ends_that_a_failover_brings_again_are_there_once,
);

const KILLS: i64 = 40;

/// How often the server crashes.
const CRASHES: i64 = 10;

/// How many attempts the database has.
const ATTEMPTS: &str = "SELECT COUNT(*) FROM sf_attempts";

async fn forty_killed_writers_lose_nothing_and_write_nothing_twice(place: Place) {
    kill_writers(place, KILLS, 12).await;
}

async fn forty_killed_relays_lose_nothing_and_submit_nothing_twice(place: Place) {
    kill_relays(place, usize::try_from(KILLS).unwrap(), 100).await;
}

async fn a_server_that_crashes_while_ends_are_written_loses_none(place: Place) {
    let mut random = StdRng::seed_from_u64(seed());
    let scene = Scene::new(place).await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    for _ in 0..CRASHES {
        scene.submit(30, r#"{"customer": 1}"#).await;
        let pause = random.random_range(Duration::ZERO..Duration::from_millis(600));
        tokio::task::block_in_place(|| pause_for(pause));
        scene.place.crash().await;
    }
    let mut hand = scene.place.hand().await;
    until_async("all ends", SOON, async || hand.number(ENDED).await == 30 * CRASHES).await;
    until_async("an empty journal", SOON, async || scene.queue.journal_figures().await.unwrap().waiting == 0)
        .await;
    assert_eq!(hand.number(ATTEMPTS).await, 30 * CRASHES);
    worker.term();
    worker.wait_exit(SOON);
}

/// A replica that takes over may lack the last writes, so that the entries of the journal come again, under ids that others had.
async fn ends_that_a_failover_brings_again_are_there_once(place: Place) {
    const JOURNAL: &str = "sf:{default}:journal";
    let scene = Scene::new(place).await;
    let mut hand = scene.place.hand().await;
    scene.hide(true).await;
    let worker = scene.worker(HISTORY);
    until_async("the journal", SOON, async || scene.journal_is_kept().await).await;
    scene.submit(40, r#"{"customer": 1}"#).await;
    until_async("the ends", SOON, async || scene.queue.journal_figures().await.unwrap().waiting == 40).await;
    worker.kill9();
    let ends = scene.redis.cmd(&["XRANGE", JOURNAL, "-", "+"]);
    scene.hide(false).await;
    let worker = scene.worker(HISTORY);
    until_async("all ends", SOON, async || hand.number(ENDED).await == 40).await;
    worker.kill9();
    let attempts = hand.number(ATTEMPTS).await;
    scene.redis.cmd(&["FLUSHALL"]);
    // Each end has the id that the one before had.
    let Value::Array(ends) = ends else { panic!("{ends:?}") };
    let entries: Vec<(String, Vec<Vec<u8>>)> = ends.iter().map(entry).collect();
    for at in 1..entries.len() {
        let (id, fields) = (&entries[at - 1].0, &entries[at].1);
        let mut command = redis::cmd("XADD");
        command.arg(JOURNAL).arg(id).arg(fields);
        command.query::<Value>(&mut scene.redis.client()).unwrap();
    }
    let worker = scene.worker(HISTORY);
    scene.submit(1, r#"{"customer": 1}"#).await;
    until_async("one more end", SOON, async || hand.number(ENDED).await == 41).await;
    until_async("an empty journal", SOON, async || scene.queue.journal_figures().await.unwrap().waiting == 0)
        .await;
    assert_eq!((hand.number(ENDED).await, hand.number(ATTEMPTS).await), (41, attempts + 1));
    worker.term();
    worker.wait_exit(SOON);
}

/// The id and the fields of an entry.
fn entry(value: &Value) -> (String, Vec<Vec<u8>>) {
    redis::from_redis_value(value.clone()).unwrap()
}
