//! The counts of the groups are exact, whatever is done to the letters.

use redis::Value;
use streamfleet_engine::admin::{Action, Evicted, LetterEdit, LetterLimits};

use super::{GROUPS, SOON, bury, deadly};
use harness::dead::{DEAD, counts, letters};
use harness::fleet::{queue, submit};
use harness::redis_server::RedisServer;
use harness::scripts::Scripts;
use harness::scripts::attempts::{Attempt, BEGIN_KEYS, BURY_KEYS};
use harness::scripts::source;
use harness::wait::until_async;

/// Three groups: one has two letters, because numbers do not count.
const ERRORS: [&str; 4] = [r#""no user 1""#, r#"{"a":17}"#, r#"{"a":18}"#, "[true]"];

#[tokio::test(flavor = "multi_thread")]
async fn groups_follow_letters_that_are_buried_replayed_moved_and_dropped() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &ERRORS).await;
    let dead = queue.dead_letters();
    assert_eq!(counts(&queue).await, [1, 1, 2]);
    let found = dead.groups().await.unwrap();
    let largest = found.groups.iter().find(|group| group.count == 2).unwrap();
    assert_eq!((largest.error.as_str(), largest.deaths, found.letters), (ERRORS[2], 2, 4));
    assert_eq!((largest.sample, found.uncounted()), (Some(letters(&queue).await[2].entry), 0));

    let all = letters(&queue).await;
    assert!(dead.replay(all[0].entry, &all[0].job()).await.unwrap().is_done());
    assert_eq!(counts(&queue).await, [1, 2]);
    assert!(dead.drop(all[3].entry, &all[3].job()).await.unwrap());
    assert!(!dead.drop(all[3].entry, &all[3].job()).await.unwrap(), "only once");
    assert_eq!(counts(&queue).await, [2]);
    let limits = LetterLimits::default().most(1);
    assert_eq!(dead.evict(all[1].entry, &all[1].job(), limits).await.unwrap(), Evicted::Dropped);
    // A raw XADD moves the last one; it dies again.
    let fields = all[2].fields.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]);
    let mut command = redis::cmd("XADD");
    command.arg("sf:{default}:jobs").arg("*").arg(fields.collect::<Vec<_>>());
    command.exec(&mut server.client()).unwrap();
    submit(&queue, "null").await;
    let fleet = deadly(&server);
    until_async("all to be dead", SOON, async || {
        let snapshot = queue.snapshot().await.unwrap();
        snapshot.dead == 3 && snapshot.waiting() + snapshot.running() == 0
    })
    .await;
    fleet.stop().await;
    assert_eq!(counts(&queue).await, [1, 1, 1], "the job that was replayed first has died, too");
    for letter in letters(&queue).await {
        assert!(dead.drop(letter.entry, &letter.job()).await.unwrap());
    }
    assert_eq!(server.cmd(&["EXISTS", GROUPS]), Value::Int(0));
}

#[test]
fn a_burial_that_is_sent_twice_counts_once() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    for _ in 0..2 {
        let values = Attempt::first(&entry).bury_values();
        assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &values).0, 1);
        let group: String =
            redis::from_redis_value(scripts.server.cmd(&["HGET", "sf:{q}:dead:groups", "0123"])).unwrap();
        assert!(group.starts_with("1 1 ") && group.ends_with(" test fatal no"), "{group}");
    }
}

#[test]
fn a_raw_replay_finds_its_letters_group_in_the_record() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    let buried = Attempt::first(&entry);
    assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &buried.bury_values()).0, 1);
    let letter: String =
        redis::from_redis_value(scripts.server.cmd(&["HGET", "sf:{q}:job:j", "dead_id"])).unwrap();
    // The letter names the group 0123, but it may be large, and so it is not read.
    let named = format!("group:{letter}");
    assert_eq!(scripts.int(&["HEXISTS", "sf:{q}:job:j", &named]), 1);
    scripts.server.cmd(&["HSET", "sf:{q}:job:j", &named, "ffff:0123 "]);
    scripts.server.cmd(&["HSET", "sf:{q}:dead:groups", "ffff", "1 1 5 5 - test fatal no"]);
    let entry = scripts.delivered();
    let mut values = Attempt { generation: "another", ..Attempt::first(&entry) }.begin_values();
    values[10] = buried.generation.as_bytes().to_vec();
    assert_eq!(scripts.call_one(source("begin"), &BEGIN_KEYS, &values).0, 1);
    let left = ["0123", "ffff"].map(|group| scripts.int(&["HEXISTS", "sf:{q}:dead:groups", group]));
    assert_eq!((left, scripts.int(&["XLEN", "sf:{q}:dead"])), ([1, 0], 0));
    assert_eq!(scripts.int(&["HEXISTS", "sf:{q}:job:j", &named]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_and_a_spoiled_table_keep_no_letter_from_its_place() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &ERRORS).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let first = letters(&queue).await.remove(0);
    assert!(queue.dead_letters().drop(first.entry, &first.job()).await.unwrap());
    assert_eq!(counts(&queue).await, [1, 2]);
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    server.cmd(&["SET", GROUPS, "a string"]);
    bury(&server, &queue, &["7"]).await;
    for letter in letters(&queue).await {
        assert!(queue.dead_letters().drop(letter.entry, &letter.job()).await.unwrap());
    }
    assert_eq!(queue.snapshot().await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_counts_old_letters_and_forgets_deleted_ones() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    for nth in 0..700 {
        let fingerprint = if nth % 7 == 0 { "aaaa" } else { "bbbb" };
        let head = ["XADD", DEAD, "*", "type", "test", "id"];
        let tail = ["dead_reason", "fatal", "dead_error", "no", "dead_fingerprint", fingerprint];
        server.cmd(&[&head[..], &[&format!("j{nth}")], &tail].concat());
    }
    bury(&server, &queue, &ERRORS).await;
    let dead = queue.dead_letters();
    assert_eq!(dead.groups().await.unwrap().uncounted(), 700);
    // One of the counted ones is deleted by hand.
    let last = letters(&queue).await.pop().unwrap();
    server.cmd(&["XDEL", DEAD, &last.entry.to_string()]);
    // Letters are dropped and written while it counts.
    let all = letters(&queue).await;
    let drops = async {
        for letter in all.iter().step_by(3) {
            assert!(dead.drop(letter.entry, &letter.job()).await.unwrap());
        }
    };
    let ((), counted, ()) = tokio::join!(drops, dead.recount(|_| ()), bury(&server, &queue, &["[1]", "[2]"]));
    assert!(counted.unwrap().is_some());
    counts(&queue).await;
    assert_eq!(dead.groups().await.unwrap().uncounted(), 0);
    // Letters that only a recount has counted are taken out exactly, too.
    for letter in letters(&queue).await.iter().step_by(2) {
        assert!(dead.drop(letter.entry, &letter.job()).await.unwrap());
    }
    counts(&queue).await;
}

/// Calls `recount`.
fn recount(scripts: &Scripts, args: &[&str]) -> i64 {
    let keys =
        ["", ":recount", ":recount:gone", ":groups", ":groups:2"].map(|part| format!("sf:{{q}}:dead{part}"));
    scripts.call(source("recount"), &keys.each_ref().map(String::as_str), args).0
}

#[test]
fn a_recount_that_was_given_up_ends_by_itself() {
    let scripts = Scripts::start();
    assert_eq!(recount(&scripts, &["one", "", ""]), 1);
    let die = || {
        let entry = scripts.delivered();
        assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &Attempt::first(&entry).bury_values()).0, 1);
    };
    die();
    assert_eq!(scripts.int(&["EXISTS", "sf:{q}:dead:groups:2"]), 1, "it counts in both tables");
    scripts.server.cmd(&["DEL", "sf:{q}:dead:groups:2"]);
    // More than ten minutes have passed since its last page.
    scripts.server.cmd(&["HSET", "sf:{q}:dead:recount", "touched_ms", "1700000000000"]);
    die();
    assert_eq!(scripts.int(&["EXISTS", "sf:{q}:dead:groups:2"]), 0, "nobody waits for it any more");
    assert_eq!(recount(&scripts, &["one", "0-0", ""]), 0);
    assert_eq!(recount(&scripts, &["two", "", ""]), 1);
    assert_eq!(recount(&scripts, &["two", "0-0", ""]), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_invents_no_deaths_and_forgets_none() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2", "3"]).await;
    let first = letters(&queue).await.remove(0);
    let fingerprint = first.text("dead_fingerprint");
    for nth in 0..5 {
        let head = ["XADD", DEAD, "*", "type", "test", "id"];
        let tail = ["dead_reason", "fatal", "dead_error", "7", "dead_fingerprint", &fingerprint];
        server.cmd(&[&head[..], &[&format!("j{nth}")], &tail].concat());
    }
    let dead = queue.dead_letters();
    assert!(dead.drop(first.entry, &first.job()).await.unwrap());
    assert!(dead.recount(|_| ()).await.unwrap().is_some());
    let found = dead.groups().await.unwrap().groups;
    assert_eq!((found.len(), found[0].count, found[0].deaths), (1, 7, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_letter_that_is_edited_is_no_groups_sample() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &["1", "2"]).await;
    let [old, new] = <[_; 2]>::try_from(letters(&queue).await).unwrap();
    let edit = LetterEdit::default().job_type("mail".parse().unwrap());
    queue.dead_letters().edit(&old, &edit, &Action::new("dead edit", "ann")).await.unwrap();
    let found = queue.dead_letters().groups().await.unwrap().groups;
    let job_type = found[0].job_type.as_ref().map(ToString::to_string);
    assert_eq!((found.len(), found[0].count, found[0].sample), (1, 2, Some(new.entry)));
    assert_eq!((job_type.as_deref(), found[0].error.as_str()), (Some("test"), "2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_beyond_the_most_groups_are_counted_as_one_group() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let fill = "for nth = 1, 10000 do redis.call('HSET', KEYS[1], 'f' .. nth, '1 1 5 5 - test fatal no') end";
    server.cmd(&["EVAL", fill, "1", GROUPS]);
    bury(&server, &queue, &ERRORS).await;
    let found = queue.dead_letters().groups().await.unwrap();
    let other = found.groups.iter().find(|group| group.fingerprint.is_none()).unwrap();
    assert_eq!((other.count, found.groups.len()), (4, 10_001));
    for letter in letters(&queue).await {
        assert_eq!(letter.text("dead_group"), "other");
        server.cmd(&["HDEL", GROUPS, "f1", "f2", "f3", "f4"]);
        assert!(queue.dead_letters().drop(letter.entry, &letter.job()).await.unwrap());
    }
    let found = queue.dead_letters().groups().await.unwrap();
    assert!(found.groups.iter().all(|group| group.fingerprint.is_some()), "the others were taken from it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recount_gives_letters_of_other_a_group_if_there_is_waitlist() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let each = |what: &str| {
        let script = format!("for nth = 1, 10000 do redis.call({what}) end");
        server.cmd(&["EVAL", &script, "1", GROUPS]);
    };
    each("'HSET', KEYS[1], 'f' .. nth, '1 1 5 5 - test fatal no'");
    bury(&server, &queue, &ERRORS).await;
    each("'HDEL', KEYS[1], 'f' .. nth");
    assert_eq!(queue.dead_letters().groups().await.unwrap().groups.len(), 1);
    assert_eq!(queue.dead_letters().recount(|_| ()).await.unwrap(), Some(4));
    assert_eq!(counts(&queue).await, [1, 1, 2]);
    // Only its record says that a raw replay moves one of them, and the record names the group `other`.
    let all = letters(&queue).await;
    let fields = all[1].fields.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]);
    let mut command = redis::cmd("XADD");
    command.arg("sf:{default}:jobs").arg("*").arg(fields.collect::<Vec<_>>());
    command.exec(&mut server.client()).unwrap();
    let fleet = deadly(&server);
    let again = async || letters(&queue).await.last().is_some_and(|last| last.entry > all[3].entry);
    until_async("the job to die again", SOON, again).await;
    fleet.stop().await;
    assert_eq!(counts(&queue).await, [1, 1, 2]);
    for (letter, left) in letters(&queue).await.iter().zip([3, 2, 1, 0]) {
        assert!(queue.dead_letters().drop(letter.entry, &letter.job()).await.unwrap());
        assert_eq!(counts(&queue).await.iter().sum::<u64>(), left);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_is_dropped_although_its_record_or_ledger_has_the_wrong_type() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    bury(&server, &queue, &ERRORS).await;
    let all = letters(&queue).await;
    for (letter, kind) in all.iter().zip(["job", "steps"]) {
        let key = format!("sf:{{default}}:{kind}:{}", letter.job());
        server.cmd(&["SET", &key, "of another type"]);
        assert!(queue.dead_letters().drop(letter.entry, &letter.job()).await.unwrap(), "{kind}");
        assert_eq!(server.cmd(&["GET", &key]), Value::BulkString(b"of another type".to_vec()));
    }
    assert_eq!(letters(&queue).await.len(), all.len() - 2);
}
