//! Changes to delayed jobs: when they are due, and their payload.

use std::time::Duration;

use streamfleet::job::{Encoding, Envelope, JobId, Lane, State, Timestamp};
use streamfleet::{JobError, Producer, Queue, SubmitError};
use streamfleet_engine::admin::{Amended, DelayedEdit, Due};

use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, job};
use harness::scripts::Scripts;
use harness::scripts::source;

const KEYS: [&str; 6] = [
    "sf:{q}:delayed",
    "sf:{q}:delayed:fields",
    "sf:{q}:job:j",
    "sf:{q}:wake",
    "sf:{q}:steps:j",
    "sf:{q}:receipt:first",
];

/// Returns the keys of a call of this name.
fn keys_of(receipt: &str) -> [&str; 6] {
    let mut keys = KEYS;
    keys[5] = receipt;
    keys
}

async fn scheduled(queue: &Queue) -> (Producer, JobId) {
    let producer = Producer::new(queue.clone());
    let id = producer.submit(job("old").delay(LONG)).await.unwrap();
    (producer, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_job_is_postponed_brought_forward_and_run_now() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (producer, id) = scheduled(&queue).await;
    let instant = Timestamp::from_ms(4_102_444_800_000).unwrap();
    assert_eq!(producer.reschedule(&id, Due::At(instant)).await.unwrap(), Some(instant));
    assert_eq!(queue.delayed().page(0, 1).await.unwrap()[0].due, instant);
    let sooner = producer.reschedule(&id, Due::In(Duration::from_secs(60))).await.unwrap().unwrap();
    assert!(sooner < instant && queue.delayed().page(0, 1).await.unwrap()[0].due == sooner);
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    assert!(producer.run_now(&id).await.unwrap().is_some());
    harness::fleet::until_empty(&queue).await;
    assert_eq!(handler.runs(&id), 1);
    for answer in [producer.run_now(&id).await, producer.edit(&id, "x", Encoding::Raw).await] {
        assert_eq!(answer.unwrap(), None, "the job is no longer delayed");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_changed_and_keeps_its_attempts() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, payload| match payload {
        b"fixed" => Ok(context.attempt().into()),
        _ => Err(JobError::retry_after(LONG, "not like this")),
    });
    let fleet = Running::start(&server.url(), quick(3), handler);
    let producer = Producer::new(queue.clone());
    let broken = job("broken").header("tenant", "acme").unwrap();
    let id = producer.submit(broken).await.unwrap();
    until_state(&queue, &id, State::Retrying).await;
    let due = producer.edit(&id, "fixed", Encoding::Raw).await.unwrap().unwrap();
    let upcoming = queue.delayed().page(0, 1).await.unwrap().remove(0);
    let (_, fields) = upcoming.fields.unwrap();
    let field =
        |name: &str| fields.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned());
    assert_eq!(upcoming.due, due, "an edit must not change the due time");
    assert_eq!(
        ["attempt", "h.tenant", "payload"].map(field),
        ["1", "acme", "fixed"].map(|text| Some(text.to_owned()))
    );
    producer.run_now(&id).await.unwrap().unwrap();
    let status = until_state(&queue, &id, State::Done).await;
    assert_eq!((status.result.as_deref(), status.attempts.len()), (Some("2"), 2));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_based_on_what_was_read_is_refused_if_somebody_else_was_faster() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (producer, id) = scheduled(&queue).await;
    let read = queue.delayed().get(&id).await.unwrap().unwrap();
    assert_eq!((&read.id, read.fields.get(b"payload")), (&id, Some(b"old".as_slice())));
    let both = DelayedEdit::default().due(Due::In(2 * LONG)).payload("new", Encoding::Raw);
    let Amended::Done(due) = producer.amend(&read, &both).await.unwrap() else { panic!("not changed") };
    let changed = queue.delayed().get(&id).await.unwrap().unwrap();
    assert_eq!((changed.due, changed.fields.get(b"payload")), (due, Some(b"new".as_slice())));
    assert_ne!(changed.revision(), read.revision());
    // What was read first is stale, both in its time and in its payload.
    for edit in
        [both, DelayedEdit::default().due(Due::Now), DelayedEdit::default().payload("x", Encoding::Raw)]
    {
        assert_eq!(producer.amend(&read, &edit).await.unwrap(), Amended::Changed);
    }
    producer.reschedule(&id, Due::In(3 * LONG)).await.unwrap().unwrap();
    let payload = DelayedEdit::default().payload("late", Encoding::Raw);
    assert_eq!(
        producer.amend(&changed, &payload).await.unwrap(),
        Amended::Changed,
        "only its time has changed"
    );
    let present = queue.delayed().get(&id).await.unwrap().unwrap();
    assert_eq!(present.fields.get(b"payload"), Some(b"new".as_slice()));
    let large = vec![b'x'; 1 << 20];
    let grown = DelayedEdit::default().payload(large.clone(), Encoding::Raw);
    assert!(matches!(producer.amend(&present, &grown).await.unwrap(), Amended::Done(_)));
    let grown = queue.delayed().get(&id).await.unwrap().unwrap();
    assert_eq!(
        grown.fields.get(b"payload"),
        Some(&large[..]),
        "large fields are read from where they are kept"
    );
    queue.cancel(&id, "a test", LONG).await.unwrap();
    assert_eq!(producer.amend(&grown, &DelayedEdit::default().due(Due::Now)).await.unwrap(), Amended::Gone);
    assert_eq!(queue.delayed().get(&id).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_has_a_submissions_limits_and_changes_the_encoding() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let (producer, id) = scheduled(&queue).await;
    let refused = producer.clone().max_payload(3).edit(&id, "four", Encoding::Raw).await;
    assert!(matches!(refused, Err(SubmitError::TooLarge { bytes: 4, limit: 3 })), "{refused:?}");
    producer.edit(&id, "{}", Encoding::Json).await.unwrap().unwrap();
    let upcoming = queue.delayed().page(0, 1).await.unwrap().remove(0);
    let (_, fields) = upcoming.fields.unwrap();
    assert_eq!((fields.get(b"payload"), fields.get(b"encoding")), (Some(b"{}".as_slice()), None));
}

#[test]
fn a_change_sent_twice_happens_once_and_a_full_server_refuses_it() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["ZADD", KEYS[0], "5", "j"]);
    scripts.server.cmd(&["HSET", KEYS[1], "j", "old"]);
    scripts.server.cmd(&["HSET", KEYS[2], "state", "scheduled"]);
    scripts.server.cmd(&["HSET", KEYS[4], "charge:due", "9999", "charge:state", "pending"]);
    let calls = [
        ("sf:{q}:receipt:moves", ["j", "at", "9999999999999", "", ""]),
        ("sf:{q}:receipt:edits", ["j", "", "", "old", "new"]),
        ("sf:{q}:receipt:puts-off", ["j", "in", "60000", "", ""]),
    ];
    for (receipt, args) in calls {
        scripts.twice(source("amend"), &keys_of(receipt), &args, [1, 1]);
    }
    assert_eq!(scripts.int(&["HLEN", KEYS[4]]), 1, "its steps no longer have their own due time");
    let stale = ["j", "", "", "old", "newer"];
    let before = scripts.digest();
    assert_eq!(scripts.call(source("amend"), &KEYS, &stale).0, 2);
    assert_eq!(scripts.call(source("amend"), &KEYS, &["k", "in", "0", "", ""]).0, 0);
    for was in ["6", "9999999999999"] {
        assert_eq!(
            scripts.call(source("amend"), &KEYS, &["j", "in", "0", "", "", was]).0,
            2,
            "due at another time"
        );
    }
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    for args in [["j", "in", "0", "", ""], ["j", "", "", "new", "newer"]] {
        let mut command = vec!["EVAL", source("amend"), "6"];
        command.extend(KEYS);
        command.extend(args);
        let answer = format!("{:?}", scripts.server.try_cmd(&command));
        assert!(answer.contains("OOM"), "{answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_change_is_refused_whole_if_the_ledger_has_the_wrong_type() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["ZADD", KEYS[0], "5", "j"]);
    scripts.server.cmd(&["SET", KEYS[4], "of another type"]);
    let before = scripts.digest();
    let mut command = vec!["EVAL", source("amend"), "6"];
    command.extend(KEYS);
    command.extend(["j", "in", "60000", "", ""]);
    let answer = format!("{:?}", scripts.server.try_cmd(&command));
    assert!(answer.contains("WRONGTYPE"), "{answer}");
    assert_eq!(scripts.digest(), before);
}

#[test]
fn a_change_whose_answer_was_lost_gets_it_although_the_job_has_left() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["ZADD", KEYS[0], "5", "j"]);
    scripts.server.cmd(&["HSET", KEYS[1], "j", "old"]);
    let change =
        |receipt: &str| scripts.call(source("amend"), &keys_of(receipt), &["j", "in", "0", "old", "new"]);
    let first = change(KEYS[5]);
    assert_eq!(first.0, 1);
    // It was due.
    scripts.server.cmd(&["ZREM", KEYS[0], "j"]);
    assert_eq!(change(KEYS[5]), first);
    assert_eq!(change("sf:{q}:receipt:second").0, 0);
}

#[test]
fn a_change_leaves_another_generation_of_the_id_alone() {
    let scripts = Scripts::start();
    let generation = |token: &str| {
        let fields = [("life", token), ("type", "test")];
        Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
            .pack(Lane::Normal)
    };
    for (member, token) in [("j", "other"), ("j#own", "own")] {
        scripts.server.cmd(&["ZADD", KEYS[0], "5", member]);
        scripts.server.cmd(&[b"HSET", KEYS[1].as_bytes(), member.as_bytes(), &generation(token)]);
    }
    scripts.server.cmd(&["HSET", KEYS[2], "state", "scheduled", "life", "own", "member", "j#own"]);
    assert_eq!(scripts.call(source("amend"), &KEYS, &["j", "at", "9999", "", ""]).0, 1);
    assert_eq!(
        (scripts.int(&["ZCOUNT", KEYS[0], "5", "5"]), scripts.int(&["ZCOUNT", KEYS[0], "9999", "9999"])),
        (1, 1)
    );
    // Its own generation is in its lane, so the other one is not meant.
    scripts.server.cmd(&["HSET", KEYS[2], "member", "j"]);
    let second = keys_of("sf:{q}:receipt:second");
    assert_eq!(scripts.call(source("amend"), &second, &["j", "at", "7777", "", ""]).0, 0);
}
