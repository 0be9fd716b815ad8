//! Locks whose holders no longer exist, and holders that are hard to find.

use std::time::Duration;

use streamfleet::job::{JobId, Lane, State};
use streamfleet::{Accepted, JobError, Producer, Submission, UniqueMode, UniqueScope};

use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{Gate, LONG, SOON, Scene, job};
use harness::wait::until_async;

const STREAM: &str = "sf:{default}:jobs";
const DELAYED: &str = "sf:{default}:delayed";
const FIELDS: &str = "sf:{default}:delayed:fields";

fn unique(payload: &str, mode: UniqueMode) -> Submission {
    job(payload).unique("ann".parse().unwrap(), UniqueScope::Running, mode)
}

async fn accepted(producer: &Producer, submission: Submission) -> Accepted {
    producer.submit_or_find(submission).await.unwrap().accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holder_was_deleted_by_hand_is_taken_over() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let ways: [(Duration, &[&[&str]]); 5] = [
        (Duration::ZERO, &[&["XTRIM", STREAM, "MAXLEN", "0"]]),
        (Duration::ZERO, &[&["DEL", STREAM]]),
        (LONG, &[&["DEL", DELAYED, FIELDS]]),
        (LONG, &[&["DEL", DELAYED]]),
        (LONG, &[&["ZREMRANGEBYRANK", DELAYED, "0", "-1"]]),
    ];
    for (delay, commands) in ways {
        for mode in [UniqueMode::Reject, UniqueMode::Replace, UniqueMode::Debounce] {
            let holder = unique("{}", UniqueMode::Reject);
            let holder = if delay.is_zero() { holder } else { holder.delay(delay) };
            let holder = producer.submit(holder).await.unwrap();
            for command in commands {
                server.cmd(command);
            }
            if !delay.is_zero() {
                // It was due long ago.
                server.cmd(&["HSET", &format!("sf:{{default}}:job:{holder}"), "due_ms", "1700000000000"]);
            }
            assert_eq!(accepted(&producer, unique("{}", mode)).await, Accepted::New, "{commands:?} {mode:?}");
            server.cmd(&["FLUSHALL"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_holder_keeps_its_lock_until_its_entry_is_deleted() {
    let scene = Scene::new().await;
    let (producer, handler) = (scene.producer().await, Gate::closed());
    let (fleet, holder) = promoted(&scene, &producer, handler.clone()).await;
    let found = scene.queue.seek(&holder, 100).await.unwrap().unwrap();
    let record = format!("sf:{{default}}:job:{holder}");
    let rejected = Accepted::Existing(State::Waiting);
    assert_eq!(accepted(&producer, unique("{}", UniqueMode::Reject)).await, rejected);
    scene.server.cmd(&["HSET", &record, "due_ms", "1700000000000"]);
    assert_eq!(
        accepted(&producer, unique("{}", UniqueMode::Reject)).await,
        rejected,
        "the holder still exists"
    );
    scene.server.cmd(&["XDEL", STREAM, &found.entry.unwrap().to_string()]);
    assert_eq!(accepted(&producer, unique("{}", UniqueMode::Reject)).await, Accepted::New);
    handler.open();
    fleet.stop().await;
}

/// Returns a delayed job of the key that was promoted, and waits in its lane behind a running one.
async fn promoted(scene: &Scene, producer: &Producer, handler: Gate) -> (Running, JobId) {
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 1;
    }
    let busy = producer.submit(job("wait").id("busy".parse().unwrap())).await.unwrap();
    let fleet = Running::start_with(config, quick(1), handler.clone());
    handler.until_started(&busy).await;
    let soon = unique("{}", UniqueMode::Reject).delay(Duration::from_millis(1));
    let holder = producer.submit(soon).await.unwrap();
    let waits = async || scene.queue.snapshot().await.unwrap().waiting() == 1;
    until_async("the job to be promoted", SOON, waits).await;
    (fleet, holder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_due_holder_is_replaced_however_many_jobs_wait_behind_it() {
    let scene = Scene::new().await;
    let (producer, handler) = (scene.producer().await, Gate::closed());
    let (fleet, holder) = promoted(&scene, &producer, handler.clone()).await;
    let behind = (0..25_000).map(|_| Submission::new("test").unwrap());
    Producer::new(queue(&scene.server).await).submit_all(behind).await.unwrap();
    let newer = accepted(&producer, unique("{}", UniqueMode::Replace).lane(Lane::High)).await;
    assert_eq!(newer, Accepted::Replacing(holder));
    scene.server.cmd(&["DEL", STREAM]);
    handler.open();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debounced_snoozed_holder_keeps_all_but_its_payload_and_time() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    let handler = Acts::new(|context, _| match context.attempt() {
        1 => Err(JobError::retry_after(Duration::from_millis(1), "once")),
        _ => Err(JobError::snooze(LONG)),
    });
    let fleet = scene.sound_fleet(LONG, handler);
    let first = unique("old", UniqueMode::Debounce).header("tenant", "acme").unwrap();
    let holder = producer.submit(first).await.unwrap();
    let parked = async || {
        let upcoming = scene.queue.delayed().page(0, 1).await.unwrap();
        let fields = upcoming.first()?.fields.as_ref()?.1.clone();
        let left = upcoming[0].due.since(scene.queue.clock().await.unwrap());
        (fields.get(b"attempt") == Some(b"1") && left > LONG / 2).then_some(fields)
    };
    until_async("the job to be snoozed", SOON, async || parked().await.is_some()).await;
    let before = parked().await.unwrap();
    let put_off = producer.submit_or_find(unique("new", UniqueMode::Debounce).delay(LONG)).await.unwrap();
    assert_eq!((put_off.id, put_off.accepted), (holder.clone(), Accepted::Debounced));
    let after = scene.queue.delayed().page(0, 1).await.unwrap()[0].fields.clone().unwrap().1;
    assert_eq!(after.get(b"payload"), Some(b"new".as_slice()));
    for name in ["life", "created_ms", "attempt", "id", "h.tenant", "unique"] {
        assert_eq!(after.get(name.as_bytes()), before.get(name.as_bytes()), "{name}");
        assert!(before.get(name.as_bytes()).is_some(), "{name}");
    }
    until_state(&scene.queue, &holder, State::Scheduled).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debounce_shortens_no_lock() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let hour = UniqueScope::Window(Duration::from_secs(3_600));
    let minute = UniqueScope::Window(Duration::from_secs(60));
    let ttl = |key: &str| -> i64 {
        redis::from_redis_value(server.cmd(&["PTTL", &format!("sf:{{default}}:unique:{key}")])).unwrap()
    };
    let debounced = async |key: &str, scope: UniqueScope, is_right: fn(Accepted) -> bool| {
        let newcomer = job("{}").unique(key.parse().unwrap(), scope, UniqueMode::Debounce).delay(LONG);
        let answer = producer.submit_or_find(newcomer).await.unwrap();
        assert!(is_right(answer.accepted));
        answer.id
    };
    let is_new: fn(Accepted) -> bool = |accepted| accepted == Accepted::New;
    let is_debounced: fn(Accepted) -> bool = |accepted| accepted == Accepted::Debounced;
    debounced("running", UniqueScope::Running, is_new).await;
    debounced("running", minute, is_debounced).await;
    assert_eq!(ttl("running"), -1);
    // The promoter learns at once that it is due now.
    server.cmd(&["DEL", "sf:{default}:wake"]);
    let due = job("{}").unique("running".parse().unwrap(), UniqueScope::Running, UniqueMode::Debounce);
    assert_eq!(accepted(&producer, due).await, Accepted::Debounced);
    assert_eq!(server.cmd(&["EXISTS", "sf:{default}:wake"]), redis::Value::Int(1));
    debounced("hour", hour, is_new).await;
    debounced("hour", minute, is_debounced).await;
    assert!(ttl("hour") > 3_000_000, "{}", ttl("hour"));
    debounced("minute", minute, is_new).await;
    let holder = debounced("minute", hour, is_debounced).await;
    assert!(ttl("minute") > 3_000_000, "{}", ttl("minute"));
    // The lock counts only as long as its holder has a record.
    let [keep, created] = ["keep_until_ms", "created_ms"].map(|field| -> i64 {
        let record = format!("sf:{{default}}:job:{holder}");
        redis::from_redis_value(server.cmd(&["HGET", &record, field])).unwrap()
    });
    assert!(keep - created >= 3_600_000, "{keep} {created}");
}
