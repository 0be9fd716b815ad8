//! Workers through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{WORKERS_DRAIN, WORKERS_LIST, WORKERS_RESUME};

use super::{Case, Prepare, WHO};

/// What a worker reports about itself. It has the name of its queue.
pub(super) const LIVE: &[&str] = &[
    "HSET",
    "sf:worker:{queue}",
    "state",
    "running",
    "queues",
    "{queue}",
    "types",
    "mail",
    "running",
    "0",
    "slots",
    "4",
    "version",
    "0.1.0",
    "capabilities",
    "drain",
];

const DRAINED: &[&str] =
    &["workers", "drain", "{queue}", "--detach", "--by", "bob", "--reason", "its disk is failing"];

const DRAIN: &[&str] =
    &["workers", "drain", "{queue}", "--exit", "--detach", "--by", WHO, "--reason", "it is old"];

/// Asks a worker to drain and end.
fn drain(prepare: Prepare) -> Case {
    Case {
        operation: &WORKERS_DRAIN,
        prepare,
        command: DRAIN,
        method: Method::POST,
        path: "workers/{queue}/drain",
        body: json!({"exit": true, "reason": "it is old"}),
    }
}

/// Asks a worker to take jobs.
fn resume(prepare: Prepare) -> Case {
    Case {
        operation: &WORKERS_RESUME,
        prepare,
        command: &["workers", "resume", "{queue}", "--detach", "--by", WHO, "--reason", "it works"],
        method: Method::DELETE,
        path: "workers/{queue}/drain?reason=it+works",
        body: Value::Null,
    }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case {
            operation: &WORKERS_LIST,
            prepare: Prepare::Worker(&[DRAINED]),
            command: &["workers", "list"],
            method: Method::GET,
            path: "workers",
            body: Value::Null,
        },
        drain(Prepare::Worker(&[])),
        // It drains already, and is to end now, too.
        drain(Prepare::Worker(&[DRAINED])),
        // Nothing is left to be asked for.
        drain(Prepare::Worker(&[DRAIN])),
        resume(Prepare::Worker(&[DRAINED])),
    ]
}
