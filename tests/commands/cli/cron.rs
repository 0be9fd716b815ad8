//! `cron`: adding, listing, changing and running recurring jobs, and a worker that has some in its configuration.

use std::time::Duration;

use serde_json::Value;

use harness::assert_output;
use harness::cli::{json, sf, stdout_of};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);
const NIGHTLY: [&str; 7] =
    ["cron", "add", "report.nightly", "--schedule", "30 2 * * *", "--type", "report.generate"];

fn add(server: &RedisServer, more: &[&str]) -> (Option<i32>, String, String) {
    let output = sf(server, &[&NIGHTLY[..], more].concat());
    (output.code, output.stdout, output.stderr)
}

fn entry(server: &RedisServer, name: &str) -> Option<Value> {
    let all = json(server, &["cron", "list", "--next", "3"]);
    all["items"].as_array().unwrap().iter().find(|entry| entry["name"] == name).cloned()
}

#[test]
fn a_recurring_job_is_added_listed_paused_run_and_removed() {
    let server = RedisServer::start();
    assert_eq!(stdout_of(&server, &["cron", "list"]), "there are no recurring jobs\n");
    let more =
        ["--timezone", "Europe/Berlin", "--payload", "{\"month\":1}", "--missed", "one", "--lane", "low"];
    let (code, stdout, _) = add(&server, &more);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.starts_with("report.nightly is added in the queue default; next: "), "{stdout}");
    assert_output!(stdout_of(&server, &["cron", "list"]));
    let listed = entry(&server, "report.nightly").unwrap();
    assert_eq!((&listed["source"], &listed["missed"]), (&"command".into(), &"one".into()));
    assert_eq!(listed["next"].as_array().unwrap().len(), 3);
    assert!(listed["next_local"][0].as_str().unwrap().ends_with("[Europe/Berlin]"), "{listed}");
    assert_eq!(json(&server, &["cron", "pause", "report.nightly"])["changed"], true);
    assert_eq!(json(&server, &["cron", "pause", "report.nightly"])["changed"], false);
    assert_output!(stdout_of(&server, &["cron", "list"]));
    let submitted = json(&server, &["cron", "run", "report.nightly"]);
    assert_eq!(server.cmd(&["XLEN", "sf:{default}:jobs:low"]), redis::Value::Int(1));
    assert!(submitted["id"].as_str().unwrap().starts_with("cron.report.nightly.run-"), "{submitted}");
    assert_eq!(json(&server, &["cron", "resume", "report.nightly"])["done"], "resumed");
    assert_eq!(json(&server, &["cron", "remove", "report.nightly"])["done"], "removed");
    assert_eq!(entry(&server, "report.nightly"), None);
}

#[test]
fn a_recurring_job_of_another_queue_is_found() {
    let server = RedisServer::start();
    assert_eq!(add(&server, &["--queue", "reports"]).0, Some(0));
    assert_eq!(entry(&server, "report.nightly").unwrap()["queue"], "reports");
    let none = serde_json::json!({"version": 1, "items": [], "next": null});
    assert_eq!(json(&server, &["cron", "list", "--queue", "default"]), none);
}

#[test]
fn an_invalid_recurring_job_is_refused_with_the_position_of_the_error() {
    let server = RedisServer::start();
    let wrong = |args: &[&str]| {
        let output = sf(&server, args);
        assert_eq!(output.code, Some(2), "{output:?}");
        output.stderr
    };
    let add = |schedule: &str, more: &[&str]| {
        wrong(&[&["cron", "add", "a", "--schedule", schedule, "--type", "b"], more].concat())
    };
    let error = add("0 25 * * *", &[]);
    assert!(
        error.contains("the hour \"25\" (column 3)") && error.ends_with("\n  0 25 * * *\n    ^^\n"),
        "{error}"
    );
    assert!(add("0 3 * *", &[]).contains("has 4 fields"));
    assert!(add("0 3 * * *", &["--timezone", "Europe/Nowhere"]).contains("not a known time zone"));
    assert!(add("0 3 * * *", &["--payload", "{oops"]).contains("not JSON"));
    assert!(add("0 3 * * *", &["--missed", "some"]).contains("skip, one and all"));
    assert!(wrong(&["cron", "add", "No", "--schedule", "@daily", "--type", "b"]).contains("recurring job"));
    assert_eq!(server.cmd(&["DBSIZE"]), redis::Value::Int(0));
}

#[test]
fn a_taken_name_needs_replace_and_an_unknown_name_is_an_error() {
    let server = RedisServer::start();
    assert_eq!(add(&server, &[]).0, Some(0));
    assert_eq!(json(&server, &[&NIGHTLY[..], &["--replace"]].concat())["done"], "unchanged");
    let (code, _, stderr) = add(&server, &["--lane", "high"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--replace"), "{stderr}");
    assert_eq!(json(&server, &[&NIGHTLY[..], &["--lane", "high", "--replace"]].concat())["done"], "replaced");
    for action in ["pause", "resume", "run", "remove"] {
        let output = sf(&server, &["cron", action, "report.monthly"]);
        assert_eq!(output.code, Some(4), "{output:?}");
        assert!(output.stderr.contains("it has: report.nightly"), "{output:?}");
    }
}

#[test]
fn each_change_is_noted_once_with_who_and_why() {
    let server = RedisServer::start();
    let why = ["--by", "ann", "--reason", "the reports are being rewritten"];
    assert_eq!(add(&server, &why).0, Some(0));
    assert_eq!(add(&server, &["--replace"]).0, Some(0));
    for action in ["pause", "pause", "resume", "resume", "run", "remove"] {
        json(&server, &[&["cron", action, "report.nightly"], &why[..]].concat());
    }
    assert_eq!(sf(&server, &["cron", "remove", "report.nightly"]).code, Some(4));
    let audit = json(&server, &["audit"]);
    let notes = audit["items"].as_array().unwrap();
    let what: Vec<&str> = notes.iter().filter_map(|note| note["what"].as_str()).collect();
    assert_eq!(what, ["cron remove", "cron run", "cron resume", "cron pause", "cron add"]);
    for note in notes {
        let told = ["who", "why", "target"].map(|key| note[key].as_str().unwrap());
        assert_eq!(told, ["ann", "the reports are being rewritten", "report.nightly"], "{note}");
    }
}

const CONFIG: &str = r#"
[types.tick]
handler = "noop"
[telemetry]
listen = "off"
[cron."every.second"]
schedule = "* * * * * *"
type = "tick"
payload = { n = 1 }
missed = "all"
[cron.elsewhere]
schedule = "@hourly"
queue = "elsewhere"
type = "tick"
"#;

fn worker(server: &RedisServer, config: &str) -> Worker {
    Launch::new(&["--config", "{config}", "worker"])
        .env("STREAMFLEET__REDIS__URL", server.url())
        .config(config)
        .start()
}

#[test]
fn a_worker_stores_and_submits_recurring_jobs_of_its_configuration() {
    let server = RedisServer::start();
    let first = worker(&server, CONFIG);
    let ticked = |after: u64| {
        until("a tick", SOON, || {
            let handled = entry(&server, "every.second")?["handled_ms"].as_u64()?;
            (handled % 1000 == 0 && handled > after).then_some(handled)
        })
    };
    // What an entry has handled when it is added is no tick, even if that is a full second.
    let added = || entry(&server, "every.second")?["handled_ms"].as_u64();
    let tick = ticked(until("the entry", SOON, added));
    assert_eq!(entry(&server, "every.second").unwrap()["source"], "config");
    assert_eq!(entry(&server, "elsewhere"), None);
    until("the job is done", SOON, || {
        json(&server, &["status", &format!("cron.every.second.{tick}")])["state"] == "done"
    });
    first.term();
    assert_eq!(first.wait_exit(SOON).code(), Some(0));
    // The second worker has another payload and schedule; the third has no such section: the entry changes, and then stays.
    let changed = CONFIG.replace("n = 1", "n = 2").replace("* * * * * *", "@yearly");
    let second = worker(&server, &changed);
    until("the changed entry", SOON, || {
        entry(&server, "every.second").is_some_and(|one| one["schedule"] == "@yearly")
    });
    drop(second);
    let without = CONFIG.split("[cron").next().unwrap();
    let third = worker(&server, without);
    ticked_job(&server, &third);
    assert_eq!(entry(&server, "every.second").unwrap()["schedule"], "@yearly");
}

/// Waits until this worker has run a job, so that it is known to be up.
fn ticked_job(server: &RedisServer, _worker: &Worker) {
    let id = "proof";
    sf(server, &["enqueue", "tick", "--id", id]);
    until("the worker runs a job", SOON, || json(server, &["status", id])["state"] == "done");
}
