//! Incidents through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{ALERTS_ACK, ALERTS_LIST};

use super::{Case, Prepare, WHO};

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
