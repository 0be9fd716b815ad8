//! The scripts that accept jobs with ids: called twice, and on a full server.

use redis::Value;
use streamfleet::job::{Envelope, Lane};

use harness::scripts::Scripts;
use harness::scripts::{as_sent, source};

pub(super) const RECORD: &str = "sf:{q}:job:j";
const LOCK: &str = "sf:{q}:unique:k";
const BATCH: &str = "sf:{q}:batch:b";
const RECEIPT: &str = "sf:{q}:receipt:first";

/// A job's packed fields in the delayed set, as a client read them.
pub(super) const PACKED: &str = "<1700000000000>";

pub(super) const KEYS: [&str; 13] = [
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
pub(super) fn args(id: &'static str, when: &'static str, lock: [&'static str; 5]) -> Vec<&'static str> {
    let [key, scope, ms, mode, holder] = lock;
    let [read, wanted] = if holder.is_empty() { ["", ""] } else { [PACKED, "new"] };
    let mut args = vec![id, "1f", "normal", "test", when, "60000", "60000", "", key, scope, ms, mode, holder];
    args.extend(["", "", "", read, wanted, ""]);
    args.extend(if when == "now" { vec!["4", "type", "test", "id", id] } else { vec!["2", "<", ">"] });
    args
}

pub(super) const NO_LOCK: [&str; 5] = ["", "", "0", "", ""];

pub(super) fn verdicts(answer: Vec<Value>) -> Vec<String> {
    answer.into_iter().map(|item| redis::from_redis_value(item).unwrap()).collect()
}

/// The scripts that accept jobs with nothing but their ids.
const BOTH: [&str; 2] = ["accept", "submit"];

/// A call of one of them.
struct Call {
    source: &'static str,
    keys: Vec<String>,
    args: Vec<String>,
}

impl Call {
    /// A call about these jobs: for each its id, and `now` or `in` a minute.
    fn new(script: &str, receipt: &str, jobs: &[[&str; 2]]) -> Self {
        let mut keys: Vec<String> = KEYS[..7].iter().map(|key| (*key).to_owned()).collect();
        keys.push(format!("sf:{{q}}:receipt:{receipt}"));
        let mut args = vec![String::new()];
        for &[id, when] in jobs {
            keys.push(format!("sf:{{q}}:job:{id}"));
            args.extend([id, "1f", "normal", "test", when, "60000", "60000"].map(str::to_owned));
            if script == "submit" {
                keys.extend(["sf:{q}:unique:", RECORD, "sf:{q}:steps:j", "sf:{q}:batch:"].map(str::to_owned));
                args.extend(["", "", "", "0", "", "", "", "", "", "", ""].map(str::to_owned));
            }
            args.push(String::new());
            let fields =
                if when == "now" { vec!["4", "type", "test", "id", id] } else { vec!["2", "<", ">"] };
            args.extend(fields.into_iter().map(str::to_owned));
        }
        Self { source: source(script), keys, args }
    }

    fn keys(&self) -> Vec<&str> {
        self.keys.iter().map(String::as_str).collect()
    }

    fn run(&self, scripts: &Scripts) -> (i64, Vec<String>) {
        let (status, rest) = scripts.call(self.source, &self.keys(), &self.args);
        (status, verdicts(rest))
    }

    fn run_twice(&self, scripts: &Scripts, want: i64) {
        scripts.twice(self.source, &self.keys(), &self.args, [want, want]);
    }

    /// Runs it on a server that refuses it. Returns the error.
    fn refused(&self, scripts: &Scripts) -> String {
        let (source, count) = (as_sent(self.source), self.keys.len().to_string());
        let head = ["EVAL", &source, &count].into_iter().chain(self.keys());
        let command: Vec<&str> = head.chain(self.args.iter().map(String::as_str)).collect();
        format!("{:?}", scripts.server.try_cmd(&command))
    }
}

#[test]
fn a_job_with_an_id_sent_twice_is_accepted_once() {
    for script in BOTH {
        for (when, [waiting, delayed]) in [("now", [1, 0]), ("in", [0, 1])] {
            let scripts = Scripts::start();
            Call::new(script, "first", &[["j", when]]).run_twice(&scripts, 1);
            let found = [["XLEN", KEYS[5]], ["ZCARD", KEYS[1]], ["HLEN", KEYS[2]]];
            assert_eq!(found.map(|command| scripts.int(&command)), [waiting, delayed, delayed], "{script}");
        }
    }
}

#[test]
fn both_scripts_write_the_same_record() {
    for when in ["now", "in"] {
        let records = BOTH.map(|script| {
            let scripts = Scripts::start();
            Call::new(script, "first", &[["j", when]]).run(&scripts);
            let read = |command: &[&str]| -> Vec<String> {
                redis::from_redis_value(scripts.server.cmd(command)).unwrap()
            };
            let mut names = read(&["HKEYS", RECORD]);
            names.sort();
            let times = ["created_ms", "keep_until_ms"].map(|name| scripts.int(&["HSTRLEN", RECORD, name]));
            (names, read(&["HMGET", RECORD, "state", "life", "type", "lane"]), times)
        });
        assert_eq!(records[0], records[1], "{when}");
        assert_eq!(records[0].2, [13, 13]);
    }
}

#[test]
fn a_job_twice_in_one_call_is_accepted_once() {
    for script in BOTH {
        let scripts = Scripts::start();
        let answer = Call::new(script, "first", &[["j", "now"], ["j", "in"]]).run(&scripts);
        let want = ["new", "j", "waiting", "known", "j", "waiting"].map(str::to_owned).to_vec();
        assert_eq!(answer, (2, want), "{script}");
        assert_eq!((scripts.int(&["XLEN", KEYS[5]]), scripts.int(&["ZCARD", KEYS[1]])), (1, 0));
    }
}

#[test]
fn a_delayed_job_without_a_record_is_known_by_its_id() {
    for script in BOTH {
        let scripts = Scripts::start();
        scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", "j"]);
        scripts.server.cmd(&["HSET", KEYS[2], "j", "packed"]);
        let (_, answer) = Call::new(script, "first", &[["j", "now"]]).run(&scripts);
        assert_eq!(answer, ["known", "j", "scheduled"]);
        assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 0);
    }
}

#[test]
fn a_known_job_is_answered_with_its_state() {
    let states = [
        ("running", "running"),
        ("dead", "dead"),
        ("scheduled", "waiting"),
        // It is in the delayed set, as another member than its id.
        ("retrying", "retrying"),
    ];
    for script in BOTH {
        for (state, want) in states {
            let scripts = Scripts::start();
            scripts.server.cmd(&["HSET", RECORD, "state", state]);
            if state == "retrying" {
                scripts.server.cmd(&["HSET", RECORD, "member", "j#1f"]);
                scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", "j#1f"]);
            }
            let before = scripts.digest();
            let (_, answer) = Call::new(script, "first", &[["j", "now"]]).run(&scripts);
            assert_eq!(answer, ["known", "j", want], "{script} {state}");
            assert_eq!(scripts.digest(), before);
        }
    }
}

#[test]
fn a_known_job_runs_while_its_entry_is_pending() {
    for script in BOTH {
        let scripts = Scripts::start();
        let entry = scripts.delivered();
        scripts.server.cmd(&["HSET", RECORD, "state", "waiting", "lane", "normal", "entry", &entry]);
        let call = Call::new(script, "first", &[["j", "now"]]);
        assert_eq!(call.run(&scripts).1, ["known", "j", "running"], "{script}");
        scripts.server.cmd(&["XACK", KEYS[5], "fleet", &entry]);
        assert_eq!(call.run(&scripts).1, ["known", "j", "waiting"], "{script}");
    }
}

#[test]
fn a_full_server_refuses_jobs_with_ids_whole() {
    for script in BOTH {
        for when in ["now", "in"] {
            let scripts = Scripts::start();
            scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
            let before = scripts.digest();
            let answer = Call::new(script, "first", &[["j", when]]).refused(&scripts);
            assert!(answer.contains("OOM"), "{answer}");
            assert_eq!(scripts.digest(), before);
        }
    }
}

#[test]
fn a_queue_key_of_another_type_refuses_jobs_with_ids_whole() {
    for key in [KEYS[1], KEYS[2]] {
        let scripts = Scripts::start();
        scripts.server.cmd(&["SET", key, "x"]);
        let before = scripts.digest();
        let answer = Call::new("accept", "first", &[["j", "now"], ["k", "in"]]).refused(&scripts);
        assert!(answer.contains("WRONGTYPE"), "{key}: {answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_queue_at_its_limit_accepts_only_known_jobs() {
    for script in BOTH {
        let scripts = Scripts::start();
        scripts.server.cmd(&["HSET", KEYS[0], "max_depth", "1"]);
        Call::new(script, "first", &[["j", "now"]]).run_twice(&scripts, 1);
        Call::new(script, "k", &[["k", "now"]]).run_twice(&scripts, -1);
        let (_, answer) = Call::new(script, "again", &[["j", "now"]]).run(&scripts);
        assert_eq!(answer, ["known", "j", "waiting"], "{script}");
    }
}

#[test]
fn a_job_whose_record_is_of_another_type_is_refused_alone() {
    for script in BOTH {
        let scripts = Scripts::start();
        scripts.server.cmd(&["LPUSH", RECORD, "x"]);
        let (_, answer) = Call::new(script, "first", &[["j", "now"], ["good", "now"]]).run(&scripts);
        assert_eq!([&answer[0], &answer[1], &answer[3], &answer[4]], ["refused", "j", "new", "good"]);
        assert!(answer[2].contains("WRONGTYPE"), "{answer:?}");
    }
}

/// Keys and arguments for the second job of the key `k`, whose holder `j` is known.
pub(super) fn second(when: &'static str, mode: &'static str) -> ([&'static str; 13], Vec<&'static str>) {
    let mut keys = KEYS;
    (keys[7], keys[8]) = ("sf:{q}:receipt:second", "sf:{q}:job:second");
    (keys, [vec![""], args("second", when, ["k", "running", "0", mode, "j"])].concat())
}

pub(super) fn first(when: &'static str) -> Vec<&'static str> {
    [vec![""], args("j", when, ["k", "running", "0", "reject", ""])].concat()
}

#[test]
fn a_replacement_sent_twice_happens_once() {
    for when in ["now", "in"] {
        let scripts = Scripts::start();
        scripts.twice(source("submit"), &KEYS, &first(when), [1, 1]);
        let (keys, args) = second("now", "replace");
        scripts.twice(source("submit"), &keys, &args, [1, 1]);
        assert_eq!((scripts.int(&["XLEN", KEYS[5]]), scripts.int(&["ZCARD", KEYS[1]])), (1, 0));
        let holder: String = redis::from_redis_value(scripts.server.cmd(&["GET", LOCK])).unwrap();
        assert_eq!((holder.as_str(), scripts.state()), ("second", "cancelled".to_owned()));
        assert!(scripts.int(&["PTTL", RECORD]) > 259_000_000, "it is kept for 3 days");
    }
}

#[test]
fn a_campaign_counts_a_replaced_job_as_cancelled_once() {
    const CAMPAIGN: &str = "sf:{q}:campaign:c";
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("now"));
    scripts.server.cmd(&["HSET", CAMPAIGN, "state", "running"]);
    let replayed = scripts.server.cmd(&["XADD", KEYS[5], "*", "type", "t", "campaign", "c 00ff 1"]);
    let replayed: String = redis::from_redis_value(replayed).unwrap();
    scripts.server.cmd(&["HSET", RECORD, "entry", &replayed, "life", &replayed]);
    scripts.server.cmd(&["HSET", CAMPAIGN, &format!("l:{replayed}"), "1"]);
    let (keys, args) = second("now", "replace");
    scripts.twice(source("submit"), &keys, &args, [1, 1]);
    assert_eq!(scripts.int(&["HGET", CAMPAIGN, "cancelled"]), 1);
    assert_eq!(scripts.int(&["HEXISTS", CAMPAIGN, &format!("l:{replayed}")]), 0);
}

#[test]
fn a_job_rejected_or_with_an_unknown_holder_changes_nothing() {
    let scripts = Scripts::start();
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
        let scripts = Scripts::start();
        scripts.call(source("submit"), &KEYS, &first("in"));
        scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
        scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = scripts.digest();
        let (keys, args) = second("in", mode);
        let submit = as_sent(source("submit"));
        let mut command = vec!["EVAL", &submit, "13"];
        command.extend(keys);
        command.extend(args);
        let answer = format!("{:?}", scripts.server.try_cmd(&command));
        assert!(answer.contains("OOM"), "{answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_lock_is_stale_if_its_holder_is_gone_ended_or_another_generation() {
    let leave: [&[&str]; 5] = [
        &["DEL", RECORD],
        &["HSET", RECORD, "state", "done"],
        &["HSET", RECORD, "state", "dead"],
        &["HSET", RECORD, "state", "cancelled"],
        &["HDEL", RECORD, "unique"],
    ];
    for command in leave {
        let scripts = Scripts::start();
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
        let scripts = Scripts::start();
        let call = Call::new("accept", "first", &[["j", when]]);
        let args: Vec<&str> = call.args.iter().map(String::as_str).collect();
        let answer = same(&scripts, call.source, &call.keys(), &args);
        assert_eq!(verdicts(answer), ["new", "j", if when == "now" { "waiting" } else { "scheduled" }]);
        let scripts = Scripts::start();
        let answer = same(&scripts, source("submit"), &KEYS, &first(when));
        assert_eq!(verdicts(answer), ["new", "j", if when == "now" { "waiting" } else { "scheduled" }]);
    }
    for mode in ["replace", "debounce"] {
        let scripts = Scripts::start();
        scripts.call(source("submit"), &KEYS, &first("in"));
        scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
        let (keys, args) = second("in", mode);
        let answer = same(&scripts, source("submit"), &keys, &args);
        assert_eq!(verdicts(answer)[0], format!("{mode}d"));
    }
}

#[test]
fn a_delayed_job_whose_reply_was_lost_is_not_scheduled_again() {
    let scripts = Scripts::start();
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
        let scripts = Scripts::start();
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
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["HSET", KEYS[2], "j", PACKED]);
    scripts.server.cmd(&["HSET", RECORD, "type", "other"]);
    let (keys, args) = second("in", "debounce");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1), ["held", "j", "scheduled"]);
}

#[test]
fn a_job_whose_lock_is_of_another_type_is_refused_alone() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["LPUSH", LOCK, "x"]);
    let mut keys = KEYS.to_vec();
    keys.extend(["sf:{q}:job:good", "sf:{q}:unique:", "sf:{q}:job:good", "sf:{q}:steps:good", BATCH]);
    let args = [&first("now")[..], &args("good", "now", NO_LOCK)].concat();
    let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
    assert_eq!([&answer[0], &answer[1], &answer[3], &answer[4]], ["refused", "j", "new", "good"]);
    assert!(answer[2].contains("WRONGTYPE"), "{answer:?}");
}

#[test]
fn a_member_of_a_batch_of_the_wrong_type_is_refused_alone() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["SET", BATCH, "x"]);
    let good = ["sf:{q}:job:good", "sf:{q}:unique:", "sf:{q}:job:good", "sf:{q}:steps:good", "sf:{q}:batch:"];
    let keys = [&KEYS[..], &good].concat();
    let mut member = args("j", "now", NO_LOCK);
    member[7] = "1";
    let args = [&[""][..], &member, &args("good", "now", NO_LOCK)].concat();
    let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
    assert_eq!([&answer[0], &answer[1], &answer[3], &answer[4]], ["refused", "j", "new", "good"]);
}

#[test]
fn a_holder_whose_batch_has_the_wrong_type_is_replaced() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["SET", BATCH, "x"]);
    scripts.server.cmd(&["HSET", RECORD, "batch", BATCH]);
    let (keys, args) = second("now", "replace");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
    assert_eq!((scripts.int(&["ZCARD", KEYS[1]]), scripts.int(&["XLEN", KEYS[5]])), (0, 1));
}

#[test]
fn a_replacement_is_refused_whole_if_it_may_not_end_its_holder() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("now"));
    scripts.server.cmd(&["ACL", "SETUSER", "default", "-xdel"]);
    let ((keys, args), before) = (second("now", "replace"), scripts.digest());
    let mut submitter = redis::Client::open(scripts.server.url()).unwrap().get_connection().unwrap();
    let mut command = redis::cmd("EVAL");
    command.arg(&*as_sent(source("submit"))).arg(keys.len()).arg(&keys[..]).arg(&args);
    let refused = command.query::<Value>(&mut submitter).unwrap_err().to_string();
    let words = ["can't run this command", "ACL failure"];
    assert!(words.iter().any(|words| refused.contains(words)), "{refused}");
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["ACL", "SETUSER", "default", "+xdel"]);
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
}

/// Returns the packed fields of one generation of the job `j`.
fn generation(token: &str) -> Vec<u8> {
    let fields = [("life", token), ("type", "test"), ("id", "j")];
    let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    Envelope::new(fields.into_iter()).pack(Lane::Normal)
}

#[test]
fn a_replacement_removes_the_holder_but_no_other_generation_of_its_id() {
    for holder in ["j", "j#1f"] {
        let scripts = Scripts::start();
        scripts.call(source("submit"), &KEYS, &first("in"));
        // Another generation of the id was delayed, and one of the two has its own name in the delayed set.
        let other = if holder == "j" { "j#2f" } else { "j" };
        scripts.server.cmd(&["DEL", KEYS[1], KEYS[2]]);
        for (member, token) in [(holder, "1f"), (other, "2f")] {
            scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", member]);
            scripts.server.cmd(&[b"HSET", KEYS[2].as_bytes(), member.as_bytes(), &generation(token)]);
        }
        scripts.server.cmd(&["HSET", RECORD, "member", holder]);
        let (keys, args) = second("now", "replace");
        assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
        assert_eq!(scripts.int(&["ZCARD", KEYS[1]]), 1);
        assert_eq!(scripts.int(&["HEXISTS", KEYS[2], other]), 1, "{holder}");
    }
    // The holder is elsewhere, and another generation has its place.
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&[b"HSET", KEYS[2].as_bytes(), b"j", &generation("2f")]);
    let (keys, args) = second("now", "replace");
    assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "held");
    assert_eq!(scripts.int(&["HEXISTS", KEYS[2], "j"]), 1);
}

#[test]
fn a_clock_that_was_ahead_does_not_prolong_a_records_retention() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["HSET", RECORD, "created_ms", "4000000000000", "keep_until_ms", "4000000060000"]);
    let (keys, args) = second("now", "replace");
    scripts.call(source("submit"), &keys, &args);
    assert!((1..=259_200_000).contains(&scripts.int(&["PTTL", RECORD])));
}
