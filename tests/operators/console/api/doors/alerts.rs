//! Incidents through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{ALERTS_ACK, ALERTS_LIST};

use super::{Case, Prepare, WHO};
use crate::alerts::stand_in::Robot;
use crate::console::api::client::{Console, send};
use harness::cli;
use harness::redis_server::RedisServer;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            operation: &ALERTS_LIST,
            prepare: Prepare::Incident,
            command: &["alerts", "list"],
            method: Method::GET,
            path: "incidents",
            body: Value::Null,
        },
        Case {
            operation: &ALERTS_ACK,
            prepare: Prepare::Incident,
            command: &["alerts", "ack", "{id}", "--for", "2h", "--by", WHO, "--reason", "it is known"],
            method: Method::POST,
            path: "incidents/{id}/ack",
            body: json!({"for": "2h", "reason": "it is known"}),
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_send_the_same_message_to_a_sink() {
    let (server, robot) = (RedisServer::start(), Robot::slack().await);
    let folder = tempfile::tempdir().unwrap();
    let [url, config] = ["url", "config.toml"].map(|name| folder.path().join(name));
    std::fs::write(&url, format!("{}/services/T0/B0/x", robot.server.uri())).unwrap();
    let section =
        format!("[alerts]\nevery = \"1h\"\n[alerts.sinks.ops]\nkind = \"slack\"\nurl_file = {url:?}\n");
    std::fs::write(&config, &section).unwrap();
    let console = Console::start_with(&server, &section).await;
    let command = ["--config", config.to_str().unwrap(), "alerts", "test", "ops"];
    let by_command = cli::json(&server, &command);
    let by_request = send(console.ask(Method::POST, "alerts/sinks/ops/test")).await.ok(200);
    assert_eq!(by_command, by_request);
    assert_eq!(robot.taken().len(), 2);
    assert_eq!(cli::json(&server, &["audit"])["items"], json!([]), "it changes nothing");
}
