//! The login of programs that submit jobs and wait for them.

use super::logins::Site;
use harness::fleet::{Acts, Running, quick};

#[test]
fn a_submitter_may_submit_in_every_way() {
    let site = Site::new();
    let submit = |args: &[&str], stdin: &str| {
        site.run_with("submitter", &[&["enqueue"], args].concat(), stdin);
    };
    site.server.cmd(&["HSET", "sf:{default}:control", "max_depth", "100"]);
    submit(&["a", "--expires-in", "1h", "--header", "k=v", "--track"], "");
    for lane in ["high", "normal", "low"] {
        submit(&["a", "--lane", lane, "--durability", "memory"], "");
    }
    submit(&["a", "--delay", "1h"], "");
    submit(&["a", "--at", "2100-01-01T00:00:00Z"], "");
    submit(&["a", "--id", "order-7", "--idempotent-for", "1h"], "");
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
    site.nothing_was_refused();
}

#[test]
fn a_submitter_may_manage_its_own_jobs() {
    let site = Site::new();
    let run = |line: &str| site.run("submitter", &line.split(' ').collect::<Vec<_>>());
    run("enqueue a --id late --delay 1h");
    run("status late");
    run("delayed reschedule late --delay 2h");
    run("delayed edit late --payload {}");
    run("delayed run late");
    site.nothing_was_refused();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitter_may_wait_for_the_end_of_a_job() {
    let site = Site::new();
    let fleet = Running::start(&site.url("worker"), quick(1), Acts::well());
    site.run("submitter", &["enqueue", "test", "--wait=20s"]);
    site.run("submitter", &["enqueue", "test", "--id", "mine", "--wait=20s"]);
    fleet.stop().await;
    site.nothing_was_refused();
}
