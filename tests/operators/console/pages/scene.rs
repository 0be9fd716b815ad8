//! A server with jobs in every state.

use harness::desk::{json, sf};
use harness::redis_server::RedisServer;

/// A dead letter, and when it died.
pub(super) const LETTER: &str = "1700000000000-0";

/// Starts a server with jobs that wait, are delayed, wait at a gate, and are dead.
pub(super) fn server() -> RedisServer {
    let server = RedisServer::start();
    let enqueue = |args: &[&str]| {
        let output = sf(&server, &[&["enqueue"], args].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
    };
    enqueue(&["mail.send", r#"{"customer":9}"#, "--queue", "mail", "--id", "m-1", "--track"]);
    enqueue(&["mail.send", r#"{"customer":8}"#, "--queue", "mail", "--lane", "high", "--id", "m-2"]);
    enqueue(&["report", r#"{"customer":9}"#, "--queue", "mail", "--delay", "1h", "--id", "r-1"]);
    letter(&server, LETTER, &[("id", "d-1"), ("type", "mail.send"), ("payload", r#"{"customer":"9"}"#)]);
    let paused =
        sf(&server, &["pause", "--queue", "mail", "--type", "report", "--reason", "the printer is down"]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let cron =
        ["cron", "add", "report.nightly", "--queue", "mail", "--schedule", "0 3 * * *", "--type", "report"];
    let added = sf(&server, &[&cron[..], &["--timezone", "Asia/Shanghai"]].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    server
}

/// Adds a dead letter, as a worker writes it.
pub(super) fn letter(server: &RedisServer, entry: &str, fields: &[(&str, &str)]) {
    let dead = [
        ("dead_reason", "exhausted"),
        ("dead_error", "connection refused\nby 10.0.0.7"),
        ("dead_at_ms", "1700000000000"),
        ("dead_attempts", "3"),
        ("dead_fingerprint", "0123456789abcdef"),
    ];
    let mut command = vec!["XADD", "sf:{mail}:dead", entry];
    for (name, value) in fields.iter().chain(&dead) {
        command.extend([*name, *value]);
    }
    server.cmd(&command);
}

/// What the command line says about a job.
pub(super) fn state(server: &RedisServer, id: &str) -> String {
    let status = json(server, &["status", id, "--queue", "mail"]);
    status["state"].as_str().unwrap().to_owned()
}
