//! The scripts of the steps: called twice, as by a client that got no answer the first time; called after another client was
//! faster; and on a full server.

use redis::Value;

use harness::scripts::Scripts;
use harness::scripts::attempts::{Attempt, BURY_KEYS};
use harness::scripts::keys::NOTHING;
use harness::scripts::{as_sent, jobs_args, sha, source};

const STREAM: &str = "sf:{q}:jobs";
const LEDGER: &str = "sf:{q}:steps:j";
const RECORD: &str = "sf:{q}:job:j";
const DEAD: &str = "sf:{q}:dead";
const KEYS: [&str; 2] = [STREAM, LEDGER];
/// The entry of a report that starts nothing.
const NO_ENTRY: &str = "0-0";
const DECIDE_KEYS: [&str; 12] = [
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
    NOTHING,
    "sf:{q}:audit",
];

fn begin<'a>(entry: &'a str, run: &'a str, kind: &'a str) -> [&'a str; 7] {
    [entry, "1700", run, "charge", kind, "charge once", "0"]
}

fn end<'a>(run: &'a str, state: &'a str) -> [&'a str; 13] {
    [NO_ENTRY, "1700", "charge", run, state, "1", "", "error", "no", "", "", "", ""]
}

/// The success of a run of `charge`, after which the same run starts `mail`.
fn end_and_begin<'a>(entry: &'a str, run: &'a str, kind: &'a str) -> [&'a str; 13] {
    [entry, "1700", "charge", run, "done", "1", "", "", "", "", "", "mail", kind]
}

/// Says so, and returns the answers about `charge` and `mail`.
fn ended_and_begun(scripts: &Scripts, keys: &[&str], values: &[&str]) -> [i64; 2] {
    let (ended, mut rest) = scripts.call_one(source("step_end"), keys, values);
    [ended, redis::from_redis_value(rest.remove(1)).unwrap()]
}

fn decide<'a>(version: &'a str, letter: &'a str, call: &'a str, then: &'a str) -> [&'a str; 15] {
    [version, letter, call, "charge", "done", "done", "ann", "why", then, "60000", "j", "", "60000", "17", ""]
}

fn field(scripts: &Scripts, name: &str) -> String {
    redis::from_redis_value(scripts.server.cmd(&["HGET", LEDGER, name])).unwrap_or_default()
}

/// Returns a dead letter of `j`, whose step `charge` failed in the run `1`.
fn buried(scripts: &Scripts) -> String {
    let entry = scripts.delivered();
    assert_eq!(scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "1", "once")).0, 1);
    assert_eq!(scripts.call_one(source("step_end"), &KEYS, &end("1", "failed")).0, 1);
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
fn a_run_that_has_not_read_the_ledger_starts_only_if_there_is_none() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    let [own, other] = ["1", "2"].map(|run| [&begin(&entry, run, "auto")[..6], &["1"]].concat());
    scripts.one_twice(source("step_begin"), &KEYS, &own, [1, 1]);
    scripts.one_twice(source("step_begin"), &KEYS, &other, [2, 2]);
    assert_eq!((field(&scripts, "charge:run"), field(&scripts, "v")), ("1".to_owned(), "1".to_owned()));
}

#[test]
fn a_begin_sent_twice_starts_one_run() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, "1", "once"), [1, 1]);
    assert_eq!((field(&scripts, "charge:state"), field(&scripts, "v")), ("started".into(), "1".into()));
    scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, "2", "once"), [3, 2]);
    assert_eq!(field(&scripts, "charge:state"), "unknown");
    // What the first run reports late counts, and counts once.
    scripts.one_twice(source("step_end"), &KEYS, &end("1", "failed"), [2, 1]);
    assert_eq!(
        (field(&scripts, "charge:state"), field(&scripts, "charge:noted")),
        ("failed".into(), "2".into())
    );
}

#[test]
fn an_auto_step_that_another_run_started_runs_again() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    for run in ["1", "2"] {
        scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, run, "auto"), [1, 1]);
    }
    // The first run no longer counts.
    scripts.one_twice(source("step_end"), &KEYS, &end("1", "done"), [0, 0]);
    scripts.one_twice(source("step_end"), &KEYS, &end("2", "done"), [1, 1]);
    scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, "3", "auto"), [2, 2]);
}

/// What was sent before the run ended may arrive after it.
#[test]
fn a_begin_that_arrives_after_the_end_of_its_run_starts_nothing() {
    for state in ["pending", "exhausted"] {
        let scripts = Scripts::start();
        let entry = scripts.delivered();
        let first = begin(&entry, "1", "auto");
        assert_eq!(scripts.call_one(source("step_begin"), &KEYS, &first).0, 1);
        assert_eq!(scripts.call_one(source("step_end"), &KEYS, &end("1", state)).0, 1);
        scripts.one_twice(source("step_begin"), &KEYS, &first, [0, 0]);
        assert_eq!(field(&scripts, "charge:state"), state);
        scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, "2", "auto"), [1, 1]);
    }
}

#[test]
fn an_end_that_arrives_after_the_end_of_the_next_step_starts_nothing() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "1", "once"));
    let args = end_and_begin(&entry, "1", "auto");
    assert_eq!(ended_and_begun(&scripts, &KEYS, &args), [1, 1]);
    let next = [NO_ENTRY, "1700", "mail", "1", "pending", "1", "", "error", "no", "", "", "", ""];
    assert_eq!(scripts.call_one(source("step_end"), &KEYS, &next).0, 1);
    assert_eq!(ended_and_begun(&scripts, &KEYS, &args), [1, 0]);
    assert_eq!(field(&scripts, "mail:state"), "pending");
}

#[test]
fn nothing_begins_for_a_settled_entry() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    scripts.one_twice(source("step_begin"), &KEYS, &begin(&entry, "1", "once"), [0, 0]);
    assert_eq!(scripts.int(&["EXISTS", LEDGER]), 0);
}

#[test]
fn a_ledger_that_cannot_be_written_holds_up_no_other_job_of_a_call() {
    let scripts = Scripts::start();
    let entries = [scripts.delivered(), scripts.delivered(), scripts.delivered()];
    let broken = "sf:{q}:steps:broken";
    scripts.server.cmd(&["SET", broken, "x"]);
    let keys = [STREAM, LEDGER, broken, "sf:{q}:steps:other"];
    let begins = entries.each_ref().map(|entry| begin(entry, "1", "once"));
    let answers =
        scripts.call_each(source("step_begin"), &keys, &begins.each_ref().map(|values| &values[..]));
    assert_eq!((&answers[0], &answers[2]), (&Value::Int(1), &Value::Int(1)));
    assert!(format!("{:?}", answers[1]).contains("WRONGTYPE"), "{answers:?}");
    let ends = entries.each_ref().map(|entry| end_and_begin(entry, "1", "auto"));
    let answers = scripts.call_each(source("step_end"), &keys, &ends.each_ref().map(|values| &values[..]));
    assert!(format!("{:?}", answers[1]).contains("WRONGTYPE"), "{answers:?}");
    for ledger in [keys[1], keys[3]] {
        let states = scripts.server.cmd(&["HMGET", ledger, "charge:state", "mail:state"]);
        assert_eq!(redis::from_redis_value::<[String; 2]>(states).unwrap(), ["done", "started"]);
    }
}

/// Another process may have claimed the entry meanwhile.
#[test]
fn a_report_that_starts_nothing_takes_no_entry() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "1", "once"));
    scripts.server.cmd(&["XCLAIM", STREAM, "fleet", "other", "0", &entry]);
    assert_eq!(scripts.call_one(source("step_end"), &KEYS, &end("1", "failed")).0, 1);
    let owned = scripts.server.cmd(&["XPENDING", STREAM, "fleet", "-", "+", "9", "other"]);
    assert_eq!(redis::from_redis_value::<Vec<Value>>(owned).unwrap().len(), 1);
}

#[test]
fn an_end_that_starts_the_next_step_starts_it_once() {
    for kind in ["auto", "once"] {
        let scripts = Scripts::start();
        let entry = scripts.delivered();
        scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "1", "once"));
        let args = end_and_begin(&entry, "1", kind);
        assert_eq!(ended_and_begun(&scripts, &KEYS, &args), [1, 1], "{kind}");
        let states = [field(&scripts, "charge:state"), field(&scripts, "mail:state")];
        assert_eq!((states, field(&scripts, "v")), (["done", "started"].map(str::to_owned), "2".into()));
        let between = scripts.digest();
        assert_eq!(ended_and_begun(&scripts, &KEYS, &args), [1, 1], "{kind}");
        assert_eq!(scripts.digest(), between);
        // A server that accepts no writes for now says so, although there is nothing to write.
        scripts.server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let values: Vec<&[u8]> = args.iter().map(|value| value.as_bytes()).collect();
        let sent = jobs_args("me", "normal", &[&values]);
        let sha = sha(&scripts.server, source("step_end"));
        let mut call: Vec<&[u8]> = [b"EVALSHA", sha.as_bytes(), b"2"].to_vec();
        call.extend(KEYS.map(str::as_bytes));
        call.extend(sent.iter().map(Vec::as_slice));
        let refused = scripts.server.try_cmd(&call);
        assert!(format!("{refused:?}").contains("NOREPLICAS"), "{refused:?}");
    }
}

#[test]
fn an_end_that_is_late_or_stale_starts_no_other_step() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    for run in ["1", "2"] {
        scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, run, "once"));
    }
    let stale = end_and_begin(&entry, "2", "auto");
    assert_eq!(ended_and_begun(&scripts, &KEYS, &stale), [0, -1]);
    let late = end_and_begin(&entry, "1", "auto");
    assert_eq!(ended_and_begun(&scripts, &KEYS, &late), [2, -1]);
    assert_eq!([field(&scripts, "charge:state"), field(&scripts, "mail:state")], ["done", ""]);
}

#[test]
fn an_end_is_noted_though_the_next_step_may_not_start() {
    let other = "sf:{q}:other";
    let cases = [
        // Another process has settled the entry.
        (STREAM, "", [1, 0], ""),
        // The lane cannot be read.
        (other, "", [1, -1], ""),
        // Another run has started it.
        (STREAM, "started", [1, 3], "unknown"),
        (STREAM, "given_up", [1, 2], "given_up"),
    ];
    for (stream, state, want, after) in cases {
        let scripts = Scripts::start();
        let entry = scripts.delivered();
        scripts.server.cmd(&["SET", other, "x"]);
        scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "1", "once"));
        if state.is_empty() {
            scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
        } else {
            scripts.server.cmd(&["HSET", LEDGER, "mail:state", state, "mail:run", "0"]);
        }
        let args = end_and_begin(&entry, "1", "once");
        assert_eq!(ended_and_begun(&scripts, &[stream, LEDGER], &args), want, "{stream} {state}");
        assert_eq!([field(&scripts, "charge:state"), field(&scripts, "mail:state")], ["done", after]);
    }
}

#[test]
fn a_decision_that_is_sent_twice_is_taken_once() {
    for (then, status) in [("stay", 1), ("replay", 2), ("done", 3)] {
        let scripts = Scripts::start();
        let letter = buried(&scripts);
        let args = decide("2", &letter, "a", then);
        scripts.twice(source("decide"), &DECIDE_KEYS, &args, [status, status]);
        assert_eq!(["charge:state", "charge:result"].map(|name| field(&scripts, name)), ["done", "17"]);
        let left = (scripts.int(&["XLEN", DEAD]), scripts.int(&["XLEN", STREAM]));
        assert_eq!(left, [(1, 0), (0, 1), (0, 0)][status as usize - 1]);
    }
}

#[test]
fn a_decision_based_on_stale_state_changes_nothing() {
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    scripts.twice(source("decide"), &DECIDE_KEYS, &decide("1", &letter, "a", "replay"), [0, 0]);
    scripts.twice(source("decide"), &DECIDE_KEYS, &decide("2", "1-1", "b", "replay"), [0, 0]);
    assert_eq!(scripts.call(source("decide"), &DECIDE_KEYS, &decide("2", &letter, "c", "replay")).0, 2);
    // The run that was decided on is over, whatever its worker reports.
    scripts.one_twice(source("step_end"), &KEYS, &end("1", "unknown"), [0, 0]);
    assert_eq!(field(&scripts, "charge:state"), "done");
}

#[test]
fn a_full_server_accepts_step_results_and_refuses_decisions_whole() {
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    let entry = scripts.delivered();
    let other = [&entry, "1700", "5", "mail", "once", "charge once\nmail once", "0"];
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    scripts.one_twice(source("step_begin"), &KEYS, &other, [1, 1]);
    let ended = [&entry, "1700", "mail", "5", "done", "1", "", "", "", "\"receipt\"", "", "pack", "auto"];
    scripts.one_twice(source("step_end"), &KEYS, &ended, [1, 1]);
    assert_eq!(
        (field(&scripts, "mail:state"), field(&scripts, "mail:result")),
        ("done".into(), "\"receipt\"".into())
    );
    assert_eq!(field(&scripts, "pack:state"), "started");
    let before = scripts.digest();
    let version = field(&scripts, "v");
    let args = decide(&version, &letter, "a", "replay");
    let sha = sha(&scripts.server, source("decide"));
    let head = ["EVALSHA", &sha, "12"].into_iter().chain(DECIDE_KEYS);
    let refused = scripts.server.try_cmd(&head.chain(args).collect::<Vec<_>>());
    assert!(format!("{refused:?}").contains("OOM"), "{refused:?}");
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts.call(source("decide"), &DECIDE_KEYS, &args).0, 2);
}

#[test]
fn a_decision_changes_nothing_if_its_lane_has_the_wrong_type() {
    for (then, status) in [("replay", 2), ("done", 3)] {
        let scripts = Scripts::start();
        let letter = buried(&scripts);
        scripts.server.cmd(&["DEL", STREAM]);
        scripts.server.cmd(&["SET", STREAM, "x"]);
        let before = scripts.server.cmd(&["DEBUG", "DIGEST"]);
        let args = decide("2", &letter, "a", then);
        let script = as_sent(source("decide"));
        let head = ["EVAL", &script, "12"].into_iter().chain(DECIDE_KEYS);
        let refused = scripts.server.try_cmd(&head.chain(args).collect::<Vec<_>>());
        assert!(format!("{refused:?}").contains("WRONGTYPE"), "{refused:?}");
        assert_eq!(scripts.server.cmd(&["DEBUG", "DIGEST"]), before, "{then}");
        scripts.server.cmd(&["DEL", STREAM]);
        assert_eq!(scripts.call(source("decide"), &DECIDE_KEYS, &args).0, status);
    }
}

#[test]
fn a_lookup_changes_nothing() {
    let scripts = Scripts::start();
    let letter = buried(&scripts);
    let before = scripts.digest();
    let (now, rest) = scripts.call(source("steps"), &[LEDGER, RECORD], &["", ""]);
    assert!(now > 0);
    assert_eq!(rest[2], Value::BulkString(letter.into_bytes()));
    assert_eq!(scripts.digest(), before);
}

#[test]
fn a_letters_finished_steps_stay_done_though_another_generation_has_begun_them() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    for (run, state) in [("1", "pending"), ("2", "pending")] {
        assert_eq!(scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, run, "auto")).0, 1);
        assert_eq!(scripts.call_one(source("step_end"), &KEYS, &end(run, state)).0, 1);
    }
    // The ledger of the generation that ended in the letter was gone by then.
    let told = ["charge=done mail=exhausted", "charge once"];
    for _ in 0..2 {
        scripts.call(source("steps"), &[LEDGER, RECORD], &told);
        let states = ["charge:state", "mail:state"].map(|name| field(&scripts, name));
        assert_eq!(states, ["done".to_owned(), String::new()]);
    }
    assert_eq!(scripts.call_one(source("step_begin"), &KEYS, &begin(&entry, "3", "auto")).0, 2);
}

#[test]
fn jobs_of_many_steps_are_buried_few_at_a_time() {
    const STEPS: usize = 64;
    let scripts = Scripts::start();
    let plan: String = (0..STEPS).map(|nth| format!("step{nth} auto\n")).collect();
    let jobs: Vec<(String, String)> = (0..20).map(|nth| (scripts.delivered(), format!("j{nth}"))).collect();
    for (nth, (_, id)) in jobs.iter().enumerate() {
        // Every fourth job has no steps.
        if nth % 4 < 3 {
            scripts.server.cmd(&[
                "HSET",
                &format!("sf:{{q}}:steps:{id}"),
                "plan",
                &plan,
                "step0:state",
                "done",
            ]);
        }
    }
    let bury = |some: &[(String, String)]| -> Vec<i64> {
        let mut keys: Vec<String> = BURY_KEYS[..4].iter().map(|key| (*key).to_owned()).collect();
        let mut values = Vec::new();
        for (entry, id) in some {
            let own = ["job:", "unique:", "batch:", "steps:"].map(|kind| match kind {
                "job:" | "steps:" => format!("sf:{{q}}:{kind}{id}"),
                none => format!("sf:{{q}}:{none}"),
            });
            keys.extend(own.into_iter().chain([NOTHING.to_owned(), NOTHING.to_owned()]));
            values.push(Attempt { id, generation: entry, ..Attempt::first(entry) }.bury_values());
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let values: Vec<&[Vec<u8>]> = values.iter().map(Vec::as_slice).collect();
        let answers = scripts.call_each(source("bury"), &keys, &values);
        answers.into_iter().map(|answer| redis::from_redis_value(answer).unwrap()).collect()
    };
    let (mut left, mut calls) = (jobs, 0);
    while !left.is_empty() {
        let answers = bury(&left);
        let with_steps = |nth: &usize| left[*nth].1[1..].parse::<usize>().unwrap() % 4 < 3;
        let buried = |nth: &usize| answers[*nth] == 1;
        assert!(answers[0] == 1 && answers.iter().all(|answer| [1, 5].contains(answer)), "{answers:?}");
        assert!((0..left.len()).filter(buried).filter(with_steps).count() <= 2, "{answers:?}");
        assert!((0..left.len()).filter(|nth| !with_steps(nth)).all(|nth| answers[nth] == 1), "{answers:?}");
        left = left.into_iter().zip(answers).filter(|(_, answer)| *answer == 5).map(|(job, _)| job).collect();
        calls += 1;
    }
    assert_eq!((calls, scripts.int(&["XLEN", DEAD])), (8, 20));
}
