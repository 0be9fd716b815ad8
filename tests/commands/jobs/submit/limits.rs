//! What `enqueue` says about full queues and oversized payloads.

use std::time::Duration;

use harness::process::{Launch, Output};
use harness::redis_server::RedisServer;

fn enqueue(server: &RedisServer, args: &[&str], stdin: &str) -> Output {
    let limits = "[queues.default]\nmax_depth = 2\nmax_payload = 10\n";
    let url = server.url();
    let head = ["--config", "{config}", "--redis", &url, "enqueue"];
    Launch::new(&[&head, args].concat()).config(limits).stdin(stdin).output(Duration::from_secs(30))
}

#[test]
fn a_full_queue_exits_with_7_and_says_what_to_do() {
    let server = RedisServer::start();
    for _ in 0..2 {
        assert_eq!(enqueue(&server, &["a"], "").code, Some(0));
    }
    let output = enqueue(&server, &["a"], "");
    assert_eq!(output.code, Some(7), "{output:?}");
    for part in ["it has 2 of at most 2 jobs", "accepts no more", "raise max_depth"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    let output = enqueue(&server, &["--bulk"], "{\"type\":\"a\"}\n");
    assert_eq!(output.code, Some(7), "{output:?}");
    assert!(output.stderr.contains("no job was accepted"), "{}", output.stderr);
}

#[test]
fn the_payload_limit_is_set_per_queue_and_the_error_names_the_line() {
    let server = RedisServer::start();
    let output = enqueue(&server, &["a", "\"0123456789\""], "");
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("12 bytes, but at most 10"), "{}", output.stderr);
    let lines = "{\"type\":\"a\"}\n{\"type\":\"a\",\"payload\":\"0123456789\"}\n";
    let output = enqueue(&server, &["--bulk"], lines);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("line 2 is not a valid job: the payload has 12 bytes"),
        "{}",
        output.stderr
    );
}
