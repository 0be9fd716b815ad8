//! The login that the documents give to those who only submit.

use crate::harness::process::Launch;
use crate::harness::redis_server::RedisServer;
use crate::traps::scene::SOON;

#[test]
fn the_documented_login_of_a_submitter_may_submit_in_every_way() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md");
    let document = std::fs::read_to_string(document).unwrap();
    let line = document.lines().find(|line| line.starts_with("user submitter ")).unwrap();
    let server = RedisServer::builder().users_acl(line).start();
    let url = format!("redis://submitter:password@{}/0", server.addr());
    let submit = |args: &[&str], stdin: &str| {
        let args = [&["--redis", &url, "enqueue"], args].concat();
        let output = Launch::new(&args).stdin(stdin).output(SOON);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
    };
    server.cmd(&["HSET", "sf:{default}:control", "max_depth", "100"]);
    submit(&["a", "--expires-in", "1h"], "");
    submit(&["a", "--delay", "1h"], "");
    submit(&["a", "--id", "order-7"], "");
    submit(&["a", "--id", "order-7"], "");
    for (delay, mode, scope) in [
        ("1h", "reject", "running"),
        ("2h", "debounce", "running"),
        ("0s", "replace", "running"),
        ("1h", "replace", "1h"),
    ] {
        submit(&["a", "--unique", "k", "--unique-mode", mode, "--unique-scope", scope, "--delay", delay], "");
    }
    for _waits_then_replaced in 0..2 {
        submit(&["a", "--unique", "l", "--unique-mode", "replace"], "");
    }
    submit(&["--bulk"], "{\"type\":\"a\",\"id\":\"x\"}\n{\"type\":\"a\"}\n");
}
