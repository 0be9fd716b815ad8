//! Dead letters that are too old or too many: the leader drops them, the oldest first, with all that belongs to them.

mod archive;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use streamfleet::event::{Event, Events, QueueEvent};
use streamfleet::job::{EntryId, JobId};
use streamfleet::{Fleet, FleetConfig, Queue};
use streamfleet_engine::admin::{Evicted, LetterLimits};

use harness::dead::{bury, left};
use harness::fleet::{Acts, Running, config, queue};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const DAY_MS: u64 = 24 * 3600 * 1000;
const SOON: Duration = Duration::from_secs(20);

/// Starts a fleet with these limits on dead letters. Returns it with the number of letters that it reports as dropped.
fn start(server: &RedisServer, limits: LetterLimits) -> (Running, Arc<AtomicU64>) {
    let (fleet, [reported, _]) = start_with(config(&server.url()), limits);
    (fleet, reported)
}

/// Starts a fleet with this configuration. It also returns how often the archive could not be written.
fn start_with(mut config: FleetConfig, limits: LetterLimits) -> (Running, [Arc<AtomicU64>; 2]) {
    for queue in config.worker.queues.values_mut() {
        (queue.dead_retention, queue.dead_max) = (limits.retention, limits.most);
    }
    let reported: [Arc<AtomicU64>; 2] = Default::default();
    let [dropped, failures] = reported.clone();
    let events = Events::new(vec![Arc::new(move |event: &Event<'_>| {
        if let Event::Queue { event: QueueEvent::Evicted { letters, .. }, .. } = event {
            dropped.fetch_add(*letters, Ordering::SeqCst);
        }
        if let Event::Queue { event: QueueEvent::ArchiveFailed { .. }, .. } = event {
            failures.fetch_add(1, Ordering::SeqCst);
        }
    })]);
    let fleet = Fleet::builder(config).handler_for("test", Acts::well()).unwrap().events(events).build();
    (Running::of(fleet), reported)
}

fn days(retention: u64) -> LetterLimits {
    LetterLimits::default().retention(Duration::from_millis(retention * DAY_MS))
}

fn newest(most: u64) -> LetterLimits {
    LetterLimits::default().most(most)
}

async fn evict(queue: &Queue, nth: u64, limits: LetterLimits) -> Evicted {
    let job: JobId = format!("j{nth}").parse().unwrap();
    let letters = queue.dead_letters().page(None, 1000).await.unwrap();
    let letter = letters.iter().find(|letter| letter.job() == job);
    let entry = letter.map_or(EntryId::new(1, 0), |letter| letter.entry);
    queue.dead_letters().evict(entry, &job, limits).await.unwrap()
}

#[tokio::test]
async fn expired_letters_are_dropped_with_all_that_belongs_to_them() {
    let server = RedisServer::start();
    bury(&server, 0..50, 30 * DAY_MS);
    bury(&server, 50..60, 30 * DAY_MS - 3_600_000);
    let (fleet, reported) = start(&server, days(30));
    let gone = async || reported.load(Ordering::SeqCst) == 50;
    until_async("the old letters to be dropped and reported", SOON, gone).await;
    assert_eq!(left(&server), (50..60).collect::<Vec<_>>());
    fleet.stop().await;
    assert_eq!(reported.load(Ordering::SeqCst), 50);
}

#[tokio::test]
async fn the_newest_letters_stay_when_there_are_too_many() {
    let server = RedisServer::start();
    bury(&server, 0..1234, 0);
    let (fleet, reported) = start(&server, newest(34));
    let gone = async || reported.load(Ordering::SeqCst) == 1200;
    until_async("all batches to be dropped and reported", SOON, gone).await;
    assert_eq!(left(&server), (1200..1234).collect::<Vec<_>>());
    fleet.stop().await;
}

#[tokio::test]
async fn without_limits_every_letter_stays_forever() {
    let server = RedisServer::start();
    bury(&server, 0..20, 3650 * DAY_MS);
    let (fleet, reported) = start(&server, LetterLimits::default());
    let leads = async || matches!(server.cmd(&["GET", "sf:{default}:leader"]), redis::Value::BulkString(_));
    until_async("a leader", SOON, leads).await;
    fleet.stop().await;
    assert_eq!((left(&server).len(), reported.load(Ordering::SeqCst)), (20, 0));
}

/// Both have found the same letters to be in excess.
#[tokio::test]
async fn two_concurrent_trims_drop_no_letter_too_many() {
    let server = RedisServer::start();
    bury(&server, 0..12, 0);
    let queue = queue(&server).await;
    let queue = &queue;
    let trim = async || {
        let mut dropped = 0;
        for letter in queue.dead_letters().page(None, 12).await.unwrap() {
            let evicted = queue.dead_letters().evict(letter.entry, &letter.job(), newest(10)).await.unwrap();
            dropped += u32::from(evicted == Evicted::Dropped);
        }
        dropped
    };
    let (one, other) = tokio::join!(trim(), trim());
    assert_eq!((one + other, left(&server)), (2, (2..12).collect()));
}

#[tokio::test]
async fn the_script_that_drops_a_letter_checks_the_limits_itself() {
    let server = RedisServer::start();
    bury(&server, 0..3, DAY_MS);
    let queue = queue(&server).await;
    assert_eq!(evict(&queue, 0, days(2)).await, Evicted::Kept, "too young");
    assert_eq!(evict(&queue, 0, newest(3)).await, Evicted::Kept, "not too many");
    assert_eq!(evict(&queue, 1, newest(2)).await, Evicted::Kept, "not the oldest");
    assert_eq!(evict(&queue, 9, newest(0)).await, Evicted::Gone);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(evict(&queue, 0, newest(2)).await, Evicted::Dropped, "also when redis is full");
    let both = days(1).most(2);
    assert_eq!(evict(&queue, 2, both).await, Evicted::Dropped, "too old, though not the oldest of too many");
    assert_eq!(left(&server), [1]);
}

/// The job is alive again under the same id, so dropping its old letter must not delete its data.
#[tokio::test]
async fn the_record_of_a_job_that_is_alive_again_stays() {
    let server = RedisServer::start();
    bury(&server, 0..1, DAY_MS);
    server.cmd(&["HDEL", "sf:{default}:job:j0", "dead_id"]);
    assert_eq!(evict(&queue(&server).await, 0, newest(0)).await, Evicted::Dropped);
    assert_eq!(server.cmd(&["EXISTS", "sf:{default}:job:j0", "sf:{default}:steps:j0"]), redis::Value::Int(2));
}
