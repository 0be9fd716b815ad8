//! The scripts of this part, called twice, late, and on a full server.

use redis::Value;

use crate::harness::redis_server::RedisServer;

const STREAM: &str = "sf:{q}:jobs";
const RECORD: &str = "sf:{q}:job:j";
const CREATED: &str = "1700000000000";

macro_rules! source {
    ($file:literal) => {
        concat!(
            include_str!("../../../src/broker/scripts/prelude.lua"),
            include_str!(concat!("../../../src/broker/scripts/", $file, ".lua"))
        )
    };
}

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
        let count = keys.len().to_string();
        let command = [&["EVAL", source, &count], keys, args].concat();
        match self.server.cmd(&command) {
            Value::Array(items) => redis::from_redis_value(items[0].clone()).unwrap(),
            other => panic!("the answer is {other:?}"),
        }
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

    /// Lets `me` report of an entry.
    fn report(&self, args: &[&str]) -> i64 {
        self.call(source!("report"), &[STREAM, RECORD], args)
    }
}

/// Progress as the third thing said, then a line as the fourth and one as the fifth.
fn said<'a>(consumer: &'a str, entry: &'a str) -> [&'a str; 16] {
    [
        consumer, "60000", entry, CREATED, "test", "normal", "3", "40", "half", "2", "4", "10", "one", "5",
        "0", "two",
    ]
}

#[test]
fn what_is_reported_twice_is_written_once() {
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
fn a_report_that_overtakes_an_earlier_one_is_not_undone_by_it() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.report(&said("me", &entry));
    let late = ["me", "60000", &entry, CREATED, "test", "normal", "2", "20", "", "1", "4", "10", "one"];
    assert_eq!(scripts.report(&late), 0);
    assert_eq!(scripts.field("progress").unwrap(), "40");
}

#[test]
fn nothing_is_reported_of_an_entry_that_is_settled_or_anothers() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    let before = scripts.digest();
    assert_eq!(scripts.report(&said("you", &entry)), 0);
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    let before = scripts.digest();
    assert_eq!(scripts.report(&said("me", &entry)), 0);
    assert_eq!(scripts.digest(), before);
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0, "a dropped record came back");
}

#[test]
fn a_full_server_takes_no_report_and_a_record_of_another_type_spoils_no_other() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.server.cmd(&["SET", "sf:{q}:job:broken", "not a hash"]);
    let keys = [STREAM, "sf:{q}:job:broken", STREAM, RECORD];
    let one = said("me", &entry);
    let args = [&one[..], &one[2..]].concat();
    assert_eq!(scripts.call(source!("report"), &keys, &args), 1);
    scripts.server.cmd(&["DEL", RECORD]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let count = ["EVAL", source!("report"), "2", STREAM, RECORD];
    let refused = scripts.server.try_cmd(&[&count[..], &one[..]].concat());
    assert!(format!("{refused:?}").contains("OOM"), "{refused:?}");
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0);
}

#[test]
fn a_record_that_only_a_report_made_goes_with_its_attempt() {
    let scripts = Scripts::new();
    let entry = scripts.delivered();
    scripts.report(&said("me", &entry));
    let args = ["me", &entry, CREATED, "type", "test", "id", "j"];
    assert_eq!(scripts.call(source!("release"), &[STREAM, RECORD], &args), 1);
    assert_eq!(scripts.int(&["EXISTS", RECORD]), 0);
}
