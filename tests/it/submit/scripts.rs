//! The script that accepts jobs with ids: called twice, and on a full server.

use redis::Value;
use streamfleet::job::{Envelope, Lane};

use crate::harness::scripts::source;
use crate::traps::scripts::Scripts;

const RECORD: &str = "sf:{q}:job:j";

const LOCK: &str = "sf:{q}:unique:k";

const BATCH: &str = "sf:{q}:batch:b";

const RECEIPT: &str = "sf:{q}:receipt:first";

/// A job's packed fields in the delayed set, as a client read them.
const PACKED: &str = "<1700000000000>";

const KEYS: [&str; 13] = [
    "sf:{q}:control",
    "sf:{q}:delayed",
    "sf:{q}:delayed:fields",
    "sf:{q}:wake",
    "sf:{q}:jobs:high",
    "sf:{q}:jobs",
    "sf:{q}:jobs:low",
    RECEIPT,
    RECORD,
    LOCK,
    RECORD,
    "sf:{q}:steps:j",
    BATCH,
];

/// Arguments for a job that is due now or in a minute, with a unique key whose holder is or is not known.
fn args(id: &'static str, when: &'static str, lock: [&'static str; 5]) -> Vec<&'static str> {
    let [key, scope, ms, mode, holder] = lock;
    let [read, wanted] = if holder.is_empty() { ["", ""] } else { [PACKED, "new"] };
    let mut args = vec![id, "1f", "normal", "test", when, "60000", "60000", "", key, scope, ms, mode, holder];
    args.extend(["", "", "", read, wanted, ""]);
    args.extend(if when == "now" { vec!["4", "type", "test", "id", id] } else { vec!["2", "<", ">"] });
    args
}

const NO_LOCK: [&str; 5] = ["", "", "0", "", ""];

fn now() -> Vec<&'static str> {
    [vec![""], args("j", "now", NO_LOCK)].concat()
}

fn later() -> Vec<&'static str> {
    [vec![""], args("j", "in", NO_LOCK)].concat()
}

fn verdicts(answer: Vec<Value>) -> Vec<String> {
    answer.into_iter().map(|item| redis::from_redis_value(item).unwrap()).collect()
}

#[test]
fn a_job_with_an_id_sent_twice_is_accepted_once() {
    let scripts = Scripts::new();
    scripts.twice(source("submit"), &KEYS, &now(), [1, 1]);
    assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 1);
    let scripts = Scripts::new();
    scripts.twice(source("submit"), &KEYS, &later(), [1, 1]);
    assert_eq!((scripts.int(&["ZCARD", KEYS[1]]), scripts.int(&["HLEN", KEYS[2]])), (1, 1));
}

#[test]
fn a_job_twice_in_one_call_is_accepted_once() {
    let scripts = Scripts::new();
    let keys = [&KEYS[..], &KEYS[8..]].concat();
    let args = [&now()[..], &later()[1..]].concat();
    let (jobs, answer) = scripts.call(source("submit"), &keys, &args);
    assert_eq!(
        (jobs, verdicts(answer)),
        (2, ["new", "j", "waiting", "known", "j", "waiting"].map(str::to_owned).to_vec())
    );
    assert_eq!((scripts.int(&["XLEN", KEYS[5]]), scripts.int(&["ZCARD", KEYS[1]])), (1, 0));
}

#[test]
fn a_delayed_job_without_a_record_is_known_by_its_id() {
    let scripts = Scripts::new();
    scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", "j"]);
    scripts.server.cmd(&["HSET", KEYS[2], "j", "packed"]);
    let (_, answer) = scripts.call(source("submit"), &KEYS, &now());
    assert_eq!(verdicts(answer), ["known", "j", "scheduled"]);
    assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 0);
}

#[test]
fn a_full_server_refuses_jobs_with_ids_whole() {
    for args in [&now()[..], &later()[..]] {
        let scripts = Scripts::new();
        scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = scripts.digest();
        let mut command = vec!["EVAL", source("submit"), "13"];
        command.extend(KEYS);
        command.extend(args);
        let answer = format!("{:?}", scripts.server.try_cmd(&command));
        assert!(answer.contains("OOM"), "{answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_queue_at_its_limit_accepts_only_known_jobs() {
    let scripts = Scripts::new();
    scripts.server.cmd(&["HSET", KEYS[0], "max_depth", "1"]);
    scripts.twice(source("submit"), &KEYS, &now(), [1, 1]);
    let other = [vec![""], args("k", "now", NO_LOCK)].concat();
    let mut keys = KEYS;
    (keys[7], keys[8]) = ("sf:{q}:receipt:k", "sf:{q}:job:k");
    scripts.twice(source("submit"), &keys, &other, [-1, -1]);
}

/// Keys and arguments for the second job of the key `k`, whose holder `j` is known.
fn second(when: &'static str, mode: &'static str) -> ([&'static str; 13], Vec<&'static str>) {
    let mut keys = KEYS;
    (keys[7], keys[8]) = ("sf:{q}:receipt:second", "sf:{q}:job:second");
    (keys, [vec![""], args("second", when, ["k", "running", "0", mode, "j"])].concat())
}

fn first(when: &'static str) -> Vec<&'static str> {
    [vec![""], args("j", when, ["k", "running", "0", "reject", ""])].concat()
}

#[test]
fn a_replacement_sent_twice_happens_once() {
    for when in ["now", "in"] {
        let scripts = Scripts::new();
        scripts.twice(source("submit"), &KEYS, &first(when), [1, 1]);
        let (keys, args) = second("now", "replace");
        scripts.twice(source("submit"), &keys, &args, [1, 1]);
        assert_eq!((scripts.int(&["XLEN", KEYS[5]]), scripts.int(&["ZCARD", KEYS[1]])), (1, 0));
        let holder: String = redis::from_redis_value(scripts.server.cmd(&["GET", LOCK])).unwrap();
        assert_eq!((holder.as_str(), scripts.state()), ("second", "cancelled".to_owned()));
    }
}

#[test]
fn a_job_rejected_or_with_an_unknown_holder_changes_nothing() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("now"));
    let before = scripts.digest();
    for (holder, want) in [("j", ["held", "j", "waiting"]), ("", ["holder", "j", ""])] {
        let mut keys = KEYS;
        (keys[7], keys[8]) = ("sf:{q}:receipt:second", "sf:{q}:job:second");
        let args = [vec![""], args("second", "now", ["k", "running", "0", "reject", holder])].concat();
        assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1), want);
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_full_server_refuses_a_replacement_and_a_debounce_whole() {
    for mode in ["replace", "debounce"] {
        let scripts = Scripts::new();
        scripts.call(source("submit"), &KEYS, &first("in"));
        scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
        scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = scripts.digest();
        let (keys, args) = second("in", mode);
        let mut command = vec!["EVAL", source("submit"), "13"];
        command.extend(keys);
        command.extend(args);
        let answer = format!("{:?}", scripts.server.try_cmd(&command));
        assert!(answer.contains("OOM"), "{answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_lock_is_stale_if_its_holder_is_gone_ended_or_another_life() {
    let leave: [&[&str]; 5] = [
        &["DEL", RECORD],
        &["HSET", RECORD, "state", "done"],
        &["HSET", RECORD, "state", "dead"],
        &["HSET", RECORD, "state", "cancelled"],
        &["HDEL", RECORD, "unique"],
    ];
    for command in leave {
        let scripts = Scripts::new();
        scripts.call(source("submit"), &KEYS, &first("now"));
        scripts.server.cmd(command);
        let (keys, args) = second("now", "reject");
        let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
        assert_eq!(answer, ["new", "second", "waiting"], "{command:?}");
    }
}

/// Calls twice. Both answers must be equal, and the second call must change nothing.
fn same(scripts: &Scripts, source: &str, keys: &[&str], args: &[&str]) -> Vec<Value> {
    let first = scripts.call(source, keys, args);
    let between = scripts.digest();
    assert_eq!(scripts.call(source, keys, args), first);
    assert_eq!(scripts.digest(), between);
    first.1
}

#[test]
fn a_call_whose_reply_was_lost_gets_the_same_answer_again() {
    for when in ["now", "in"] {
        let scripts = Scripts::new();
        let answer = same(&scripts, source("submit"), &KEYS, &first(when));
        assert_eq!(verdicts(answer), ["new", "j", if when == "now" { "waiting" } else { "scheduled" }]);
    }
    for mode in ["replace", "debounce"] {
        let scripts = Scripts::new();
        scripts.call(source("submit"), &KEYS, &first("in"));
        scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
        let (keys, args) = second("in", mode);
        let answer = same(&scripts, source("submit"), &keys, &args);
        assert_eq!(verdicts(answer)[0], format!("{mode}d"));
    }
}

#[test]
fn a_delayed_job_whose_reply_was_lost_is_not_scheduled_again() {
    let scripts = Scripts::new();
    let mut keys = vec![KEYS[1], KEYS[2], KEYS[3], KEYS[0]];
    keys.extend(&KEYS[4..8]);
    let args = ["", "drawn", "in", "0", "<", ">", ""];
    assert_eq!(scripts.call(source("schedule"), &keys, &args), (1, vec![]));
    // The job is due, and runs.
    scripts.server.cmd(&["DEL", KEYS[1], KEYS[2]]);
    assert_eq!(scripts.call(source("schedule"), &keys, &args), (1, vec![]));
    assert_eq!(scripts.int(&["ZCARD", KEYS[1]]), 0);
}

#[test]
fn a_holder_with_a_step_that_ran_is_neither_replaced_nor_debounced() {
    for mode in ["replace", "debounce"] {
        let scripts = Scripts::new();
        scripts.call(source("submit"), &KEYS, &first("in"));
        scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
        scripts.server.cmd(&["HSET", "sf:{q}:steps:j", "charge:state", "succeeded"]);
        let before = scripts.digest();
        let (keys, args) = second("in", mode);
        let answer = scripts.call(source("submit"), &keys, &args).1;
        assert_eq!(verdicts(answer), ["held", "j", "scheduled"], "{mode}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_holder_of_another_type_is_not_debounced() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
    scripts.server.cmd(&["HSET", RECORD, "type", "other"]);
    let (keys, args) = second("in", "debounce");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1), ["held", "j", "scheduled"]);
}

#[test]
fn a_job_whose_keys_have_the_wrong_type_is_refused_alone() {
    for key in [RECORD, LOCK] {
        let scripts = Scripts::new();
        scripts.server.cmd(&["LPUSH", key, "x"]);
        let mut keys = KEYS.to_vec();
        keys.extend(["sf:{q}:job:good", "sf:{q}:unique:", "sf:{q}:job:good", "sf:{q}:steps:good", BATCH]);
        let args = [&first("now")[..], &args("good", "now", NO_LOCK)].concat();
        let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
        assert_eq!(
            [&answer[0], &answer[1], &answer[3], &answer[4]],
            ["refused", "j", "new", "good"],
            "{key}"
        );
        assert!(answer[2].contains("WRONGTYPE"), "{answer:?}");
    }
}

#[test]
fn a_member_of_a_batch_of_the_wrong_type_is_refused_alone() {
    let scripts = Scripts::new();
    scripts.server.cmd(&["SET", BATCH, "x"]);
    let mut keys = KEYS.to_vec();
    keys.extend([
        "sf:{q}:job:good",
        "sf:{q}:unique:",
        "sf:{q}:job:good",
        "sf:{q}:steps:good",
        "sf:{q}:batch:",
    ]);
    let mut member = now();
    // The field `member`.
    member[8] = "1";
    let args = [&member[..], &args("good", "now", NO_LOCK)].concat();
    let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
    assert_eq!([&answer[0], &answer[1], &answer[3], &answer[4]], ["refused", "j", "new", "good"]);
    assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 1);
}

#[test]
fn a_holder_whose_batch_has_the_wrong_type_is_replaced() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["SET", BATCH, "x"]);
    scripts.server.cmd(&["HSET", RECORD, "batch", BATCH]);
    let (keys, args) = second("now", "replace");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
    assert_eq!((scripts.int(&["ZCARD", KEYS[1]]), scripts.int(&["XLEN", KEYS[5]])), (0, 1));
}

#[test]
fn a_replacement_is_refused_whole_if_it_may_not_end_its_holder() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("now"));
    scripts.server.cmd(&["ACL", "SETUSER", "default", "-xdel"]);
    let (keys, args) = second("now", "replace");
    let before = scripts.digest();
    let command = [&["EVAL", source("submit"), "13"][..], &keys, &args].concat();
    let answer = format!("{:?}", scripts.server.try_cmd(&command));
    assert!(answer.contains("xdel") || answer.contains("permissions"), "{answer}");
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["ACL", "SETUSER", "default", "+xdel"]);
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
}

/// Returns the packed fields of one life of the job `j`.
fn life(token: &str) -> Vec<u8> {
    let fields = [("life", token), ("type", "test"), ("id", "j")];
    let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Envelope::new(fields.into_iter()).pack(Lane::Normal)
}

#[test]
fn a_replacement_removes_the_holder_but_no_other_life_of_its_id() {
    for holder in ["j", "j#1f"] {
        let scripts = Scripts::new();
        scripts.call(source("submit"), &KEYS, &first("in"));
        // Another life of the id was delayed, and one of the two has its own name in the delayed set.
        let other = if holder == "j" { "j#2f" } else { "j" };
        scripts.server.cmd(&["DEL", KEYS[1], KEYS[2]]);
        for (member, token) in [(holder, "1f"), (other, "2f")] {
            scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", member]);
            scripts.server.cmd(&[b"HSET", KEYS[2].as_bytes(), member.as_bytes(), &life(token)]);
        }
        scripts.server.cmd(&["HSET", RECORD, "member", holder]);
        let (keys, args) = second("now", "replace");
        assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
        assert_eq!(scripts.int(&["ZCARD", KEYS[1]]), 1);
        assert_eq!(scripts.int(&["HEXISTS", KEYS[2], other]), 1, "{holder}");
    }
    // The holder is elsewhere, and another life has its place.
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&[b"HSET", KEYS[2].as_bytes(), b"j", &life("2f")]);
    let (keys, args) = second("now", "replace");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "held");
    assert_eq!(scripts.int(&["HEXISTS", KEYS[2], "j"]), 1);
}

#[test]
fn a_clock_that_was_ahead_does_not_prolong_a_records_retention() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["HSET", RECORD, "created_ms", "4000000000000", "keep_until_ms", "4000000060000"]);
    let (keys, args) = second("now", "replace");
    scripts.call(source("submit"), &keys, &args);
    let left = scripts.int(&["PTTL", RECORD]);
    assert!((1..=60_000).contains(&left), "{left} ms");
}
