//! Calls that are sent again because their answers were lost, and that find no trace of themselves but their receipts.

use redis::Value;

use super::scripts::{DROP_KEYS, JOIN_KEYS, REPLAY_KEYS, followed};
use harness::scripts::Scripts;
use harness::scripts::attempts::{Attempt, BURY_KEYS, COMPLETE_KEYS};
use harness::scripts::keys::{BATCH, DEAD, DELAYED, FIELDS, PROMOTE_KEYS, RECORD, STREAM};
use harness::scripts::source;

/// Buries a job. Returns its letter.
fn buried(scripts: &Scripts) -> String {
    let entry = scripts.delivered();
    assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &Attempt::first(&entry).bury_values()).0, 1);
    let newest = scripts.server.cmd(&["XREVRANGE", DEAD, "+", "-", "COUNT", "1"]);
    let mut letters: Vec<(String, Vec<String>)> = redis::from_redis_value(newest).unwrap();
    letters.remove(0).0
}

#[test]
fn a_replay_of_a_letter_without_a_record_sent_twice_answers_alike() {
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    scripts.server.cmd(&["DEL", RECORD]);
    let replay = || scripts.call(source("replay"), &REPLAY_KEYS, &[letter.as_str(), ""]);
    let (status, entry) = replay();
    assert_eq!((status, entry.len()), (1, 1));
    assert_eq!(replay(), (1, entry));
    assert_eq!([DEAD, STREAM].map(|stream| scripts.int(&["XLEN", stream])), [0, 1]);
    // Another call did not replay it.
    let mut other = REPLAY_KEYS;
    other[6] = "sf:{q}:receipt:other";
    scripts.twice(source("replay"), &other, &[letter.as_str(), ""], [0, 0]);
}

#[test]
fn a_drop_sent_twice_answers_alike_and_another_one_does_not() {
    // Dropped by a person, as one letter too many, and as a letter that is too old.
    for [stay_ms, most] in [["", ""], ["", "0"], ["-1", ""]] {
        let scripts = Scripts::start();
        let letter = buried(&scripts);
        let args = |call| [letter.as_str(), stay_ms, most, "60000", "", "", call];
        scripts.twice(source("drop"), &DROP_KEYS, &args("one"), [1, 1]);
        scripts.twice(source("drop"), &DROP_KEYS, &args("other"), [0, 0]);
    }
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    scripts.twice(source("drop"), &DROP_KEYS, &[letter.as_str(), "", "1", "60000", "", "", "one"], [2, 2]);
}

#[test]
fn a_drop_works_on_a_full_server_and_leaves_a_receipt() {
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    scripts.twice(source("drop"), &DROP_KEYS, &[letter.as_str(), "", "", "60000", "", "", "one"], [1, 1]);
}

#[test]
fn groups_that_a_join_created_are_reported_again_to_the_same_call() {
    let scripts = Scripts::start();
    let mut keys = JOIN_KEYS;
    let join = |keys: &[&str]| scripts.call(source("join"), keys, &["1000", "1", ""]).0;
    keys[1] = "sf:{q}:receipt:one";
    assert_eq!(join(&keys), 0, "all groups are there");
    scripts.server.cmd(&["DEL", JOIN_KEYS[2], STREAM]);
    assert_eq!([join(&keys), join(&keys)], [2, 2]);
    keys[1] = "sf:{q}:receipt:other";
    assert_eq!([join(&keys), join(&JOIN_KEYS)], [0, 0]);
    scripts.server.cmd(&["DEL", STREAM]);
    // A call without a name leaves no receipt.
    assert_eq!([join(&JOIN_KEYS), join(&JOIN_KEYS)], [1, 0]);
}

#[test]
fn what_cannot_follow_a_batch_is_set_aside_once_letters_can_be_written() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", BATCH, "state", "closed", "follow", "no fields", "left", "1", "m:j", "1"]);
    scripts.server.cmd(&["SET", DEAD, "x"]);
    let entry = scripts.delivered();
    let mut values = Attempt::first(&entry).complete_values();
    values[9] = followed("done", "once");
    for _ in 0..2 {
        assert_eq!(scripts.call_one(source("complete"), &COMPLETE_KEYS, &values).0, 1);
    }
    assert_eq!(scripts.server.cmd(&["HGET", BATCH, "state"]), Value::BulkString(b"done".to_vec()));
    assert_eq!([["ZCARD", DELAYED], ["HLEN", FIELDS]].map(|command| scripts.int(&command)), [1, 1]);
    let promote = || {
        scripts.server.cmd(&["ZADD", DELAYED, "XX", "0", "b batch"]);
        scripts.call(source("promote"), &PROMOTE_KEYS, &["500", "1048576"]).0
    };
    assert_eq!(promote(), 0, "the dead stream still has another type");
    scripts.server.cmd(&["DEL", DEAD]);
    assert_eq!(promote(), 1);
    assert_eq!([["XLEN", DEAD], ["ZCARD", DELAYED]].map(|command| scripts.int(&command)), [1, 0]);
    let letters: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", DEAD, "-", "+"])).unwrap();
    assert_eq!(letters[0].1[..4], ["raw", "no fields", "dead_job", "b batch"]);
}

#[test]
fn a_batch_keeps_what_can_be_put_nowhere() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", BATCH, "state", "closed", "follow", "no fields", "left", "1", "m:j", "1"]);
    for key in [DEAD, DELAYED] {
        scripts.server.cmd(&["SET", key, "x"]);
    }
    let entry = scripts.delivered();
    let mut values = Attempt::first(&entry).complete_values();
    values[9] = followed("done", "once");
    assert_eq!(scripts.call_one(source("complete"), &COMPLETE_KEYS, &values).0, 1);
    let kept = [["HEXISTS", BATCH, "follow"], ["HEXISTS", FIELDS, "b batch"]];
    assert_eq!(kept.map(|command| scripts.int(&command)), [1, 0]);
}
