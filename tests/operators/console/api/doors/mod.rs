//! Every operation comes through two doors, the command line and the HTTP API, and does the same: two queues that were prepared
//! in the same way are then in the same state, their audits have the same notes, and the reports are equal.

mod alerts;
mod cron;
mod dead;
mod gates;
mod jobs;
mod queues;
mod steps;
mod tasks;
mod workers;

use std::collections::BTreeSet;

use futures_util::future::join_all;
use hyper::Method;
use serde_json::{Value, json};
use streamfleet_operations::{ALERTS_TEST, OPERATIONS, Operation};

use super::client::{Console, SOON, send, values};
use crate::console::trouble;
use harness::cli::{self, launch};
use harness::redis_server::RedisServer;
use harness::wait::{until, until_async};

/// Who uses both doors.
const WHO: &str = "admin";

/// The state of a queue that every operation is compared by, besides what a case names.
const STATE: [&str; 7] = [
    "queues/{queue}/gates",
    "queues/{queue}/jobs",
    "queues/{queue}/dead",
    "queues/{queue}/cron",
    "queues/{queue}/audit",
    "incidents",
    "workers",
];

/// What people did about incidents, which the API does not show.
const ALERTS_AUDIT: &str = "audit --alerts";

/// Who deleted queues.
const DELETIONS: &str = "audit --deletions";

/// Both doors, on one server.
struct Doors {
    server: RedisServer,
    console: Console,
}

/// One operation, as each door is asked for it. `{queue}` stands for the queue, `{id}` for the incident about it, and `{task}` for its
/// newest task.
struct Case {
    operation: &'static Operation,
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
    /// A live worker that serves only the queue and has its name, and then the operations of these cases, by the command line.
    Worker(&'static [&'static [&'static str]]),
    /// What these commands write to Redis.
    Redis(&'static [&'static [&'static str]]),
    /// One dead letter, [`LETTER`].
    Letter,
    /// An open incident about the queue. `{id}` is its id.
    Incident,
    /// A dead job, [`steps::JOB`], whose step waits for a decision.
    Undecided,
}

/// A dead letter that somebody wrote by hand, of the job `order-7`.
const LETTER: &str = "1700000000000-0";

fn cases() -> Vec<Case> {
    let all = [
        alerts::cases(),
        cron::cases(),
        dead::cases(),
        gates::cases(),
        jobs::cases(),
        queues::cases(),
        steps::cases(),
        tasks::cases(),
        // What a state has of workers would change if others were live.
        workers::cases(),
    ];
    all.into_iter().flatten().collect()
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
                let words = all_filled(command, queue);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = cli::sf_with(&self.server, &words, input.as_bytes());
                assert_eq!(output.code, Some(0), "{output:?}");
            }
            Prepare::Worker(commands) => {
                self.write(workers::LIVE, queue);
                for command in commands {
                    self.command(command, queue);
                }
            }
            Prepare::Redis(commands) => {
                for command in commands {
                    self.write(command, queue);
                }
            }
            Prepare::Letter => {
                let (key, letter) = (format!("sf:{{{queue}}}:dead"), ["type", "mail", "id", "order-7"]);
                let more = ["payload", r#"{"to":"ann"}"#, "dead_reason", "fatal", "dead_error", "no"];
                self.server.cmd(&[&["XADD", &key, LETTER], &letter[..], &more].concat());
            }
            Prepare::Incident => trouble::open(&self.server, &incident_of(queue), queue),
            Prepare::Undecided => self.bury_undecided(queue),
        }
    }

    /// Sends a command to Redis.
    fn write(&self, command: &[&str], queue: &str) {
        let words = all_filled(command, queue);
        self.server.cmd(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Runs a worker until its only step has failed, which must not run twice.
    fn bury_undecided(&self, queue: &str) {
        let config = format!(
            "[telemetry]\nlisten = \"off\"\n[queues.{queue}]\n[types.gift.steps.charge]\nkind = \"once\"\n\
             handler = {{ exec = {{ command = [\"false\"] }} }}\n"
        );
        let worker = launch(&self.server, &["--config", "{config}", "worker", "--queues", queue]);
        let worker = worker.config(&config).start();
        self.command(&["enqueue", "gift", "--id", steps::JOB, "--queue", "{queue}"], queue);
        until("the step to need a decision", SOON, || {
            self.command(&["dead", "list", "--queue", "{queue}"], queue)["items"][0]["id"] == steps::JOB
        });
        worker.term();
        assert!(worker.wait_exit(SOON).success(), "{}", worker.stderr());
    }

    /// Goes through the command line, and returns the report.
    fn command(&self, words: &[&str], queue: &str) -> Value {
        let words: Vec<String> =
            words.iter().map(|word| self.with_task(filled(word, queue), queue)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cli::json(&self.server, &words)
    }

    /// Names the newest task of a queue where a text means it.
    fn with_task(&self, text: String, queue: &str) -> String {
        if !text.contains("{task}") {
            return text;
        }
        let tasks = cli::json(&self.server, &["tasks", "list", "--queue", queue]);
        text.replace("{task}", tasks["items"][0]["id"].as_str().expect("a task"))
    }

    /// The report on a command of a case: that on its task, if it has begun one and waited for it.
    fn report(&self, case: &Case, queue: &str) -> Value {
        let report = self.command(case.command, queue);
        match report["task"].as_str() {
            Some(task) => cli::json(&self.server, &["tasks", "show", task, "--queue", queue]),
            None => report,
        }
    }

    /// Goes through the API, and returns the report: that on the task at its end, if one has begun.
    async fn request(&self, case: &Case, queue: &str) -> Value {
        let path = self.with_task(filled(case.path, queue), queue);
        if path.contains("?queue=") {
            // For a second, a console remembers which queues there are.
            until_async("the console to know the queue", SOON, async || {
                let known = self.console.get("queues").await.ok(200);
                values(&known, "queue").iter().any(|known| known == queue)
            })
            .await;
        }
        let request = self.console.ask(case.method.clone(), &path);
        let request =
            if case.body.is_null() { request } else { request.json(&body_filled(&case.body, queue)) };
        let answer = send(request).await;
        assert!((200..300).contains(&answer.status), "{}: {answer:?}", case.operation.name);
        if answer.status == 202 { self.console.ended(&answer).await } else { answer.json() }
    }

    /// What people noted in one of the audits of all queues about this target.
    fn notes(&self, audit: &str, target: &str) -> Value {
        let mut audit = cli::json(&self.server, &["audit", audit]);
        let notes = audit["items"].as_array_mut().expect("an audit is a list");
        notes.retain(|note| note["target"] == target);
        audit
    }

    /// What is in a queue, as the API shows it, and what people did. Lists without items are left out: for some seconds, a console
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
        let incident = format!("incident {}", incident_of(queue));
        state.insert(ALERTS_AUDIT.to_owned(), self.notes("--alerts", &incident));
        state.insert(DELETIONS.to_owned(), self.notes("--deletions", queue));
        Value::Object(state)
    }
}

/// The id of the incident about a queue.
fn incident_of(queue: &str) -> String {
    let id = queue.bytes().fold(7_u32, |id, byte| id.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{id:08x}")
}

/// What a case says, for this queue.
fn filled(text: &str, queue: &str) -> String {
    text.replace("{queue}", queue).replace("{id}", &incident_of(queue))
}

/// The words of a command, for this queue.
fn all_filled(words: &[&str], queue: &str) -> Vec<String> {
    words.iter().map(|word| filled(word, queue)).collect()
}

/// A body, for this queue.
fn body_filled(body: &Value, queue: &str) -> Value {
    serde_json::from_str(&filled(&body.to_string(), queue)).unwrap()
}

/// Whether a text is a time of RFC 3339 in UTC.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z')
}

/// Replaces what differs between two queues although nothing else does: their names, entries, ids and times. A list of all queues
/// or of all workers keeps only what is about this one.
fn comparable(value: Value, queue: &str) -> Value {
    const ENDS: [&str; 2] = ["_ms", "_since"];
    const NAMES: [&str; 12] = [
        "from",
        "until",
        "at",
        "since",
        "created",
        "due",
        "age",
        "entry",
        "fingerprint",
        "handled",
        "letter",
        "expires_at",
    ];
    // Older programs read these keys, which only the command line has beside `items`.
    const FORMER: [&str; 3] = ["events", "letters", "live"];
    // Only a console knows the configuration of the queues.
    const CONSOLE: [&str; 1] = ["objective_ms"];
    match value {
        Value::String(text) if is_time(&text) => json!("…"),
        Value::String(text) => {
            let text = text.replace(queue, "{queue}").replace(&incident_of(queue), "{id}");
            // Ids of tasks are random.
            let is_task = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            let words = text.split(' ').map(|word| if is_task(word) { "{task}" } else { word });
            let text = words.collect::<Vec<_>>().join(" ");
            // What follows is random.
            json!(text.split_once(".run-").map_or(&*text, |(name, _)| name))
        }
        Value::Array(items) => {
            let is_own = |item: &Value| {
                item["queue"].as_str().is_none_or(|of| of == queue)
                    && item["queues"].as_array().is_none_or(|of| of.iter().any(|of| of == queue))
            };
            items.into_iter().filter(is_own).map(|item| comparable(item, queue)).collect()
        }
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .filter(|(name, _)| !FORMER.contains(&name.as_str()) && !CONSOLE.contains(&name.as_str()));
            let fields = fields.map(|(name, value)| {
                // In most reports, it says whether or how much something was changed.
                let is_time = name == "changed" && value.is_string();
                let is_fleeting = ENDS.iter().any(|end| name.ends_with(end)) || NAMES.contains(&&*name);
                let is_fleeting = is_fleeting || is_time;
                let is_shown = value.is_null() || !is_fleeting;
                let value = if is_shown { comparable(value, queue) } else { json!("…") };
                (name, value)
            });
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[test]
fn every_operation_of_the_table_has_a_case() {
    let cases: BTreeSet<&str> = cases().iter().map(|case| case.operation.name).collect();
    let of_both =
        OPERATIONS.iter().filter(|operation| operation.doors == streamfleet_operations::Doors::Both);
    // A message needs a sink, and the history a database: they have tests of their own.
    let has_own = |name: &str| name == ALERTS_TEST.name || name.starts_with("history ");
    let of_both = of_both.filter(|operation| !has_own(operation.name));
    let operations: BTreeSet<&str> = of_both.map(|operation| operation.name).collect();
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
        let by_command = comparable(doors.report(case, &typed), &typed);
        let by_request = comparable(doors.request(case, &asked).await, &asked);
        assert_eq!(by_command, by_request, "{name}: the report");
        let states = [&typed, &asked].map(async |queue| comparable(doors.state(queue).await, queue));
        let states = join_all(states).await;
        assert_eq!(states[0], states[1], "{name}: the state");
        let audits = ["queues/{queue}/audit", ALERTS_AUDIT, DELETIONS];
        let notes = audits.map(|audit| states[0][audit]["items"].as_array());
        let is_noted = notes.into_iter().flatten().flatten().any(|note| note["what"] == name);
        assert_eq!(is_noted, case.operation.effect.is_noted(), "{name}: the audit");
    }
}
