//! Jobs through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{
    BATCH, CANCEL, DELAYED_EDIT, DELAYED_LIST, JOBS, MOVE, Operation, RUN_NOW, STATUS, STEPS,
};

use super::{Case, Prepare, WHO};

const WAITING: &[&str] = &["enqueue", "mail", "{\"to\":\"ann\"}", "--id", "order-7", "--queue", "{queue}"];

const DELAYED: &[&str] =
    &["enqueue", "mail", "{\"to\":\"ann\"}", "--id", "order-8", "--delay", "1h", "--queue", "{queue}"];

/// A job of the batch `invoices` waits.
const BATCHED: Prepare = Prepare::Input(
    &[
        "enqueue",
        "--bulk",
        "--batch",
        "invoices",
        "--follow",
        "{\"type\":\"invoice.total\"}",
        "--queue",
        "{queue}",
    ],
    "{\"type\":\"invoice\",\"id\":\"invoice-1\"}\n",
);

/// One of the steps of the job `order-7` needs a decision.
const LEDGER: Prepare = Prepare::Redis(&[&[
    "HSET",
    "sf:{{queue}}:steps:order-7",
    "plan",
    "charge once\nmail auto charge",
    "charge:state",
    "failed",
    "charge:attempts",
    "1",
    "v",
    "2",
]]);

pub(super) fn cases() -> Vec<Case> {
    [looks(), changes_of_one(), changes_of_many()].into_iter().flatten().collect()
}

fn look(
    operation: &'static Operation,
    prepare: Prepare,
    command: &'static [&'static str],
    path: &'static str,
) -> Case {
    Case { operation, prepare, command, method: Method::GET, path, body: Value::Null }
}

fn looks() -> Vec<Case> {
    vec![
        look(
            &STATUS,
            Prepare::Commands(&[DELAYED]),
            &["status", "order-8", "--queue", "{queue}"],
            "queues/{queue}/jobs/order-8",
        ),
        look(
            &JOBS,
            Prepare::Commands(&[DELAYED, WAITING]),
            &["jobs", "--where", "payload.to=ann", "--queue", "{queue}"],
            "queues/{queue}/jobs?where=payload.to%3Dann",
        ),
        look(
            &DELAYED_LIST,
            Prepare::Commands(&[DELAYED, WAITING]),
            &["delayed", "list", "--queue", "{queue}"],
            "queues/{queue}/delayed",
        ),
        look(
            &BATCH,
            BATCHED,
            &["batch", "invoices", "--queue", "{queue}"],
            "queues/{queue}/batches/invoices",
        ),
        look(
            &STEPS,
            LEDGER,
            &["steps", "order-7", "--queue", "{queue}"],
            "queues/{queue}/jobs/order-7/steps",
        ),
    ]
}

fn changes_of_one() -> Vec<Case> {
    vec![
        Case {
            operation: &CANCEL,
            prepare: Prepare::Commands(&[WAITING]),
            command: &["cancel", "order-7", "--queue", "{queue}", "--by", WHO, "--reason", "she has left"],
            method: Method::POST,
            path: "queues/{queue}/jobs/order-7/cancel",
            body: json!({"reason": "she has left"}),
        },
        Case {
            operation: &RUN_NOW,
            prepare: Prepare::Commands(&[DELAYED]),
            command: &["run-now", "order-8", "--queue", "{queue}", "--by", WHO, "--reason", "it is urgent"],
            method: Method::POST,
            path: "queues/{queue}/jobs/order-8/run-now",
            body: json!({"reason": "it is urgent"}),
        },
        Case {
            operation: &DELAYED_EDIT,
            prepare: Prepare::Commands(&[DELAYED]),
            command: &[
                "delayed",
                "edit",
                "order-8",
                "--delay",
                "2h",
                "--payload",
                "{\"to\":\"bob\"}",
                "--queue",
                "{queue}",
                "--by",
                WHO,
                "--reason",
                "a typo",
            ],
            method: Method::PATCH,
            path: "queues/{queue}/jobs/order-8",
            body: json!({"delay": "2h", "payload": {"to": "bob"}, "reason": "a typo"}),
        },
    ]
}

fn changes_of_many() -> Vec<Case> {
    vec![
        Case {
            operation: &CANCEL,
            prepare: Prepare::Commands(&[WAITING, DELAYED]),
            command: &[
                "cancel",
                "--type",
                "mail",
                "--queue",
                "{queue}",
                "--yes",
                "--by",
                WHO,
                "--reason",
                "she has left",
            ],
            method: Method::POST,
            path: "queues/{queue}/bulk/cancel",
            body: json!({"filter": {"type": "mail"}, "reason": "she has left"}),
        },
        Case {
            operation: &RUN_NOW,
            prepare: Prepare::Commands(&[WAITING, DELAYED]),
            command: &[
                "run-now",
                "--all",
                "--state",
                "scheduled",
                "--queue",
                "{queue}",
                "--yes",
                "--by",
                WHO,
                "--reason",
                "it is back",
            ],
            method: Method::POST,
            path: "queues/{queue}/bulk/run-now",
            body: json!({"all": true, "state": ["scheduled"], "reason": "it is back"}),
        },
        Case {
            operation: &MOVE,
            prepare: Prepare::Commands(&[WAITING, DELAYED]),
            command: &[
                "move",
                "--to",
                "{queue}-slow",
                "--all",
                "--queue",
                "{queue}",
                "--yes",
                "--unserved",
                "--by",
                WHO,
                "--reason",
                "they are slow",
            ],
            method: Method::POST,
            path: "queues/{queue}/bulk/move",
            body: json!({"to": "{queue}-slow", "all": true, "confirm": true, "reason": "they are slow"}),
        },
    ]
}
