//! The scripts for running jobs, called twice, late, and on a full server.

use redis::Value;

use harness::redis_server::RedisServer;
use harness::scripts::attempts::{Attempt, BEGIN_KEYS, BURY_KEYS, CANCELLED_KEYS, DEFER_KEYS, RELEASE_KEYS};
use harness::scripts::keys::NOTHING;
use harness::scripts::{answers, as_sent, jobs_args, only_answer, reply, source};

const STREAM: &str = "sf:{q}:jobs";
const RECORD: &str = "sf:{q}:job:j";
const DELAYED: &str = "sf:{q}:delayed";
const CANCELS: &str = "sf:{q}:cancels";
const PLACES: &str = "sf:{q}:cancels:places";
const CREATED: &str = "1700000000000";
const GENERATION: &str = "1650000000000-0";

/// A server with a group on its stream.
struct Scripts {
    server: RedisServer,
}

impl Scripts {
    fn new() -> Self {
        let server = RedisServer::builder().args(&["--enable-debug-command", "local"]).start();
        server.cmd(&["XGROUP", "CREATE", STREAM, "fleet", "0", "MKSTREAM"]);
        Self { server }
    }

    fn call(&self, source: &str, keys: &[&str], args: &[&str]) -> i64 {
        let (sent, count) = (as_sent(source), keys.len().to_string());
        let command = [&["EVAL", &*sent, &count], keys, args].concat();
        match self.server.cmd(&command) {
            Value::Array(items) => redis::from_redis_value(items[0].clone()).unwrap(),
            other => panic!("the answer is {other:?}"),
        }
    }

    /// Lets `me` call a script that handles several jobs per call about one job. Returns the status of its answer.
    fn call_one(&self, source: &str, keys: &[&str], values: &[Vec<u8>]) -> i64 {
        let args = jobs_args("me", "normal", &[values]);
        only_answer(answers(reply(&self.server, source, keys, &args))).0
    }

    fn digest(&self) -> Vec<Value> {
        vec![self.server.cmd(&["DEBUG", "DIGEST"]), self.server.cmd(&["XPENDING", STREAM, "fleet"])]
    }

    /// An entry that is pending for the consumer `me`.
    fn delivered(&self) -> String {
        let added = self.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j"]);
        self.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", STREAM, ">"]);
        redis::from_redis_value(added).unwrap()
    }

    fn int(&self, command: &[&str]) -> i64 {
        redis::from_redis_value(self.server.cmd(command)).unwrap()
    }

    fn field(&self, name: &str) -> Option<String> {
        redis::from_redis_value(self.server.cmd(&["HGET", RECORD, name])).unwrap()
    }

    /// Lets `me` report on an entry.
    fn report(&self, args: &[&str]) -> i64 {
        self.call(source("report"), &[STREAM, RECORD], args)
    }
}

/// Progress as the third report, then log lines as the fourth and fifth.
fn said<'a>(consumer: &'a str, entry: &'a str) -> [&'a str; 17] {
    [
        consumer, "60000", entry, CREATED, "test", "normal", GENERATION, "3", "40", "half", "2", "4", "10",
        "one", "5", "0", "two",
    ]
}

#[test]
fn a_report_sent_twice_is_written_once() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    assert_eq!(scripts.report(&said("me", &entry)), 1);
    let between = scripts.server.cmd(&["HGETALL", RECORD]);
    assert_eq!(scripts.report(&said("me", &entry)), 0);
    assert_eq!(scripts.server.cmd(&["HGETALL", RECORD]), between);
    let fields = ["progress", "note", "logged", "state"].map(|name| scripts.field(name).unwrap());
    assert_eq!(fields, ["40", "half", "2", "running"]);
    assert!(scripts.field("l:1").unwrap().ends_with(" two"));
    assert!(scripts.int(&["PTTL", RECORD]) > 0);
}

#[test]
fn an_earlier_report_that_arrives_late_undoes_no_later_one() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.report(&said("me", &entry));
    let late =
        ["me", "60000", &entry, CREATED, "test", "normal", GENERATION, "2", "20", "", "1", "4", "10", "one"];
    assert_eq!(scripts.report(&late), 0);
    assert_eq!(scripts.field("progress").unwrap(), "40");
}

#[test]
fn no_report_is_written_for_an_entry_settled_or_owned_by_another() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    let before = scripts.digest();
    assert_eq!(scripts.report(&said("you", &entry)), 0);
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    let before = scripts.digest();
    assert_eq!(scripts.report(&said("me", &entry)), 0);
    assert_eq!(scripts.digest(), before);
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0, "a deleted record came back");
}

#[test]
fn a_full_server_refuses_reports_and_a_bad_record_blocks_no_other() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.server.cmd(&["SET", "sf:{q}:job:broken", "not a hash"]);
    let keys = [STREAM, "sf:{q}:job:broken", STREAM, RECORD];
    let one = said("me", &entry);
    let args = [&one[..], &one[2..]].concat();
    assert_eq!(scripts.call(source("report"), &keys, &args), 1);
    scripts.server.cmd(&["DEL", RECORD]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let sent = as_sent(source("report"));
    let count = ["EVAL", &*sent, "2", STREAM, RECORD];
    let refused = scripts.server.try_cmd(&[&count[..], &one[..]].concat());
    assert!(format!("{refused:?}").contains("OOM"), "{refused:?}");
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0);
}

#[test]
fn a_record_created_only_by_a_report_goes_with_its_attempt() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.report(&said("me", &entry));
    let values = Attempt::first(&entry).release_values();
    assert_eq!(scripts.call_one(source("release"), &RELEASE_KEYS, &values), 1);
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0);
}

#[test]
fn a_record_that_the_job_keeps_outlives_a_release_and_a_snooze() {
    for state in ["waiting", "scheduled"] {
        let scripts = Scripts::new();
        let entry = scripts.delivered();
        scripts.report(&said("me", &entry));
        assert!(scripts.int(&["PTTL", RECORD]) > 0);
        let attempt = Attempt::first(&entry);
        let answer = if state == "waiting" {
            let mut values = attempt.release_values();
            values[4] = b"1".to_vec();
            scripts.call_one(source("release"), &RELEASE_KEYS, &values)
        } else {
            let mut values = attempt.defer_values("60000");
            values[6] = b"scheduled".to_vec();
            *values.last_mut().unwrap() = b"1".to_vec();
            scripts.call_one(source("defer"), &DEFER_KEYS, &values)
        };
        assert_eq!((answer, scripts.field("state").as_deref()), (1, Some(state)));
        assert_eq!(scripts.int(&["PTTL", RECORD]), -1);
    }
}

#[test]
fn a_record_of_an_ended_generation_expires_though_another_generation_snoozes() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    let ended = ["HSET", RECORD, "state", "done", "life", "earlier", "type", "test", "lane", "normal"];
    scripts.server.cmd(&ended);
    scripts.server.cmd(&["PEXPIRE", RECORD, "60000"]);
    let mut values = Attempt::first(&entry).defer_values("60000");
    values[6] = b"scheduled".to_vec();
    assert_eq!(scripts.call_one(source("defer"), &DEFER_KEYS, &values), 1);
    assert!(scripts.int(&["PTTL", RECORD]) > 0, "nothing else would ever delete it");
}

const CANCEL_KEYS: [&str; 13] = [
    DELAYED,
    "sf:{q}:delayed:fields",
    RECORD,
    CANCELS,
    STREAM,
    "sf:{q}:unique:k",
    "sf:{q}:batch:b",
    "sf:{q}:steps:j",
    PLACES,
    "sf:{q}:endings",
    NOTHING,
    STREAM,
    "sf:{q}:rooms:places",
];

fn cancel<'a>(entry: &'a str, at_last: &'a str) -> [&'a str; 10] {
    ["j", entry, "60000", "me", "test", "normal", CREATED, "", at_last, GENERATION]
}

#[test]
fn a_waiting_job_is_cancelled_once_however_often_it_is_requested() {
    let scripts = Scripts::new();
    let added = scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j"]);
    let entry: String = redis::from_redis_value(added).unwrap();
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 1);
    let between = scripts.digest();
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 3);
    assert_eq!(scripts.digest(), between);
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.field("state").as_deref()), (0, Some("cancelled")));
    assert!(scripts.int(&["PTTL", RECORD]) > 0);
}

#[test]
fn a_cancel_request_for_a_held_job_keeps_it_from_running_again() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    let before = scripts.server.cmd(&["XPENDING", STREAM, "fleet"]);
    for _ in 0..2 {
        assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 2);
    }
    assert_eq!(scripts.int(&["ZCARD", CANCELS]), 1);
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0, "a cancel request creates no record");
    let attempt = Attempt::first(&entry);
    assert_eq!(scripts.call_one(source("release"), &RELEASE_KEYS, &attempt.release_values()), 3);
    assert_eq!(scripts.call_one(source("begin"), &BEGIN_KEYS, &attempt.begin_values()), 5);
    assert_eq!(scripts.call_one(source("defer"), &DEFER_KEYS, &attempt.defer_values("0")), 3);
    assert_eq!(scripts.call_one(source("bury"), &BURY_KEYS, &attempt.bury_values()), 3);
    assert_eq!(scripts.server.cmd(&["XPENDING", STREAM, "fleet"]), before);
    assert_eq!(scripts.call_one(source("cancelled"), &CANCELLED_KEYS, &attempt.cancelled_values()), 1);
    assert_eq!(scripts.field("cancelled_by").as_deref(), Some("me"), "the request said who made it");
    assert_eq!((scripts.int(&["EXISTS", CANCELS, PLACES]), scripts.int(&["XLEN", STREAM])), (0, 0));
}

#[test]
fn a_cancel_request_is_for_one_generation_and_goes_with_its_entry() {
    let scripts = Scripts::new();
    let cancel_requests = || scripts.int(&["ZCARD", CANCELS]);
    let entry = scripts.delivered();
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 2);
    let another = Attempt { generation: "another", ..Attempt::first(&entry) }.begin_values();
    assert_eq!(scripts.call_one(source("begin"), &BEGIN_KEYS, &another), 1, "another life begins");
    assert_eq!(scripts.call(source("cancels"), &[CANCELS, "sf:{q}:gates", "sf:{q}:room:queue"], &[]), 1);
    let sweep =
        || scripts.call(source("prune_cancel_requests"), &[CANCELS, PLACES, "h", STREAM, "l"], &["0", "100"]);
    assert_eq!((sweep(), cancel_requests()), (1, 1), "its entry is still held");
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    assert_eq!((sweep(), scripts.int(&["EXISTS", CANCELS, PLACES])), (0, 0));
    // A request for a job without a known holder ends only after a time.
    scripts.server.cmd(&["HSET", RECORD, "state", "retrying", "life", GENERATION]);
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel("1-1", "1")), 2);
    assert_eq!((sweep(), cancel_requests()), (1, 1));
    scripts.server.cmd(&["ZADD", CANCELS, "1699999999999", GENERATION]);
    assert_eq!((sweep(), cancel_requests()), (0, 0));
}

#[test]
fn a_job_can_be_cancelled_on_a_full_server() {
    let scripts = Scripts::new();
    let added = scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j"]);
    let entry: String = redis::from_redis_value(added).unwrap();
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 1);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let entry = scripts.delivered();
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 2);
}

#[test]
fn a_cancellation_that_cannot_be_noted_deletes_no_entry() {
    for key in [CANCELS, PLACES, RECORD] {
        let scripts = Scripts::new();
        let added = scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j"]);
        let entry: String = redis::from_redis_value(added).unwrap();
        scripts.server.cmd(&["SET", key, "of another type"]);
        let before = scripts.digest();
        let (script, count) = (as_sent(source("cancel")), CANCEL_KEYS.len().to_string());
        let head = [&["EVAL", &script, &count][..], &CANCEL_KEYS].concat();
        let refused = scripts.server.try_cmd(&[&head[..], &cancel(&entry, "0")].concat());
        assert!(format!("{refused:?}").contains("WRONGTYPE"), "{key}: {refused:?}");
        assert_eq!(scripts.digest(), before, "{key}");
        scripts.server.cmd(&["DEL", key]);
        assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel(&entry, "0")), 1, "{key}");
    }
}

#[test]
fn a_job_that_moves_during_the_search_is_found_again_or_flagged() {
    let scripts = Scripts::new();
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel("", "1")), 0);
    scripts.server.cmd(&["HSET", RECORD, "state", "retrying"]);
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel("1-1", "0")), 4);
    assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel("1-1", "1")), 2);
    for state in ["done", "dead", "cancelled"] {
        scripts.server.cmd(&["HSET", RECORD, "state", state]);
        let before = scripts.digest();
        assert_eq!(scripts.call(source("cancel"), &CANCEL_KEYS, &cancel("1-1", "1")), 3, "{state}");
        assert_eq!(scripts.digest(), before);
    }
}
