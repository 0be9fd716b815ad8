//! `cancel`, through the real binary.

use std::time::Duration;

use serde_json::Value;

use harness::assert_output;
use harness::cli::{json, sf};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

const TYPES: &str = r#"
[telemetry]
listen = "off"
[types.long]
handler = { exec = { command = ["sleep", "600"], grace = "1s" } }
tracking = "all"
[types.note]
handler = "noop"
tracking = "all"
"#;

fn enqueue(server: &RedisServer, args: &[&str]) -> String {
    let output = sf(server, &[&["enqueue"], args].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout.trim().to_owned()
}

fn until_state(server: &RedisServer, job: &str, state: &str) {
    until(&format!("{job} to be {state}"), SOON, || {
        let status = sf(server, &["status", job, "--json"]);
        status.code == Some(0) && status.stdout.contains(&format!("\"state\": \"{state}\""))
    });
}

#[test]
fn a_job_is_cancelled_wherever_it_is_unless_it_has_finished() {
    let server = RedisServer::start();
    let waiting = enqueue(&server, &["note", "--lane", "high"]);
    assert_eq!(sf(&server, &["cancel", &waiting, "--by", "ann"]).code, Some(0));
    assert_output!(sf(&server, &["status", &waiting]).stdout);
    let again = sf(&server, &["cancel", &waiting]);
    assert_eq!((again.code, again.stdout), (Some(0), format!("{waiting} is cancelled\n")));
    let _worker =
        Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(TYPES).start();
    let running = enqueue(&server, &["long"]);
    until_state(&server, &running, "running");
    let report = json(&server, &["cancel", &running]);
    assert_eq!((&report["state"], &report["cancelling"]), (&"running".into(), &true.into()));
    until_state(&server, &running, "cancelled");
    let done = enqueue(&server, &["note"]);
    until_state(&server, &done, "done");
    let output = sf(&server, &["cancel", &done]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("is already done; nothing was changed"), "{output:?}");
    assert_eq!(json(&server, &["status", &done])["state"], "done");
    let output = sf(&server, &["cancel", "nobody"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(4), ""), "{output:?}");
    let audit = json(&server, &["audit"]);
    let noted = |note: &Value| [note["target"].clone(), note["outcome"].clone()];
    let noted: Vec<_> = audit["items"].as_array().unwrap().iter().map(noted).collect();
    let done = [running.as_str(), "asked to stop", waiting.as_str(), "done"].map(Value::from);
    assert_eq!(noted.concat(), done, "only what was done is noted");
}

#[test]
fn cancelling_a_running_job_prints_how_to_watch_its_end() {
    let server = RedisServer::start();
    let _worker =
        Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(TYPES).start();
    let running = enqueue(&server, &["long"]);
    until_state(&server, &running, "running");
    assert_output!(sf(&server, &["cancel", &running]).stdout);
    let watched = sf(&server, &["status", &running, "--watch"]);
    assert_eq!(watched.code, Some(1), "{watched:?}");
    assert!(watched.stdout.contains("is cancelled"), "{watched:?}");
}

#[test]
fn a_replica_has_certainly_cancelled_nothing() {
    let server = RedisServer::start();
    assert_eq!(sf(&server, &["enqueue", "test", "--id", "order-7"]).code, Some(0));
    let replica = server.replica();
    let refused = sf(&replica, &["cancel", "order-7"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let told = "because it is a replica: nothing was begun or changed";
    assert!(refused.stderr.contains(told) && !refused.stderr.contains("may or may not"), "{refused:?}");
}
