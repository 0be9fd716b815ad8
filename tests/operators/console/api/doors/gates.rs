//! Gates through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{GATES_CLEAR, GATES_LIST, GATES_SET, PAUSE, RESUME};

use super::{Case, Prepare, WHO};

const SET: &[&str] = &[
    "gates",
    "set",
    "type:mail",
    "--rate",
    "100/s",
    "--queue",
    "{queue}",
    "--by",
    WHO,
    "--reason",
    "it is slow",
    "--yes",
];

const PAUSED: &[&str] = &[
    "pause",
    "--queue",
    "{queue}",
    "--type",
    "mail",
    "--for",
    "1h",
    "--by",
    WHO,
    "--reason",
    "it is down",
    "--yes",
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            operation: &PAUSE,
            prepare: Prepare::Nothing,
            command: PAUSED,
            method: Method::POST,
            path: "queues/{queue}/pause",
            body: json!({"type": "mail", "for": "1h", "reason": "it is down", "confirm": true}),
        },
        Case {
            operation: &RESUME,
            prepare: Prepare::Commands(&[PAUSED]),
            command: &["resume", "--queue", "{queue}", "--type", "mail", "--by", WHO, "--reason", "it works"],
            method: Method::POST,
            path: "queues/{queue}/resume",
            body: json!({"type": "mail", "reason": "it works"}),
        },
        Case {
            operation: &GATES_SET,
            prepare: Prepare::Nothing,
            command: SET,
            method: Method::PUT,
            path: "queues/{queue}/gates/type:mail",
            body: json!({"rate": "100/s", "reason": "it is slow", "confirm": true}),
        },
        Case {
            operation: &GATES_CLEAR,
            prepare: Prepare::Commands(&[SET]),
            command: &[
                "gates",
                "clear",
                "type:mail",
                "--queue",
                "{queue}",
                "--by",
                WHO,
                "--reason",
                "it is fast",
            ],
            method: Method::DELETE,
            path: "queues/{queue}/gates/type:mail?reason=it+is+fast",
            body: Value::Null,
        },
        Case {
            operation: &GATES_LIST,
            prepare: Prepare::Commands(&[SET, PAUSED]),
            command: &["gates", "list", "--queue", "{queue}"],
            method: Method::GET,
            path: "queues/{queue}/gates",
            body: Value::Null,
        },
    ]
}
