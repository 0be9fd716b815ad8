//! Editing: a replay runs what the letter says now, and everybody who names the old letter learns what became of it.

use std::sync::{Arc, Mutex};

use streamfleet::JobError;
use streamfleet::job::{EntryId, JobId, State};
use streamfleet::{Producer, Queue};
use streamfleet_engine::admin::{Action, DeadLetter, EditError, LetterEdit, Replayed};

use super::bury;
use harness::dead::{DEAD, counts, letters};
use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, Scene, job};
use harness::scripts::Scripts;
use harness::scripts::keys::NOTHING;
use harness::scripts::{sha, source};

fn ann() -> Action {
    Action::new("dead edit", "ann").why("a test")
}

fn to(payload: &'static str) -> LetterEdit {
    LetterEdit::default().payload(payload)
}

async fn edited(queue: &Queue, letter: &DeadLetter, edit: &LetterEdit) -> DeadLetter {
    let entry = queue.dead_letters().edit(letter, edit, &ann()).await.unwrap().value;
    queue.dead_letters().get(entry).await.unwrap().unwrap()
}

/// Returns a handler that succeeds and remembers the payloads.
fn remembers() -> (Acts, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let handler = Acts::new(move |_, payload| {
        kept.lock().unwrap().push(String::from_utf8_lossy(payload).into_owned());
        Ok(serde_json::Value::Null)
    });
    (handler, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_runs_the_edited_job_and_the_old_letter_says_so() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &[r#"{"to":"ann"}"#]).await;
    let old = letters(&queue).await.remove(0);
    let patch = LetterEdit::default().patch("payload.to=bob".parse().unwrap());
    let first = edited(&queue, &old, &patch).await;
    let new = edited(&queue, &first, &to(r#"{"to":"eve"}"#)).await;
    assert_eq!((letters(&queue).await, counts(&queue).await), (vec![new.clone()], vec![1]));
    assert_eq!((new.job(), new.died()), (old.job(), old.died()));
    assert!(new.text("dead_before").contains("ann") && new.text("dead_before").contains("bob"));
    let status = queue.status(&old.job()).await.unwrap().unwrap();
    assert_eq!((status.state, status.dead), (State::Dead, Some(new.entry)));
    let dead = queue.dead_letters();
    assert_eq!(dead.replay(old.entry, &old.job()).await.unwrap(), Replayed::Edited(new.entry));
    assert!(dead.replay(new.entry, &new.job()).await.unwrap().is_done());
    let (handler, seen) = remembers();
    let fleet = Running::start(&server.url(), quick(1), handler);
    let done = until_state(&queue, &old.job(), State::Done).await;
    fleet.stop().await;
    assert_eq!(done.created, status.created, "it was accepted only once");
    assert_eq!(*seen.lock().unwrap(), [r#"{"to":"eve"}"#]);
    let noted = queue.audit().recent(None, 10).await.unwrap();
    let noted: Vec<_> =
        noted.iter().map(|past| (past.action.who.as_str(), past.action.why.as_str())).collect();
    assert_eq!(noted, [("ann", "a test"); 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raw_replay_moves_the_edited_letter() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1"]).await;
    let old = letters(&queue).await.remove(0);
    let new = edited(&queue, &old, &to("2")).await;
    let fields = new.fields.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]);
    let mut command = redis::cmd("XADD");
    command.arg("sf:{default}:jobs").arg("*").arg(fields.collect::<Vec<_>>());
    command.exec(&mut server.client()).unwrap();
    let (handler, seen) = remembers();
    let fleet = Running::start(&server.url(), quick(1), handler);
    until_state(&queue, &old.job(), State::Done).await;
    fleet.stop().await;
    let left = letters(&queue).await;
    assert_eq!((seen.lock().unwrap().clone(), left), (vec!["2".to_owned()], vec![]));
    assert_eq!(counts(&queue).await, [0; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_people_who_edit_one_letter_the_second_learns_of_the_first() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2"]).await;
    let all = letters(&queue).await;
    let (dead, ann) = (queue.dead_letters(), ann());
    let (two, three) = (to("22"), to("33"));
    let both = tokio::join!(dead.edit(&all[0], &two, &ann), dead.edit(&all[0], &three, &ann));
    let (won, lost) = if both.0.is_ok() { both } else { (both.1, both.0) };
    let won = won.unwrap().value;
    assert!(matches!(lost, Err(EditError::Edited(by)) if by == won), "{lost:?}");
    assert_eq!(letters(&queue).await.len(), 2);
    assert!(dead.drop(all[1].entry, &all[1].job()).await.unwrap());
    assert!(matches!(dead.edit(&all[1], &two, &ann).await, Err(EditError::Gone(None))));
    let unchanged = dead.get(won).await.unwrap().unwrap();
    let same = LetterEdit::default().payload(unchanged.text("payload"));
    assert!(matches!(dead.edit(&unchanged, &same, &ann).await, Err(EditError::Unchanged)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_refuses_an_edit_as_a_whole() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1"]).await;
    let old = letters(&queue).await.remove(0);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = queue.dead_letters().edit(&old, &to("2"), &ann()).await;
    assert!(matches!(refused, Err(EditError::Redis(_))), "{refused:?}");
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!((letters(&queue).await, counts(&queue).await), (vec![old.clone()], vec![1]));
    assert_eq!(queue.dead_letters().edited(old.entry).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_letter_with_large_fields_gets_a_key_of_its_own() {
    let scene = Scene::new().await;
    let payload =
        |word: &str| format!("{{\"to\":\"{word}\",\"blob\":\"{}\"}}", "x".repeat(300_000)).into_bytes();
    let producer = Producer::new(scene.queue.clone());
    let id: JobId = producer.submit(job(payload("ann")).id("own".parse().unwrap())).await.unwrap();
    let fleet = scene.sound_fleet(LONG, Acts::new(|_, _| Err(JobError::fatal("no"))));
    let status = until_state(&scene.queue, &id, State::Dead).await;
    fleet.stop().await;
    let old = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    // The scene's jobs are raw, so the payload is replaced as a whole.
    let edit = LetterEdit::default().payload(payload("bob"));
    let new = edited(&scene.queue, &old, &edit).await;
    assert_eq!(new.fields.get(b"payload"), Some(&payload("bob")[..]));
    let ttls = || {
        let keys: Vec<String> =
            redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
        let mut ttls: Vec<i64> = keys.iter().map(|key| scene.int(&["PTTL", key])).collect();
        ttls.sort_unstable();
        ttls
    };
    let found = ttls();
    assert!(found.len() == 2 && found[0] == -1 && found[1] > 0, "the former key expires: {found:?}");
    assert!(scene.queue.dead_letters().replay(new.entry, &id).await.unwrap().is_done());
    let (handler, seen) = remembers();
    let fleet = scene.sound_fleet(LONG, handler);
    until_state(&scene.queue, &id, State::Done).await;
    fleet.stop().await;
    assert_eq!(seen.lock().unwrap()[0].as_bytes(), payload("bob"));
    assert!(ttls().iter().all(|ttl| *ttl > 0), "both expire: {:?}", ttls());
    assert_eq!(scene.int(&["XLEN", DEAD]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_stays_for_ever_when_an_old_copy_replaces_an_edited_letter() {
    let scene = Scene::new().await;
    let payload = |word: &str| format!("{word}{}", "x".repeat(300_000)).into_bytes();
    let producer = Producer::new(scene.queue.clone());
    let id: JobId = producer.submit(job(payload("ann")).id("own".parse().unwrap())).await.unwrap();
    let fleet = scene.sound_fleet(LONG, Acts::new(|_, _| Err(JobError::fatal("no"))));
    let status = until_state(&scene.queue, &id, State::Dead).await;
    fleet.stop().await;
    let page: Vec<(String, Vec<Vec<u8>>)> =
        redis::from_redis_value(scene.server.cmd(&["XRANGE", DEAD, "-", "+"])).unwrap();
    let old = scene.queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    edited(&scene.queue, &old, &LetterEdit::default().payload(payload("bob"))).await;
    // The fields were copied before the edit.
    let mut copy = redis::cmd("XADD");
    copy.arg("sf:{default}:jobs").arg("*").arg(&page[0].1);
    copy.exec(&mut scene.server.client()).unwrap();
    let (handler, seen) = remembers();
    let fleet = scene.sound_fleet(LONG, handler);
    until_state(&scene.queue, &id, State::Done).await;
    fleet.stop().await;
    assert_eq!((seen.lock().unwrap()[0].as_bytes(), scene.int(&["XLEN", DEAD])), (&payload("ann")[..], 0));
    let keys: Vec<String> =
        redis::from_redis_value(scene.server.cmd(&["KEYS", "sf:{default}:offloaded:*"])).unwrap();
    assert!(keys.iter().all(|key| scene.int(&["PTTL", key]) > 0), "all expire: {keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_cannot_be_noted_takes_place_and_says_so() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1"]).await;
    let old = letters(&queue).await.remove(0);
    server.cmd(&["SET", "sf:{default}:audit", "a string"]);
    let edited = queue.dead_letters().edit(&old, &to("2"), &ann()).await.unwrap();
    assert!(edited.unnoted.is_some_and(|why| why.contains("WRONGTYPE")));
    server.cmd(&["DEL", "sf:{default}:audit"]);
    let new = queue.dead_letters().get(edited.value).await.unwrap().unwrap();
    assert_eq!(queue.dead_letters().edit(&new, &to("3"), &ann()).await.unwrap().unnoted, None);
}

/// Returns the keys and the arguments of a call that edits the letter `1-0` of `a`.
fn raw_edit() -> ([&'static str; 6], Vec<&'static [u8]>) {
    let keys = ["sf:{q}:dead", "sf:{q}:job:a", "sf:{q}:audit", "sf:{q}:edited:1-0", NOTHING, NOTHING];
    let head = ["1-0", "call", "60000", "00ff", "5", "test", "fatal", "no"].map(str::as_bytes);
    let tail = ["type", "test", "id", "a"].map(str::as_bytes);
    (keys, [&head[..], &[&b"\x92\xa4what\xa4edit"[..]], &tail].concat())
}

#[test]
fn an_edit_without_the_right_to_delete_letters_writes_none() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["XADD", "sf:{q}:dead", "1-0", "type", "test", "id", "a"]);
    let (keys, args) = raw_edit();
    let sha = sha(&scripts.server, source("edit"));
    let head = ["EVALSHA", &sha, "6"].into_iter().chain(keys).map(str::as_bytes);
    let command: Vec<&[u8]> = head.chain(args.iter().copied()).collect();
    scripts.server.cmd(&["ACL", "SETUSER", "default", "-xdel"]);
    // The harness itself is not restricted.
    let mut clerk = redis::Client::open(scripts.server.url()).unwrap().get_connection().unwrap();
    let mut edit = redis::Cmd::new();
    command.iter().for_each(|arg| _ = edit.arg(*arg));
    let refused = edit.query::<redis::Value>(&mut clerk);
    scripts.server.cmd(&["ACL", "SETUSER", "default", "+xdel"]);
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!((scripts.int(&["XLEN", "sf:{q}:dead"]), scripts.int(&["EXISTS", "sf:{q}:audit"])), (1, 0));
    assert_eq!(scripts.call(source("edit"), &keys, &args).0, 1);
    assert_eq!(scripts.int(&["XLEN", "sf:{q}:dead"]), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_written_by_hand_without_a_record_can_be_edited() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    server.cmd(&[
        "XADD",
        DEAD,
        "1-0",
        "type",
        "test",
        "payload",
        "1",
        "dead_reason",
        "fatal",
        "dead_error",
        "no",
    ]);
    let old = letters(&queue).await.remove(0);
    let new = edited(&queue, &old, &to("2")).await;
    assert_eq!(
        (old.entry, new.text("payload"), new.text("dead_reason")),
        (EntryId::new(1, 0), "2".into(), "fatal".into())
    );
    assert_eq!(counts(&queue).await, [1]);
}

#[test]
fn an_edit_that_is_sent_twice_writes_one_letter_and_one_note() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["XADD", "sf:{q}:dead", "1-0", "type", "test", "id", "a"]);
    let (keys, args) = raw_edit();
    scripts.twice(source("edit"), &keys, &args, [1, 1]);
    assert_eq!((scripts.int(&["XLEN", "sf:{q}:dead"]), scripts.int(&["XLEN", "sf:{q}:audit"])), (1, 1));
    let mut late = args.clone();
    late[1] = b"another call";
    assert_eq!(scripts.call(source("edit"), &keys, &late).0, 0);
}
