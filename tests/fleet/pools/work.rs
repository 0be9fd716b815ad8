//! What programs answer becomes the outcome of their jobs.

use harness::pool::{SOON, Stage};
use harness::process::Launch;
use harness::wait::until;

const QUICK: &str = "backoff = { fixed = \"20ms\" }\nmax_attempts = 3";

#[test]
fn each_answer_of_a_program_becomes_an_outcome() {
    let stage = Stage::acting("processes = 2", QUICK);
    let _worker = stage.start();
    for (payload, state, attempts) in [
        ("\"plain\"", "done", 1),
        ("\"retry-once\"", "done", 2),
        ("\"snooze-once\"", "done", 2),
        ("\"fatal\"", "dead", 1),
        ("\"drop\"", "cancelled", 1),
    ] {
        let id = payload.trim_matches('"');
        let status = stage.run(id, payload);
        assert_eq!((status["state"].as_str(), stage.runs(id)), (Some(state), attempts), "{status}");
        let snoozed = if id == "snooze-once" { "snoozed: later" } else { "" };
        assert_eq!(status["log"][0]["text"].as_str().unwrap_or_default(), snoozed, "{status}");
    }
    assert!(stage.run("pid", "1e-3")["result"].is_null());
    assert_eq!(stage.run("late", "\"retry-once\"")["result"], "at last");
}

#[test]
fn bytes_go_to_a_program_and_come_back() {
    let stage = Stage::acting("", QUICK);
    let _worker = stage.start();
    let raw = ["encoding", "raw", "payload", "a\u{1}\u{0}b\r\n"];
    stage.submit_with("raw", &raw);
    let status = stage.until_ended("raw");
    assert_eq!(status["result"], serde_json::json!({"encoding": "base64", "data": "YQEAYg0K"}), "{status}");
}

#[test]
fn types_share_the_places_of_their_pool_and_programs_live_on() {
    let types = "[types.act]\nhandler = { pool = \"py\" }\n[types.other]\nhandler = { pool = \"py\" }";
    let stage = Stage::new("processes = 3", types);
    let _worker = stage.start();
    for nth in 0..60 {
        let job_type = if nth % 2 == 0 { "act" } else { "other" };
        let id = nth.to_string();
        let fields = ["type", job_type, "id", &id, "payload", "0.01"];
        stage.server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..]].concat());
    }
    for nth in 0..60 {
        assert_eq!(stage.until_over(&nth.to_string()), "done");
    }
    let programs = stage.lines("pids").len();
    assert!((1..=3).contains(&programs), "{programs} programs were started");
}

#[test]
fn a_program_is_replaced_after_max_jobs() {
    let stage = Stage::acting("processes = 1\nmax_jobs = 3", "");
    let _worker = stage.start();
    for nth in 0..9 {
        assert_eq!(stage.run(&nth.to_string(), "null")["state"], "done");
    }
    assert!(stage.lines("pids").len() >= 3, "{:?}", stage.lines("pids"));
    until("only one to be left", SOON, || stage.alive().len() <= 1);
}

#[test]
fn jobs_that_a_leaving_program_has_not_read_spend_no_attempt() {
    let stage = Stage::acting("processes = 2", "max_attempts = 1");
    let _worker = stage.start();
    for nth in 0..50 {
        stage.submit_with(&nth.to_string(), &["h.last", "1", "payload", "null"]);
    }
    for nth in 0..50 {
        assert_eq!(stage.until_over(&nth.to_string()), "done");
    }
    assert_eq!(stage.lines("ran").len(), 50);
}

#[test]
fn a_worker_refuses_a_type_that_its_program_does_not_serve() {
    let stage = Stage::new("", "[types.stranger]\nhandler = { pool = \"py\" }");
    let output = stage.launch().output(SOON);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("does not serve stranger, only act, other"), "{output:?}");
}

#[test]
fn a_pool_of_its_own_is_written_beside_the_type() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("worker.py"), harness::pool::PROGRAM).unwrap();
    let path = dir.path().display();
    let toml = format!(
        "[types.act]\nhandler.pool = {{ command = [\"python3\", \"worker.py\"], directory = \"{path}\", \
         env = {{ TYPES = \"act\" }}, processes = 1, start = \"eager\" }}\n"
    );
    let check = Launch::new(&["--config", "{config}", "config", "check"]).config(&toml).output(SOON);
    assert_eq!(check.code, Some(0), "{check:?}");
}
