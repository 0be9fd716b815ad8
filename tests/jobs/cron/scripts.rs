//! The scripts of recurring jobs, called twice, with an outdated state, and on a full server.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use harness::cron::STATES;
use harness::redis_server::RedisServer;
use harness::scripts::source;
use harness::wait::until;
use harness::witness::Witness;

const ENTRIES: &str = "sf:{default}:cron";
const STREAM: &str = "sf:{default}:jobs";

struct Scripts {
    server: RedisServer,
    /// How many calls have got a name.
    calls: Cell<u32>,
}

impl Scripts {
    fn new() -> Self {
        Self { server: RedisServer::start(), calls: Cell::new(0) }
    }

    fn try_call(&self, source: &str, keys: &[&str], args: &[&str]) -> redis::RedisResult<i64> {
        let count = keys.len().to_string();
        let command = [&["EVAL", source, &count], keys, args].concat();
        match self.server.try_cmd(&command)? {
            Value::Array(items) => Ok(redis::from_redis_value(items[0].clone()).unwrap()),
            Value::ServerError(error) => Err(error.into()),
            other => panic!("unexpected reply: {other:?}"),
        }
    }

    fn call(&self, source: &str, keys: &[&str], args: &[&str]) -> i64 {
        self.try_call(source, keys, args).unwrap()
    }

    fn put(&self, state: &str, payload: &str) -> i64 {
        self.call(source("cron_put"), &[ENTRIES, STATES], &["a", state, payload, "1000", "", "2"])
    }

    fn tick(&self, state: &str, next: &str) -> redis::RedisResult<i64> {
        self.calls.set(self.calls.get() + 1);
        self.tick_as(&self.calls.get().to_string(), state, next)
    }

    /// Submits a tick as a call of this name.
    fn tick_as(&self, call: &str, state: &str, next: &str) -> redis::RedisResult<i64> {
        let keys = [STATES, STREAM, &format!("sf:{{default}}:receipt:{call}")];
        let jobs = ["4", "id", "cron.a.2000", "type", "test", "4", "id", "cron.a.3000", "type", "test"];
        self.try_call(source("tick"), &keys, &[&["a", state, next], &jobs[..]].concat())
    }

    fn state(&self) -> Option<String> {
        redis::from_redis_value(self.server.cmd(&["HGET", STATES, "a"])).unwrap()
    }

    fn jobs(&self) -> i64 {
        redis::from_redis_value(self.server.cmd(&["XLEN", STREAM])).unwrap()
    }

    fn fill(&self, full: bool) {
        self.server.cmd(&["CONFIG", "SET", "maxmemory", if full { "1" } else { "0" }]);
    }
}

#[test]
fn a_tick_sent_twice_or_too_late_is_submitted_once() {
    let scripts = Scripts::new();
    assert_eq!(scripts.put("", "x"), 1);
    assert_eq!(scripts.state().as_deref(), Some("1000 1"));
    assert_eq!(scripts.tick("1000 1", "3000 1").unwrap(), 1);
    assert_eq!(scripts.tick("1000 1", "3000 1").unwrap(), 0);
    assert_eq!((scripts.jobs(), scripts.state().as_deref()), (2, Some("3000 1")));
    // A tick of an entry that has changed in the meantime, was paused, or is gone.
    assert_eq!(scripts.put("3000 1", "y"), 1);
    assert_eq!(scripts.tick("3000 1", "5000 1").unwrap(), 0);
    assert_eq!(scripts.call(source("cron_pause"), &[STATES], &["a", " paused"]), 1);
    assert_eq!(scripts.tick("1000 2", "5000 2").unwrap(), 0);
    assert_eq!(scripts.call(source("cron_remove"), &[ENTRIES, STATES], &["a"]), 1);
    assert_eq!(scripts.tick("1000 2 paused", "5000 2").unwrap(), 0);
    assert_eq!((scripts.jobs(), scripts.state()), (2, None));
}

#[test]
fn a_tick_whose_answer_was_lost_gets_the_same_answer_again() {
    let scripts = Scripts::new();
    scripts.put("", "x");
    let lost = || scripts.tick_as("lost", "1000 1", "3000 1").unwrap();
    assert_eq!([lost(), lost()], [1, 1]);
    // Even if another process has submitted the next tick.
    assert_eq!(scripts.tick("3000 1", "5000 1").unwrap(), 1);
    assert_eq!((lost(), scripts.tick("1000 1", "3000 1").unwrap()), (1, 0));
    assert_eq!((scripts.jobs(), scripts.state().as_deref()), (4, Some("5000 1")));
}

#[test]
fn a_tick_for_a_key_of_the_wrong_type_changes_nothing() {
    let scripts = Scripts::new();
    scripts.put("", "x");
    scripts.server.cmd(&["SET", STREAM, "vandal"]);
    assert!(scripts.tick("1000 1", "3000 1").unwrap_err().to_string().contains("WRONGTYPE"));
    assert_eq!(scripts.state().as_deref(), Some("1000 1"));
}

#[test]
fn a_change_sent_twice_is_applied_once() {
    let scripts = Scripts::new();
    assert_eq!([scripts.put("", "x"), scripts.put("", "x")], [1, 0]);
    let pause = |mark: &str| scripts.call(source("cron_pause"), &[STATES], &["a", mark]);
    assert_eq!([pause(" paused"), pause(" paused")], [1, 0]);
    let paused = scripts.state().unwrap();
    let since = paused.strip_prefix("1000 1 pausing=").unwrap().strip_suffix(" paused").unwrap();
    assert_eq!([pause(""), pause("")], [1, 0]);
    // What was due before the pause is not lost.
    assert!(scripts.state().unwrap().starts_with(&format!("1000 1 off={since}-")), "{:?}", scripts.state());
    for _ in 0..20 {
        assert_eq!([pause(" paused"), pause("")], [1, 1]);
    }
    assert!(scripts.state().unwrap().matches("off=").count() <= 8, "{:?}", scripts.state());
    scripts.server.cmd(&["HSET", STATES, "a", "1000 1 paused"]);
    assert_eq!(pause(""), 1, "an older version paused it");
    assert!(scripts.state().unwrap().ends_with(" 1"));
    let remove = || scripts.call(source("cron_remove"), &[ENTRIES, STATES], &["a"]);
    assert_eq!([remove(), remove(), pause("")], [1, 0, 2]);
    let put = |name: &str| {
        scripts.call(source("cron_put"), &[ENTRIES, STATES], &[name, "", "x", "", " paused", "2"])
    };
    assert_eq!(["b", "c", "d"].map(put), [1, 1, 2]);
}

#[test]
fn a_full_server_refuses_ticks_and_changes_but_allows_a_pause() {
    let scripts = Scripts::new();
    scripts.put("", "x");
    scripts.fill(true);
    assert!(scripts.tick("1000 1", "3000 1").unwrap_err().to_string().contains("OOM"));
    let put = scripts.try_call(source("cron_put"), &[ENTRIES, STATES], &["a", "1000 1", "y", "", "", "2"]);
    assert!(put.unwrap_err().to_string().contains("OOM"));
    assert_eq!(scripts.state().as_deref(), Some("1000 1"));
    assert_eq!(scripts.call(source("cron_pause"), &[STATES], &["a", " paused"]), 1);
    assert_eq!(scripts.call(source("cron_pause"), &[STATES], &["a", ""]), 1);
    let state = scripts.state().unwrap();
    scripts.fill(false);
    assert_eq!(scripts.jobs(), 0);
    assert_eq!(scripts.tick(&state, "3000 1").unwrap(), 1);
    scripts.fill(true);
    assert_eq!(scripts.call(source("cron_remove"), &[ENTRIES, STATES], &["a"]), 1);
}

#[test]
fn an_agenda_has_all_entries_or_the_requested_ones() {
    let scripts = Scripts::new();
    scripts.put("", "x");
    let agenda = |args: &[&str]| {
        let command = [&["EVAL", source("agenda"), "2", ENTRIES, STATES], args].concat();
        let Value::Array(answer) = scripts.server.cmd(&command) else {
            panic!("the script returned no list")
        };
        let list = |at: usize| redis::from_redis_value::<Vec<String>>(answer[at].clone()).unwrap();
        (redis::from_redis_value::<u64>(answer[1].clone()).unwrap(), list(2), list(3))
    };
    let (revision, mut states, entries) = agenda(&["", "1000"]);
    states.sort();
    assert_eq!(
        (revision, states, entries),
        (1, vec!["1".into(), "1000 1".into(), ":revision".into(), "a".into()], vec!["a".into(), "x".into()])
    );
    let asked = (1, vec!["a".to_owned(), "1000 1".to_owned(), "b".to_owned(), String::new()], vec![]);
    assert_eq!(agenda(&["1", "1000", "a", "b"]), asked);
}

#[test]
fn the_witness_counts_a_tick_that_was_submitted_twice() {
    let scripts = Scripts::new();
    let witness = Witness::of(&scripts.server);
    for _ in 0..2 {
        scripts.put("", "x");
        scripts.tick("1000 1", "3000 1").unwrap();
        scripts.server.cmd(&["DEL", STATES, ENTRIES]);
    }
    until("both submissions to be seen", Duration::from_secs(10), || {
        witness.counts() == BTreeMap::from([2000, 3000].map(|tick| (("a".to_owned(), tick), 2)))
    });
}
