//! The script that asks a worker to drain: sent twice, too late, and to a full server.

use harness::scripts::{Scripts, source};

const KEY: &str = "sf:worker:w";

/// What a call sends. Each call has a name of its own.
fn args<'a>(call: &'a str, mode: &'a str, by: &'a str, exit: &'a str) -> [&'a str; 6] {
    [mode, by, "its disk", exit, "1700000000000", call]
}

/// A server on which the worker is live.
fn scene() -> Scripts {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", KEY, "state", "running"]);
    scripts.server.cmd(&["PEXPIRE", KEY, "60000"]);
    scripts
}

fn field(scripts: &Scripts, name: &str) -> String {
    redis::from_redis_value::<Option<String>>(scripts.server.cmd(&["HGET", KEY, name]))
        .unwrap()
        .unwrap_or_default()
}

#[test]
fn a_worker_that_is_not_live_is_asked_for_nothing() {
    let scripts = Scripts::start();
    for mode in ["drain", "resume", "keep"] {
        scripts.twice(source("worker_drain"), &[KEY], &args("1", mode, "ann", "0"), [0, 0]);
    }
}

#[test]
fn a_request_is_noted_once_and_others_learn_who_made_it() {
    let scripts = scene();
    scripts.twice(source("worker_drain"), &[KEY], &args("2", "resume", "ann", "0"), [2, 2]);
    scripts.twice(source("worker_drain"), &[KEY], &args("3", "drain", "ann", "0"), [1, 1]);
    let since = field(&scripts, "drain_since_ms");
    scripts.twice(source("worker_drain"), &[KEY], &args("4", "drain", "ann", "0"), [2, 2]);
    scripts.twice(source("worker_drain"), &[KEY], &args("5", "drain", "bob", "0"), [2, 2]);
    assert_eq!((field(&scripts, "drain_by"), field(&scripts, "drain_exit")), ("ann".into(), "0".into()));
    scripts.twice(source("worker_drain"), &[KEY], &args("6", "drain", "bob", "1"), [1, 1]);
    let [by, exit] = ["drain_by", "drain_exit"].map(|name| field(&scripts, name));
    assert_eq!((by.as_str(), exit.as_str()), ("bob", "1"), "it is to end now, too");
    assert_eq!(field(&scripts, "drain_since_ms"), since, "it drains since then");
    scripts.twice(source("worker_drain"), &[KEY], &args("7", "drain", "bob", "1"), [2, 2]);
    scripts.twice(source("worker_drain"), &[KEY], &args("8", "resume", "bob", "0"), [1, 1]);
    assert_eq!((field(&scripts, "drain_since_ms"), field(&scripts, "drain_by")), ("0".into(), "bob".into()));
    scripts.twice(source("worker_drain"), &[KEY], &args("9", "resume", "eve", "0"), [2, 2]);
    assert!((1..=60_000).contains(&scripts.int(&["PTTL", KEY])), "the worker is forgotten as before");
}

#[test]
fn what_the_key_has_lost_is_noted_again_and_nothing_else_is_replaced() {
    let scripts = scene();
    scripts.twice(source("worker_drain"), &[KEY], &args("10", "keep", "ann", "1"), [1, 1]);
    assert_eq!(
        (field(&scripts, "drain_since_ms"), field(&scripts, "drain_exit")),
        ("1700000000000".into(), "1".into())
    );
    scripts.twice(source("worker_drain"), &[KEY], &args("11", "resume", "bob", "0"), [1, 1]);
    scripts.twice(source("worker_drain"), &[KEY], &args("12", "keep", "ann", "1"), [2, 2]);
    assert_eq!(field(&scripts, "drain_since_ms"), "0", "somebody has resumed it");
}

#[test]
fn a_full_server_takes_the_request() {
    let scripts = scene();
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scripts.call(source("worker_drain"), &[KEY], &args("13", "drain", "ann", "0")).0, 1);
    assert_eq!(field(&scripts, "drain_by"), "ann");
}
