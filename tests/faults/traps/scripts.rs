//! The scripts themselves, called twice, as by a client that got no answer the first time. The second call changes
//! nothing.

use redis::Value;
use streamfleet::job::{Envelope, Lane};

use harness::redis_server::RedisServer;
use harness::scripts::attempts::{
    Attempt, BEGIN_KEYS, BURY_KEYS, CANCELLED_KEYS, COMPLETE_KEYS, DEFER_KEYS, RELEASE_KEYS, Values, packed,
};
use harness::scripts::keys::{
    BATCH, CALLS, CANCELS, CREATED, DEAD, DELAYED, FIELDS, GENERATION, HIGH, LOCK, LOW, NOTHING, PLACES,
    PROMOTE_KEYS, RECEIPTS, RECORD, STEPS, STREAM, WAKE,
};
use harness::scripts::{Scripts, source};

const SCHEDULE_KEYS: [&str; 8] =
    [DELAYED, FIELDS, WAKE, "sf:{q}:control", HIGH, STREAM, LOW, "sf:{q}:receipt:first"];
const CANCEL_KEYS: [&str; 13] = [
    DELAYED,
    FIELDS,
    RECORD,
    CANCELS,
    STREAM,
    LOCK,
    BATCH,
    STEPS,
    PLACES,
    "sf:{q}:endings",
    NOTHING,
    STREAM,
    "sf:{q}:rooms:places",
];
pub(super) const REPLAY_KEYS: [&str; 7] = [DEAD, RECORD, HIGH, STREAM, LOW, STEPS, "sf:{q}:receipt:replay"];
pub(super) const DROP_KEYS: [&str; 5] = [DEAD, RECORD, STEPS, NOTHING, "sf:{q}:receipt:drop"];
pub(super) const JOIN_KEYS: [&str; 5] = ["sf:{q}:control", "sf:{q}:receipt:", HIGH, STREAM, LOW];

/// Returns the packed fields before and after the time that the script fills in.
fn accepted(packed: &[u8]) -> (&[u8], &[u8]) {
    let at = packed.windows(CREATED.len()).position(|part| part == CREATED.as_bytes()).unwrap();
    (&packed[..at], &packed[at + CREATED.len()..])
}

#[test]
fn a_settlement_that_is_sent_twice_happens_once() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.one_twice(source("defer"), &DEFER_KEYS, &Attempt::first(&entry).defer_values("60000"), [1, 1]);
    let entry = scripts.delivered();
    scripts.one_twice(source("bury"), &BURY_KEYS, &Attempt::first(&entry).bury_values(), [1, 1]);
    let entry = scripts.delivered();
    scripts.one_twice(source("complete"), &COMPLETE_KEYS, &Attempt::first(&entry).complete_values(), [1, 1]);
    let entry = scripts.delivered();
    scripts.one_twice(source("release"), &RELEASE_KEYS, &Attempt::first(&entry).release_values(), [1, 1]);
    let entry = scripts.delivered();
    let values = Attempt::first(&entry).cancelled_values();
    scripts.one_twice(source("cancelled"), &CANCELLED_KEYS, &values, [1, 1]);
    assert_eq!(scripts.state(), "cancelled");
    assert_eq!(scripts.int(&["XLEN", STREAM]), 1);
    assert_eq!(scripts.int(&["XLEN", DEAD]), 1);
    assert_eq!(scripts.int(&["ZCARD", DELAYED]), 1);
}

#[test]
fn a_late_success_that_is_sent_twice_cancels_the_parked_retry_once() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.defer(&entry, "60000");
    scripts.one_twice(source("complete"), &COMPLETE_KEYS, &Attempt::first(&entry).complete_values(), [2, 2]);
    assert_eq!((scripts.int(&["ZCARD", DELAYED]), scripts.int(&["HLEN", FIELDS])), (0, 0));
}

/// Returns the follow-ups of a job's end that the job itself names: one job with three names and values.
fn ends(how: &str) -> Vec<u8> {
    followed(how, "once")
}

pub(super) fn followed(how: &str, often: &str) -> Vec<u8> {
    let texts = [how, GENERATION, often, "6", "type", "after", "payload", "{}", "parent", "j"];
    let mut packed = vec![0x90 + texts.len() as u8];
    for text in texts {
        packed.push(0xa0 + text.len() as u8);
        packed.extend(text.bytes());
    }
    packed
}

#[test]
fn a_jobs_end_triggers_its_follow_ups_once_for_each_outcome() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["SET", LOCK, "j"]);
    for _ in 0..2 {
        let entry = scripts.delivered();
        let mut values = Attempt::first(&entry).bury_values();
        values[13] = ends("dead");
        scripts.one_twice(source("bury"), &BURY_KEYS, &values, [1, 1]);
    }
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.int(&["EXISTS", LOCK])), (1, 0));
    scripts.server.cmd(&["SET", LOCK, "another"]);
    for _ in 0..2 {
        scripts.server.cmd(&["DEL", STREAM]);
        scripts.server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0", "MKSTREAM"]);
        let entry = scripts.delivered();
        let mut values = Attempt::first(&entry).complete_values();
        values[9] = ends("done");
        scripts.one_twice(source("complete"), &COMPLETE_KEYS, &values, [1, 1]);
    }
    let followed = scripts.int(&["XLEN", STREAM]);
    assert_eq!((followed, scripts.int(&["EXISTS", LOCK])), (0, 1), "the second success triggers nothing");
}

#[test]
fn what_follows_a_job_goes_to_the_lane_that_the_job_belongs_to() {
    for how in ["done low", "done low c1 5-0 succeeded"] {
        let scripts = Scripts::start();
        let entry = scripts.delivered();
        let mut values = Attempt::first(&entry).complete_values();
        values[9] = followed(how, "once");
        scripts.one_twice(source("complete"), &COMPLETE_KEYS, &values, [1, 1]);
        assert_eq!(scripts.int(&["XLEN", "sf:{q}:jobs:low"]), 1, "{how}");
    }
}

#[test]
fn what_a_type_names_follows_each_end_and_leaves_no_record() {
    let scripts = Scripts::start();
    for _ in 0..2 {
        scripts.server.cmd(&["DEL", STREAM]);
        scripts.server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0", "MKSTREAM"]);
        let entry = scripts.delivered();
        let mut values = Attempt::first(&entry).complete_values();
        (values[8], values[9]) = (b"0".to_vec(), followed("done", "each"));
        scripts.one_twice(source("complete"), &COMPLETE_KEYS, &values, [1, 1]);
        assert_eq!(scripts.int(&["XLEN", STREAM]), 1, "sent twice, it follows once");
    }
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0);
}

#[test]
fn a_batch_is_followed_once_however_often_its_parts_are_sent() {
    let scripts = Scripts::start();
    let follow = Envelope::new([(b"type".as_slice(), b"after".as_slice())].into_iter()).pack(Lane::Normal);
    let keys = [BATCH, STREAM, NOTHING];
    let add: [&[u8]; 4] = [&follow, b"60000", b"j", b"k"];
    scripts.twice(source("batch"), &keys, &add, [1, 1]);
    let end = |id: &str| {
        let entry = scripts.delivered();
        let mut values = Attempt { id, ..Attempt::first(&entry) }.complete_values();
        values[9] = ends("done");
        scripts.one_twice(source("complete"), &COMPLETE_KEYS, &values, [1, 1]);
    };
    end("j");
    let after_first = scripts.int(&["XLEN", STREAM]);
    // A member that is done and named again is not awaited again.
    scripts.twice(source("batch"), &keys, &add, [1, 1]);
    scripts.twice(source("batch"), &keys, &add[..2], [1, 1]);
    scripts.twice(source("batch"), &keys, &add, [1, 1]);
    let stranger: [&[u8]; 3] = [&follow, b"60000", b"x"];
    scripts.twice(source("batch"), &keys, &stranger, [0, 0]);
    assert_eq!(scripts.int(&["XLEN", STREAM]), after_first);
    end("k");
    // Both jobs have the same record here, which triggers one callback; the other job is the batch's.
    assert_eq!(scripts.int(&["XLEN", STREAM]), after_first + 1);
    let (status, rest) = scripts.call(source("batched"), &[BATCH], &["0"]);
    assert_eq!((status, rest.len()), (1, 5), "{rest:?}");
}

#[test]
fn a_start_requested_twice_gets_the_same_answer() {
    let scripts = Scripts::start();
    let (_first, retry) = scripts.retried();
    for _ in 0..2 {
        let values = Attempt::repeated(&retry).begin_values();
        assert_eq!(scripts.call_one(source("begin"), &BEGIN_KEYS, &values).0, 1);
    }
    assert_eq!(scripts.state(), "running");
    let scripts = Scripts::start();
    let retry = scripts.succeeded_late();
    scripts.one_twice(source("begin"), &BEGIN_KEYS, &Attempt::repeated(&retry).begin_values(), [2, 2]);
}

#[test]
fn a_retry_of_a_job_that_succeeded_late_ends_however_it_is_settled() {
    let check = |name: &str, keys: &[&str], values: &dyn Fn(&Attempt<'_>) -> Values| {
        let scripts = Scripts::start();
        let retry = scripts.succeeded_late();
        scripts.one_twice(source(name), keys, &values(&Attempt::repeated(&retry)), [2, 2]);
        let left = [["XLEN", STREAM], ["ZCARD", DELAYED], ["XLEN", DEAD], ["HLEN", FIELDS]];
        assert_eq!(left.map(|command| scripts.int(&command)), [0; 4]);
        assert_eq!(scripts.state(), "done");
        assert!(scripts.int(&["PTTL", RECORD]) > 0);
    };
    check("defer", &DEFER_KEYS, &|retry| retry.defer_values("0"));
    check("bury", &BURY_KEYS, &|retry| retry.bury_values());
    check("cancelled", &CANCELLED_KEYS, &|retry| retry.cancelled_values());
    check("release", &RELEASE_KEYS, &|retry| retry.release_values());
}

#[test]
fn a_late_success_of_an_earlier_generation_cancels_nothing() {
    let scripts = Scripts::start();
    let (first, _retry) = scripts.retried();
    let earlier = Attempt { generation: "1600000000000-0", ..Attempt::first(&first) };
    scripts.one_twice(source("complete"), &COMPLETE_KEYS, &earlier.complete_values(), [4, 4]);
    // A job with the same id that is submitted after the late success is another generation too. The script asks for a late success
    // only if the attempt is a repeated one.
    let scripts = Scripts::start();
    scripts.succeeded_late();
    let again = scripts.delivered();
    let later = Attempt { generation: "1800000000000-0", ..Attempt::repeated(&again) };
    scripts.one_twice(source("defer"), &DEFER_KEYS, &later.defer_values("60000"), [1, 1]);
}

#[test]
fn chores_and_commands_that_are_sent_twice_happen_once() {
    let scripts = Scripts::start();
    let packed = packed();
    let (head, tail) = accepted(&packed);
    let schedule = [b"".as_slice(), b"j", b"in", b"0", head, tail, b""];
    scripts.twice(source("schedule"), &SCHEDULE_KEYS, &schedule, [1, 1]);
    scripts.twice(source("promote"), &PROMOTE_KEYS, &["500", "1048576"], [1, 0]);
    let mut again = SCHEDULE_KEYS;
    again[7] = "sf:{q}:receipt:second";
    scripts.call(source("schedule"), &again, &[b"".as_slice(), b"j", b"in", b"60000", head, tail, b""]);
    let cancel = ["j", "", "60000", "me", "test", "normal", "", "", "0", GENERATION];
    scripts.twice(source("cancel"), &CANCEL_KEYS, &cancel, [1, 3]);
    for (script, keys) in [("replay", &REPLAY_KEYS[..]), ("drop", &DROP_KEYS[..])] {
        let entry = scripts.delivered();
        scripts.call_one(source("bury"), &BURY_KEYS, &Attempt::first(&entry).bury_values());
        let letters: Vec<(String, Vec<String>)> =
            redis::from_redis_value(scripts.server.cmd(&["XRANGE", DEAD, "-", "+"])).unwrap();
        let letter = &letters[0].0;
        scripts.twice(source(script), keys, &[letter.as_str(), "", "", "60000"], [1, 1]);
    }
    scripts.twice(source("join"), &JOIN_KEYS, &["1000", "1", "7"], [0, 0]);
    let leader = ["sf:{q}:leader", HIGH, "sf:{q}:cron:ticks"];
    scripts.twice(source("lead"), &leader, &["me", "60000"], [1, 1]);
    scripts.twice(source("lead"), &leader, &["you", "60000"], [0, 0]);
}

#[test]
fn renewing_twice_never_takes_an_entry_back() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.twice(source("keepalive"), &[STREAM], &["me", &entry], [1, 1]);
    scripts.twice(source("keepalive"), &[STREAM], &["you", &entry], [0, 0]);
}

#[test]
fn acknowledging_twice_settles_once_and_reports_what_was_settled() {
    let scripts = Scripts::start();
    let (first, second) = (scripts.delivered(), scripts.delivered());
    scripts.twice(source("acknowledge"), &[STREAM], &[&first], [1, 0]);
    let (settled, places) = scripts.call(source("acknowledge"), &[STREAM], &[&first, &second]);
    assert_eq!((settled, places), (1, vec![Value::Int(1)]));
    assert_eq!(scripts.int(&["XLEN", STREAM]), 0);
}

#[test]
fn a_pending_entry_that_was_deleted_is_acknowledged() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.server.cmd(&["XDEL", STREAM, &entry]);
    scripts.twice(source("acknowledge"), &[STREAM], &[&entry], [1, 0]);
}

#[test]
fn a_consumer_with_pending_entries_is_never_deleted() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.twice(source("reap"), &[HIGH, STREAM, LOW, RECEIPTS], &["me"], [2, 2]);
    assert_eq!(scripts.int(&["XACK", STREAM, "fleet", &entry]), 1, "the entry was still pending");
    assert_eq!(scripts.call(source("reap"), &[HIGH, STREAM, LOW, RECEIPTS], &["me"]).0, 3);
}

#[test]
fn an_advance_of_time_sent_twice_happens_once() {
    let scripts = Scripts::start();
    for (job, due) in [("a", "5000"), ("b", "9000")] {
        scripts.server.cmd(&["ZADD", DELAYED, due, job]);
    }
    let keys = [DELAYED, WAKE, "sf:{q}:advanced"];
    let due = |job: &str| scripts.server.cmd(&["ZSCORE", DELAYED, job]);
    scripts.twice(source("advance"), &keys, &["3000", "1", "10"], [2, 0]);
    assert_eq!(
        [due("a"), due("b")],
        [Value::BulkString(b"2000".to_vec()), Value::BulkString(b"6000".to_vec())]
    );
    scripts.twice(source("advance"), &keys, &["1000", "2", "1"], [-1, -1]);
    assert_eq!(due("a"), Value::BulkString(b"2000".to_vec()), "too many jobs, so nothing may move");
}

#[test]
fn a_full_server_refuses_to_advance_time() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["ZADD", DELAYED, "5000", "a"]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let keys = [DELAYED, WAKE, "sf:{q}:advanced"];
    let command =
        ["EVAL", source("advance"), "3", keys[0], keys[1], keys[2], "3000", "1", "10"].map(str::as_bytes);
    let refused = format!("{:?}", scripts.server.try_cmd(&command));
    assert!(refused.contains("OOM"), "{refused}");
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts.server.cmd(&["ZSCORE", DELAYED, "a"]), Value::BulkString(b"5000".to_vec()));
}

#[test]
fn there_are_as_many_calls_as_waiting_jobs_even_if_sent_twice() {
    let scripts = Scripts::start();
    let (source, keys) = (source("wake_standby"), [CALLS, HIGH, STREAM, LOW]);
    scripts.twice(source, &keys, &["0", "64"], [0, 0]);
    scripts.delivered();
    scripts.twice(source, &keys, &["0", "64"], [0, 0]);
    for _ in 0..3 {
        scripts.server.cmd(&["XADD", LOW, "*", "type", "test"]);
    }
    scripts.twice(source, &keys, &["1", "64"], [3, 0]);
    assert_eq!(scripts.server.cmd(&["LLEN", CALLS]), Value::Int(3));
    for _ in 0..100 {
        scripts.server.cmd(&["XADD", HIGH, "*", "type", "test"]);
    }
    scripts.twice(source, &keys, &["1", "64"], [61, 0]);
    let Value::Int(left) = scripts.server.cmd(&["PTTL", CALLS]) else { panic!("no time to live") };
    assert!((1..=10_000).contains(&left), "{left}");
}

#[test]
fn a_call_works_on_a_full_server_and_without_streams() {
    let server = RedisServer::start();
    let scripts = Scripts { server };
    let keys = [CALLS, HIGH, STREAM, LOW];
    assert_eq!(scripts.call(source("wake_standby"), &keys, &["0", "64"]).0, 0);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scripts.call(source("wake_standby"), &keys, &["1", "64"]).0, 1);
}

#[test]
fn a_candidate_for_leader_counts_as_a_member_without_deliveries() {
    let scripts = Scripts::start();
    let keys = ["sf:{q}:leader", STREAM, "sf:{q}:cron:ticks"];
    let asked = |who: &str| {
        let (leads, mut rest) = scripts.call(source("lead"), &keys, &[who, "5000"]);
        // The last value is the time.
        rest.truncate(2);
        (leads, rest)
    };
    assert_eq!(asked("one"), (1, vec![Value::Int(1), Value::Int(0)]));
    assert_eq!(asked("two"), (0, vec![Value::Int(2), Value::Int(0)]));
    scripts.server.cmd(&["XADD", STREAM, "*", "type", "test"]);
    assert_eq!(asked("two").0, 0);
    let Value::Array(pending) = scripts.server.cmd(&["XPENDING", STREAM, "fleet"]) else {
        panic!("no summary")
    };
    assert_eq!(pending[0], Value::Int(0), "asking to lead must not take a job");
}
