//! The scripts of the steps: called twice, as by a client that got no answer the first time; called after another client was
//! faster; and on a full server.

use redis::Value;

use crate::harness::scripts::source;
use crate::traps::scripts::{NOTHING, Scripts};

const STREAM: &str = "sf:{q}:jobs";
const LEDGER: &str = "sf:{q}:steps:j";
const RECORD: &str = "sf:{q}:job:j";
const DEAD: &str = "sf:{q}:dead";
const BEGIN_KEYS: [&str; 2] = [STREAM, LEDGER];
const DECIDE_KEYS: [&str; 10] = [
    LEDGER,
    RECORD,
    DEAD,
    "sf:{q}:jobs:high",
    STREAM,
    "sf:{q}:jobs:low",
    "sf:{q}:unique:",
    "sf:{q}:batch:",
    STREAM,
    NOTHING,
];

fn begin<'a>(entry: &'a str, run: &'a str, kind: &'a str) -> [&'a str; 7] {
    ["me", entry, run, "charge", kind, "1700", "charge once"]
}

fn end<'a>(run: &'a str, state: &'a str) -> [&'a str; 10] {
    ["charge", run, state, "1", "", "error", "no", "", "", "1700"]
}

fn decide<'a>(version: &'a str, letter: &'a str, call: &'a str, then: &'a str) -> [&'a str; 12] {
    [version, letter, call, "charge", "done", "done", "ann", "why", then, "60000", "j", ""]
}

fn field(scripts: &Scripts, name: &str) -> String {
    redis::from_redis_value(scripts.server.cmd(&["HGET", LEDGER, name])).unwrap_or_default()
}

/// Returns a dead letter of `j`, whose step `charge` failed in the run `1`.
fn buried(scripts: &Scripts) -> String {
    let entry = scripts.delivered();
    assert_eq!(scripts.call(source("step_begin"), &BEGIN_KEYS, &begin(&entry, "1", "once")).0, 1);
    assert_eq!(scripts.call(source("step_end"), &[LEDGER], &end("1", "failed")).0, 1);
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    scripts.server.cmd(&["XDEL", STREAM, &entry]);
    let add = [
        "XADD",
        DEAD,
        "*",
        "type",
        "gift",
        "id",
        "j",
        "dead_reason",
        "needs_decision",
        "dead_origin",
        "normal",
    ];
    let letter: String = redis::from_redis_value(scripts.server.cmd(&add)).unwrap();
    scripts.server.cmd(&["HSET", RECORD, "state", "dead", "dead_id", &letter]);
    letter
}

#[test]
fn a_begin_sent_twice_starts_one_run() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.twice(source("step_begin"), &BEGIN_KEYS, &begin(&entry, "1", "once"), [1, 1]);
    assert_eq!((field(&scripts, "charge:state"), field(&scripts, "v")), ("started".into(), "1".into()));
    scripts.twice(source("step_begin"), &BEGIN_KEYS, &begin(&entry, "2", "once"), [3, 2]);
    assert_eq!(field(&scripts, "charge:state"), "unknown");
    // What the first run reports late counts, and counts once.
    scripts.twice(source("step_end"), &[LEDGER], &end("1", "failed"), [2, 1]);
    assert_eq!(
        (field(&scripts, "charge:state"), field(&scripts, "charge:noted")),
        ("failed".into(), "2".into())
    );
}

#[test]
fn an_auto_step_that_another_run_started_runs_again() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    for run in ["1", "2"] {
        scripts.twice(source("step_begin"), &BEGIN_KEYS, &begin(&entry, run, "auto"), [1, 1]);
    }
    // The first run no longer counts.
    scripts.twice(source("step_end"), &[LEDGER], &end("1", "done"), [0, 0]);
    scripts.twice(source("step_end"), &[LEDGER], &end("2", "done"), [1, 1]);
    scripts.twice(source("step_begin"), &BEGIN_KEYS, &begin(&entry, "3", "auto"), [2, 2]);
}

#[test]
fn nothing_begins_for_a_settled_entry() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    scripts.twice(source("step_begin"), &BEGIN_KEYS, &begin(&entry, "1", "once"), [0, 0]);
    assert_eq!(scripts.int(&["EXISTS", LEDGER]), 0);
}

#[test]
fn a_decision_that_is_sent_twice_is_taken_once() {
    for (then, status) in [("stay", 1), ("replay", 2), ("done", 3)] {
        let scripts = Scripts::new();
        let letter = buried(&scripts);
        let args = decide("2", &letter, "a", then);
        scripts.twice(source("decide"), &DECIDE_KEYS, &args, [status, status]);
        assert_eq!(field(&scripts, "charge:state"), "done");
        let left = (scripts.int(&["XLEN", DEAD]), scripts.int(&["XLEN", STREAM]));
        assert_eq!(left, [(1, 0), (0, 1), (0, 0)][status as usize - 1]);
    }
}

#[test]
fn a_decision_based_on_stale_state_changes_nothing() {
    let scripts = Scripts::new();
    let letter = buried(&scripts);
    scripts.twice(source("decide"), &DECIDE_KEYS, &decide("1", &letter, "a", "replay"), [0, 0]);
    scripts.twice(source("decide"), &DECIDE_KEYS, &decide("2", "1-1", "b", "replay"), [0, 0]);
    assert_eq!(scripts.call(source("decide"), &DECIDE_KEYS, &decide("2", &letter, "c", "replay")).0, 2);
    // The run that was decided on is over, whatever its worker reports.
    scripts.twice(source("step_end"), &[LEDGER], &end("1", "unknown"), [0, 0]);
    assert_eq!(field(&scripts, "charge:state"), "done");
}

#[test]
fn a_full_server_accepts_step_results_and_refuses_decisions_whole() {
    let scripts = Scripts::new();
    let letter = buried(&scripts);
    let entry = scripts.delivered();
    let other = |run| [&["me", &entry, run, "mail", "once", "1700", "charge once\nmail once"][..]].concat();
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    scripts.twice(source("step_begin"), &BEGIN_KEYS, &other("5"), [1, 1]);
    let ended = ["mail", "5", "done", "1", "", "", "", "\"receipt\"", "", "1700"];
    scripts.twice(source("step_end"), &[LEDGER], &ended, [1, 1]);
    assert_eq!(
        (field(&scripts, "mail:state"), field(&scripts, "mail:result")),
        ("done".into(), "\"receipt\"".into())
    );
    let before = scripts.digest();
    let version = field(&scripts, "v");
    let args = decide(&version, &letter, "a", "replay");
    let sha: String =
        redis::from_redis_value(scripts.server.cmd(&["SCRIPT", "LOAD", source("decide")])).unwrap();
    let head = ["EVALSHA", &sha, "10"].into_iter().chain(DECIDE_KEYS);
    let refused = scripts.server.try_cmd(&head.chain(args).collect::<Vec<_>>());
    assert!(format!("{refused:?}").contains("OOM"), "{refused:?}");
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts.call(source("decide"), &DECIDE_KEYS, &args).0, 2);
}

#[test]
fn a_lookup_changes_nothing() {
    let scripts = Scripts::new();
    let letter = buried(&scripts);
    let before = scripts.digest();
    let (now, rest) = scripts.call(source("steps"), &[LEDGER, RECORD], &["", ""]);
    assert!(now > 0);
    assert_eq!(rest[2], Value::BulkString(letter.into_bytes()));
    assert_eq!(scripts.digest(), before);
}
