//! Tasks through both doors. Those of other operations are among the cases of these.

use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{
    DEAD_DROP, Operation, TASKS_LIST, TASKS_PAUSE, TASKS_RESUME, TASKS_SHOW, TASKS_STOP, TASKS_UNDO,
};

use super::{Case, Prepare, WHO};

const WHY: &str = "it was a mistake";

const WAITING: &[&str] = &["enqueue", "mail", "{}", "--id", "order-7", "--queue", "{queue}"];

/// Begins a task that nobody carries out.
const BEGUN: &[&str] = &["cancel", "--all", "--yes", "--detach", "--queue", "{queue}", "--by", WHO];

const PAUSED: &[&str] = &["tasks", "pause", "{task}", "--queue", "{queue}", "--by", WHO];

const MOVED: &[&str] =
    &["move", "--to", "{queue}-slow", "--all", "--yes", "--unserved", "--queue", "{queue}", "--by", WHO];

fn look(operation: &'static Operation, command: &'static [&'static str], path: &'static str) -> Case {
    let prepare = Prepare::Commands(&[WAITING, BEGUN]);
    Case { operation, prepare, command, method: Method::GET, path, body: Value::Null }
}

fn change(
    operation: &'static Operation,
    prepare: &'static [&'static [&'static str]],
    command: &'static [&'static str],
    path: &'static str,
) -> Case {
    let (prepare, body) = (Prepare::Commands(prepare), json!({"reason": WHY}));
    Case { operation, prepare, command, method: Method::POST, path, body }
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        look(&TASKS_LIST, &["tasks", "list", "--queue", "{queue}"], "queues/{queue}/tasks"),
        look(&TASKS_SHOW, &["tasks", "show", "{task}", "--queue", "{queue}"], "queues/{queue}/tasks/{task}"),
        change(
            &TASKS_PAUSE,
            &[WAITING, BEGUN],
            &["tasks", "pause", "{task}", "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            "queues/{queue}/tasks/{task}/pause",
        ),
        change(
            &TASKS_RESUME,
            &[WAITING, BEGUN, PAUSED],
            &["tasks", "resume", "{task}", "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            "queues/{queue}/tasks/{task}/resume",
        ),
        change(
            &TASKS_STOP,
            &[WAITING, BEGUN],
            &["tasks", "stop", "{task}", "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            "queues/{queue}/tasks/{task}/stop",
        ),
        change(
            &TASKS_UNDO,
            &[WAITING, MOVED],
            &["tasks", "undo", "{task}", "--queue", "{queue}", "--by", WHO, "--reason", WHY],
            "queues/{queue}/tasks/{task}/undo",
        ),
        Case {
            operation: &DEAD_DROP,
            prepare: Prepare::Letter,
            command: &[
                "dead", "drop", "--type", "mail", "--yes", "--queue", "{queue}", "--by", WHO, "--reason", WHY,
            ],
            method: Method::POST,
            path: "queues/{queue}/bulk/drop",
            body: json!({"filter": {"type": "mail"}, "reason": WHY}),
        },
    ]
}
