//! `reproduce`: a job of Redis runs here, and stays as it is there.

use serde_json::{Value, json};

use harness::process::{Launch, Output};
use harness::redis_server::RedisServer;
use harness::scene::SOON;

const CONFIG: &str = r#"
[types.note]
handler = { exec = { command = ["sh", "-c", "echo reading >&2; echo '::progress 40 half' >&2; cat"] } }
[types.gift]
[types.gift.steps.charge]
kind = "once"
handler = { exec = { command = ["sh", "-c", "echo 17"] } }
[types.gift.steps.mail]
kind = "auto"
after = ["charge"]
handler = { exec = { command = ["sh", "-c", "exit 65"] } }
[telemetry]
listen = "off"
"#;

fn reproduce(server: &RedisServer, args: &[&str]) -> Output {
    let head = ["--config", "{config}", "--redis", &server.url(), "--json", "reproduce"];
    Launch::new(&[&head[..], args].concat()).config(CONFIG).output(SOON)
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Adds a job, and returns what Redis has afterwards.
fn add(server: &RedisServer, job_type: &str) -> Value {
    let fields = ["type", job_type, "id", "order-7", "payload", "{\"to\":\"ann\"}", "h.tenant", "9"];
    server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..]].concat());
    all(server)
}

fn all(server: &RedisServer) -> Value {
    let keys: Vec<String> = redis::from_redis_value(server.cmd(&["KEYS", "*"])).unwrap();
    let length: u64 = redis::from_redis_value(server.cmd(&["XLEN", "sf:{default}:jobs"])).unwrap();
    json!([keys.len(), length])
}

#[test]
fn a_waiting_job_runs_with_the_configured_handler_and_goes_on_waiting() {
    let server = RedisServer::start();
    let before = add(&server, "note");
    let output = reproduce(&server, &["order-7"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let report = report(&output);
    let run = &report["runs"][0];
    assert_eq!((&report["type"], &report["state"]), (&"note".into(), &"waiting".into()));
    assert_eq!((&run["outcome"], &run["result"]), (&"done".into(), &json!({"to": "ann"})));
    assert_eq!((&run["progress"]["percent"], &run["log"]), (&40.into(), &json!(["reading"])));
    assert_eq!(all(&server), before);
}

#[test]
fn a_dead_job_runs_with_a_command_that_fails() {
    let server = RedisServer::start();
    let letter =
        ["type", "other", "id", "order-7", "payload", "[1]", "dead_reason", "fatal", "dead_error", "no"];
    let added = server.cmd(&[&["XADD", "sf:{default}:dead", "*"], &letter[..]].concat());
    let letter: String = redis::from_redis_value(added).unwrap();
    let script = "echo \"$STREAMFLEET_JOB_ID\" >&2; cat >&2; exit 65";
    let output = reproduce(&server, &[&letter, "--command", "sh", "-c", script]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let report = report(&output);
    assert_eq!((&report["id"], &report["state"]), (&"order-7".into(), &"dead".into()));
    let error = report["runs"][0]["error"].as_str().unwrap();
    assert!(
        error.contains("exit status: 65") && error.contains("order-7") && error.contains("[1]"),
        "{error}"
    );
    assert_eq!(server.cmd(&["XLEN", "sf:{default}:dead"]), redis::Value::Int(1));
    let unknown = reproduce(&server, &[&letter]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no handler for the type other"), "{unknown:?}");
    assert_eq!(reproduce(&server, &["nobody"]).code, Some(4));
}

#[test]
fn steps_run_only_on_request_and_end_with_the_first_that_fails() {
    let server = RedisServer::start();
    let before = add(&server, "gift");
    let looked = reproduce(&server, &["order-7"]);
    assert_eq!(looked.code, Some(0), "{looked:?}");
    assert_eq!(report(&looked)["left"], json!(["charge", "mail"]));
    let ran = reproduce(&server, &["order-7", "--steps"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = report(&ran);
    assert_eq!((&report["runs"][0]["step"], &report["runs"][0]["result"]), (&"charge".into(), &17.into()));
    assert_eq!(
        (&report["runs"][1]["step"], &report["runs"][1]["outcome"]),
        (&"mail".into(), &"failed".into())
    );
    assert_eq!(all(&server), before);
}
