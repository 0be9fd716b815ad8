//! Every operation comes through two doors, the command line and the HTTP API, and does the same: two queues that were prepared
//! in the same way are then in the same state, their audits have the same notes, and the reports are equal.

mod dead;
mod gates;
mod queues;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{OPERATIONS, Operation};

use super::client::{Console, send, values};
use harness::desk;
use harness::redis_server::RedisServer;

/// Who uses both doors.
const WHO: &str = "admin";

/// The state of a queue that every operation is compared by, besides what a case names.
const STATE: [&str; 4] =
    ["queues/{queue}/gates", "queues/{queue}/jobs", "queues/{queue}/dead", "queues/{queue}/audit"];

/// Who deleted a queue, as a part of its state.
const DELETIONS: &str = "deletions";

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
    /// One dead letter, [`LETTER`].
    Letter,
}

/// A dead letter that somebody wrote by hand, of the job `order-7`.
const LETTER: &str = "1700000000000-0";

fn cases() -> Vec<Case> {
    [dead::cases(), gates::cases(), queues::cases()].into_iter().flatten().collect()
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
            Prepare::Letter => {
                let (key, letter) = (format!("sf:{{{queue}}}:dead"), ["type", "mail", "id", "order-7"]);
                let more = ["payload", r#"{"to":"ann"}"#, "dead_reason", "fatal", "dead_error", "no"];
                self.server.cmd(&[&["XADD", &key, LETTER], &letter[..], &more].concat());
            }
        }
    }

    /// Goes through the command line, and returns the report.
    fn command(&self, words: &[&str], queue: &str) -> Value {
        let words: Vec<String> = words.iter().map(|word| word.replace("{queue}", queue)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        desk::json(&self.server, &words)
    }

    /// Goes through the API, and returns the report.
    async fn request(&self, case: &Case, queue: &str) -> Value {
        let path = case.path.replace("{queue}", queue);
        let request = self.console.ask(case.method.clone(), &path);
        let body = case.body.to_string().replace("{queue}", queue);
        let body: Value = serde_json::from_str(&body).unwrap();
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = send(request).await;
        assert!((200..300).contains(&answer.status), "{}: {answer:?}", case.operation.name);
        answer.json()
    }

    /// What is in a queue, as the API shows it, and who deleted it. Lists without items are left out: for some seconds, a console
    /// still knows a queue that was deleted.
    async fn state(&self, queue: &str) -> Value {
        let mut state = serde_json::Map::new();
        for path in STATE {
            let answer = self.console.get(&path.replace("{queue}", queue)).await;
            let list = if answer.status == 404 { Value::Null } else { answer.ok(200) };
            if list["items"].as_array().is_some_and(|items| !items.is_empty()) {
                state.insert(path.to_owned(), list);
            }
        }
        let mut deletions = self.command(&["audit", "--deletions"], queue);
        let notes = deletions["items"].as_array_mut().unwrap();
        notes.retain(|note| note["target"] == queue);
        state.insert(DELETIONS.to_owned(), deletions);
        Value::Object(state)
    }
}

/// What people did, of a state.
fn noted(state: &Value) -> Vec<String> {
    let lists = ["queues/{queue}/audit", DELETIONS].into_iter().filter_map(|list| state.get(list));
    lists.flat_map(|list| values(list, "what")).collect()
}

/// Replaces what differs between two queues although nothing else does: their names, entries, ids and times.
fn comparable(value: Value, queue: &str) -> Value {
    const FLEETING: [&str; 8] =
        ["_ms", "_since", "until", "at", "entry", "fingerprint", "created", "letter"];
    // Older programs read these keys, which only the command line has beside `items`.
    const FORMER: [&str; 2] = ["events", "letters"];
    match value {
        Value::String(text) => json!(text.replace(queue, "{queue}")),
        Value::Array(items) => items.into_iter().map(|item| comparable(item, queue)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !FORMER.contains(&name.as_str()));
            let fields = fields.map(|(name, value)| {
                let is_fleeting = FLEETING.iter().any(|end| name.ends_with(end)) && !value.is_null();
                let value = if is_fleeting { json!("…") } else { comparable(value, queue) };
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
        let is_noted = noted(&states[0]).iter().any(|what| what == name);
        assert_eq!(is_noted, case.operation.effect.is_noted(), "{name}: the audit");
    }
}
