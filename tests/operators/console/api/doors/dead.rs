//! Dead letters through both doors.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{
    DEAD_DROP, DEAD_EDIT, DEAD_EXPORT, DEAD_GROUPS, DEAD_LIST, DEAD_REPLAY, DEAD_SHOW, Operation,
};

use super::{Case, LETTER, Prepare, WHO};

/// A look at one letter.
fn look(operation: &'static Operation, command: &'static [&'static str], path: &'static str) -> Case {
    let (method, body) = (Method::GET, Value::Null);
    Case { operation, prepare: Prepare::Letter, command, method, path, body }
}

/// A change of one letter, for the reason `it is fixed`.
fn change(
    operation: &'static Operation,
    command: &'static [&'static str],
    (method, path): (Method, &'static str),
    body: Value,
) -> Case {
    Case { operation, prepare: Prepare::Letter, command, method, path, body }
}

pub(super) fn cases() -> Vec<Case> {
    const WHY: &str = "it is fixed";
    let reason = || json!({"reason": WHY});
    let edited = json!({"set": ["payload.to=bob"], "fields": {"h.tenant": "9"}, "reason": WHY});
    vec![
        look(&DEAD_LIST, &["dead", "list", "--queue", "{queue}"], "queues/{queue}/dead"),
        look(&DEAD_GROUPS, &["dead", "groups", "--queue", "{queue}"], "queues/{queue}/dead/groups"),
        look(
            &DEAD_SHOW,
            &["dead", "show", LETTER, "--queue", "{queue}"],
            "queues/{queue}/dead/1700000000000-0",
        ),
        look(
            &DEAD_EXPORT,
            &["dead", "export", "--all", "--queue", "{queue}"],
            "queues/{queue}/dead/export?all=true",
        ),
        change(
            &DEAD_EDIT,
            &[
                "dead",
                "edit",
                LETTER,
                "--set",
                "payload.to=bob",
                "--set",
                "h.tenant=9",
                "--queue",
                "{queue}",
                "--by",
                WHO,
                "--reason",
                WHY,
            ],
            (Method::PATCH, "queues/{queue}/dead/1700000000000-0"),
            edited,
        ),
        change(
            &DEAD_REPLAY,
            &["dead", "replay", LETTER, "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            (Method::POST, "queues/{queue}/dead/1700000000000-0/replay"),
            reason(),
        ),
        change(
            &DEAD_DROP,
            &["dead", "drop", LETTER, "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            (Method::POST, "queues/{queue}/dead/1700000000000-0/drop"),
            reason(),
        ),
    ]
}
