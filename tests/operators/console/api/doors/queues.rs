//! Queues through both doors: submitting jobs to them, what happened in them, emptying and deleting them.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{AUDIT, ENQUEUE, EVENTS, Operation, QUEUES, QUEUES_DELETE, QUEUES_PURGE, STATS};

use super::{Case, Prepare, WHO};

const WAITING: &[&str] = &["enqueue", "mail", "{}", "--id", "one", "--queue", "{queue}"];

const DELAYED: &[&str] = &["enqueue", "mail", "{}", "--id", "two", "--delay", "1h", "--queue", "{queue}"];

const PAUSED: &[&str] = &["pause", "--queue", "{queue}", "--by", WHO, "--reason", "it is down"];

/// A look at a paused queue with jobs.
fn look(operation: &'static Operation, command: &'static [&'static str], path: &'static str) -> Case {
    let (prepare, method) = (Prepare::Commands(&[WAITING, DELAYED, PAUSED]), Method::GET);
    Case { operation, prepare, command, method, path, body: Value::Null }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        look(&STATS, &["stats", "{queue}"], "queues/{queue}/stats"),
        look(&STATS, &["stats", "{queue}", "--types"], "queues/{queue}/stats/types"),
        look(&STATS, &["stats", "{queue}", "--durations"], "queues/{queue}/stats/durations"),
        look(&EVENTS, &["events", "--queue", "{queue}"], "queues/{queue}/events/past"),
        look(&QUEUES, &["queues", "{queue}"], "queues?queue={queue}"),
        look(&AUDIT, &["audit", "--queue", "{queue}"], "queues/{queue}/audit"),
        look(
            &AUDIT,
            &[
                "audit", "--queue", "{queue}", "--since", "1h", "--who", "ADM", "--action", "pause",
                "--target", "queue",
            ],
            "audit?queue={queue}&since=1h&who=ADM&action=pause&target=queue",
        ),
        Case {
            operation: &ENQUEUE,
            prepare: Prepare::Nothing,
            command: &["enqueue", "mail", r#"{"to":"ann"}"#, "--id", "one", "--queue", "{queue}"],
            method: Method::POST,
            path: "queues/{queue}/jobs",
            body: json!({"type": "mail", "payload": {"to": "ann"}, "id": "one"}),
        },
        Case {
            operation: &QUEUES_PURGE,
            prepare: Prepare::Commands(&[WAITING, DELAYED]),
            command: &[
                "queues",
                "purge",
                "{queue}",
                "--waiting",
                "--confirm",
                "{queue}",
                "--by",
                WHO,
                "--reason",
                "a test",
            ],
            method: Method::POST,
            path: "queues/{queue}/purge",
            body: json!({"waiting": true, "confirm": "{queue}", "reason": "a test"}),
        },
        Case {
            operation: &QUEUES_DELETE,
            prepare: Prepare::Commands(&[WAITING, DELAYED]),
            command: &[
                "queues",
                "delete",
                "{queue}",
                "--confirm",
                "{queue}",
                "--by",
                WHO,
                "--reason",
                "it is old",
            ],
            method: Method::DELETE,
            path: "queues/{queue}?confirm={queue}&reason=it+is+old",
            body: Value::Null,
        },
    ]
}
