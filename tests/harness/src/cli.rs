//! Commands against one server, and snapshots of the stable part of their output.

use std::time::Duration;

pub use insta;
use serde_json::Value;
use streamfleet::{JobError, Queue};

use crate::fleet::{Acts, Running, quick, submit};
use crate::process::{Launch, Output, run};
use crate::redis_server::RedisServer;
use crate::wait::until_async;

/// Runs a command against the server and returns its output.
pub fn sf(server: &RedisServer, args: &[&str]) -> Output {
    sf_with(server, args, b"")
}

/// Runs a command against the server with this on stdin, and returns its output.
pub fn sf_with(server: &RedisServer, args: &[&str], stdin: &[u8]) -> Output {
    run(&with_address(&server.url(), args), stdin)
}

/// Prepares a command against the server, without starting it.
pub fn launch(server: &RedisServer, args: &[&str]) -> Launch {
    Launch::new(&with_address(&server.url(), args))
}

/// Runs a command, which must succeed, and returns its JSON.
pub fn json(server: &RedisServer, args: &[&str]) -> Value {
    let output = sf(server, &[args, &["--json"]].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// Runs a command, which must succeed, and returns its output for people.
pub fn stdout_of(server: &RedisServer, args: &[&str]) -> String {
    let output = sf(server, args);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

/// Compares the text with a snapshot, regardless of times, ids and column widths.
#[macro_export]
macro_rules! assert_output {
    ($text:expr) => {
        $crate::cli::insta::with_settings!({filters => vec![
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?", "[time]"),
            (r"\((in )?(\d[\d.]*(d|h|m|s|ms) ?){1,2}( ago)?\)", "([age])"),
            (r"\b(\d[\d.]*(d|h|m|s|ms) ?){1,2} ago", "[age] ago"),
            (r"(?m) \d[\d.]*(ms|m|s)( |$)", " [age]$2"),
            (r"\b[a-z0-9._-]+-\d+-[0-9a-f]{8}\b", "[consumer]"),
            (r"\b\d{13}-\d+", "[entry]"),
            (r"\b\d{13}\b", "[ms]"),
            (r"\b[0-9a-f]{32}\b", "[id]"),
            (r"redis://127.0.0.1:\d+/0", "[redis]"),
            (r" +", " "),
        ]}, { $crate::cli::insta::assert_snapshot!($text) })
    };
}
/// Submits this many jobs and lets a fleet bury all of them.
pub async fn bury(server: &RedisServer, queue: &Queue, count: u64) {
    let fleet = Running::start(&server.url(), quick(1), doomed());
    for _ in 0..count {
        submit(queue, "{}").await;
    }
    until_dead(queue, count).await;
    fleet.stop().await;
}

/// A handler that never succeeds.
pub fn doomed() -> Acts {
    Acts::new(|_, _| Err(JobError::fatal("no such\taccount")))
}

/// Waits until there are this many dead letters.
pub async fn until_dead(queue: &Queue, count: u64) {
    until_async(&format!("{count} dead letters"), Duration::from_secs(30), async || {
        queue.snapshot().await.unwrap().dead == count
    })
    .await;
}

fn with_address<'a>(url: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [&["--redis", url], args].concat()
}
