//! Recurring jobs through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{
    CRON_ADD, CRON_LIST, CRON_PAUSE, CRON_REMOVE, CRON_RESUME, CRON_RUN, Operation,
};

use super::{Case, Prepare, WHO};

/// Its next tick is the same for both doors, unless the test runs at the turn of a year.
const ADD: &[&str] = &[
    "cron",
    "add",
    "nightly",
    "--schedule",
    "@yearly",
    "--type",
    "report",
    "--queue",
    "{queue}",
    "--by",
    WHO,
    "--reason",
    "it is new",
];

const PAUSE: &[&str] = &change("pause");

/// The command that changes the recurring job.
const fn change(action: &'static str) -> [&'static str; 9] {
    ["cron", action, "nightly", "--queue", "{queue}", "--by", WHO, "--reason", "it is slow"]
}

/// A change of the recurring job by `POST`.
fn post(
    operation: &'static Operation,
    prepare: Prepare,
    command: &'static [&'static str],
    path: &'static str,
) -> Case {
    Case { operation, prepare, command, method: Method::POST, path, body: json!({"reason": "it is slow"}) }
}

pub(super) fn cases() -> Vec<Case> {
    let added = || Prepare::Commands(&[ADD]);
    vec![
        Case {
            operation: &CRON_ADD,
            prepare: Prepare::Nothing,
            command: ADD,
            method: Method::PUT,
            path: "queues/{queue}/cron/nightly",
            body: json!({"schedule": "@yearly", "type": "report", "reason": "it is new"}),
        },
        Case {
            operation: &CRON_LIST,
            prepare: added(),
            command: &["cron", "list", "--queue", "{queue}"],
            method: Method::GET,
            path: "queues/{queue}/cron",
            body: Value::Null,
        },
        post(&CRON_PAUSE, added(), PAUSE, "queues/{queue}/cron/nightly/pause"),
        post(
            &CRON_RESUME,
            Prepare::Commands(&[ADD, PAUSE]),
            const { &change("resume") },
            "queues/{queue}/cron/nightly/resume",
        ),
        post(&CRON_RUN, added(), const { &change("run") }, "queues/{queue}/cron/nightly/run"),
        Case {
            operation: &CRON_REMOVE,
            prepare: added(),
            command: const { &change("remove") },
            method: Method::DELETE,
            path: "queues/{queue}/cron/nightly?reason=it+is+slow",
            body: Value::Null,
        },
    ]
}
