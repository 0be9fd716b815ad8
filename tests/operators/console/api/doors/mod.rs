//! Every operation comes through two doors, the command line and the HTTP API, and does the same: two queues that were prepared
//! in the same way are then in the same state, their audits have the same notes, and the reports are equal.

mod gates;
mod jobs;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{Effect, OPERATIONS, Operation};

use super::client::{Console, send};
use harness::desk;
use harness::redis_server::RedisServer;

/// Who uses both doors.
const WHO: &str = "admin";

/// The state of a queue that every operation is compared by, besides what a case names.
const STATE: [&str; 4] =
    ["queues/{queue}/gates", "queues/{queue}/jobs", "queues/{queue}/dead", "queues/{queue}/audit"];

/// Both doors, on one server.
struct Doors {
    server: RedisServer,
    console: Console,
}

/// One operation, as each door is asked for it. `{queue}` stands for the queue, and `{id}` for what the preparation returned.
struct Case {
    operation: &'static Operation,
    /// Prepares a queue, and returns what the operation is about, or nothing.
    prepare: Prepare,
    command: &'static [&'static str],
    method: Method,
    path: &'static str,
    body: Value,
}

/// What a case needs.
enum Prepare {
    /// An empty queue.
    Nothing,
    /// The operations of these cases, by the command line.
    Commands(&'static [&'static [&'static str]]),
    /// What this command makes of this input.
    Input(&'static [&'static str], &'static str),
    /// What these commands write to Redis.
    Redis(&'static [&'static [&'static str]]),
}

fn cases() -> Vec<Case> {
    [gates::cases(), jobs::cases()].into_iter().flatten().collect()
}

/// Puts the name of a queue in its place.
fn filled(words: &[&str], queue: &str) -> Vec<String> {
    words.iter().map(|word| word.replace("{queue}", queue)).collect()
}

/// Puts the name of a queue in its place, anywhere in a body.
fn filled_body(body: &Value, queue: &str) -> Value {
    serde_json::from_str(&body.to_string().replace("{queue}", queue)).unwrap()
}

impl Doors {
    async fn open() -> Self {
        let server = RedisServer::start();
        let console = Console::start(&server).await;
        Self { server, console }
    }

    fn prepare(&self, case: &Case, queue: &str) {
        match case.prepare {
            Prepare::Nothing => {}
            Prepare::Commands(commands) => {
                for command in commands {
                    self.command(command, queue);
                }
            }
            Prepare::Input(command, input) => {
                let words = filled(command, queue);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = desk::sf_with(&self.server, &words, input.as_bytes());
                assert_eq!(output.code, Some(0), "{output:?}");
            }
            Prepare::Redis(commands) => {
                for command in commands {
                    let words = filled(command, queue);
                    self.server.cmd(&words.iter().map(String::as_str).collect::<Vec<_>>());
                }
            }
        }
    }

    /// Goes through the command line, and returns the report.
    fn command(&self, words: &[&str], queue: &str) -> Value {
        let words = filled(words, queue);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        desk::json(&self.server, &words)
    }

    /// Goes through the API, and returns the report.
    async fn request(&self, case: &Case, queue: &str) -> Value {
        let path = case.path.replace("{queue}", queue);
        let request = self.console.ask(case.method.clone(), &path);
        let request = if case.body.is_null() { request } else { request.json(&filled_body(&case.body, queue)) };
        let answer = send(request).await;
        assert!((200..300).contains(&answer.status), "{}: {answer:?}", case.operation.name);
        answer.json()
    }

    /// What is in a queue, as the API shows it.
    async fn state(&self, queue: &str) -> Value {
        let mut state = serde_json::Map::new();
        for path in STATE {
            let answer = self.console.get(&path.replace("{queue}", queue)).await;
            let page = if answer.status == 404 { Value::Null } else { answer.ok(200) };
            // A console that has not listed the queues lately says that there is no such queue.
            let is_empty = page["items"].as_array().is_none_or(Vec::is_empty);
            state.insert(path.to_owned(), if is_empty { Value::Null } else { page });
        }
        Value::Object(state)
    }
}

/// Replaces what differs between two queues although nothing else does: their names, entries, ids and times.
fn comparable(value: Value, queue: &str) -> Value {
    const ENDS: [&str; 2] = ["_ms", "_since"];
    const NAMES: [&str; 8] = ["until", "at", "since", "created", "due", "age", "entry", "fingerprint"];
    match value {
        Value::String(text) => json!(text.replace(queue, "{queue}")),
        Value::Array(items) => items.into_iter().map(|item| comparable(item, queue)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let is_fleeting = ENDS.iter().any(|end| name.ends_with(end)) || NAMES.contains(&&*name);
                let is_shown = value.is_null() || !is_fleeting;
                let value = if is_shown { comparable(value, queue) } else { json!("…") };
                (name, value)
            });
            Value::Object(fields.collect())
        }
        other => other,
    }
}

#[test]
fn every_operation_of_the_table_has_a_case() {
    let cases: BTreeSet<&str> = cases().iter().map(|case| case.operation.name).collect();
    let operations: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
    assert_eq!(cases, operations);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_doors_do_the_same() {
    let doors = Doors::open().await;
    for (nth, case) in cases().iter().enumerate() {
        let name = case.operation.name;
        let (typed, asked) = (format!("cli-{nth}"), format!("api-{nth}"));
        for queue in [&typed, &asked] {
            doors.prepare(case, queue);
        }
        let by_command = comparable(doors.command(case.command, &typed), &typed);
        let by_request = comparable(doors.request(case, &asked).await, &asked);
        assert_eq!(by_command, by_request, "{name}: the report");
        let states = [&typed, &asked].map(async |queue| comparable(doors.state(queue).await, queue));
        let states = join_all(states).await;
        assert_eq!(states[0], states[1], "{name}: the state");
        let notes = states[0]["queues/{queue}/audit"]["items"].as_array();
        let is_noted = notes.is_some_and(|notes| notes.iter().any(|note| note["what"] == name));
        assert_eq!(is_noted, case.operation.effect != Effect::None, "{name}: the audit");
    }
}
