//! A console and a program that asks it.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::to_bytes;
use hyper::Method;
use hyper::header::HeaderMap;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::http::{Client, Request};
use harness::process::{Launch, Worker, peak_memory};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// How long anything may take on a very busy machine.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// The accounts, by their tokens. `limited` may only use the queue `mail`.
const ACCOUNTS: [(&str, &str); 6] = [
    ("admin", "role = \"admin\""),
    ("blind", "role = \"admin\"\npayloads = false"),
    ("submitter", "role = \"submitter\""),
    ("viewer", "role = \"viewer\""),
    ("reader", "role = \"viewer\"\npayloads = true"),
    ("limited", "queues = { mail = \"operator\" }"),
];

/// A running console.
pub(super) struct Console {
    process: Worker,
    address: String,
    http: Client,
    _folder: TempDir,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    /// Its body.
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its body, if it has this status.
    #[track_caller]
    pub(super) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// Which field it says is wrong. It is a problem document with this status.
    #[track_caller]
    pub(super) fn wrong(&self, status: u16) -> String {
        let problem = self.problem(status);
        problem["errors"][0]["at"].as_str().unwrap_or_else(|| panic!("no field: {self:?}")).to_owned()
    }

    /// Its problem. It has this status.
    #[track_caller]
    pub(super) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{self:?}");
        for name in ["type", "title", "detail"] {
            assert!(problem[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {self:?}");
        }
        problem
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Console {
    /// Starts a console on this server.
    pub(super) async fn start(server: &RedisServer) -> Self {
        Self::start_with(server, "").await
    }

    /// Starts a console with more configuration.
    pub(super) async fn start_with(server: &RedisServer, config: &str) -> Self {
        Self::start_at(&server.url(), config).await
    }

    /// Starts a console of the server at this address.
    pub(super) async fn start_at(url: &str, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let accounts = folder.path().join("accounts.toml");
        std::fs::write(&accounts, accounts_file()).unwrap();
        let config = format!(
            "[console]\naccounts_file = {:?}\nrequests_per_second = 10000\n{config}",
            accounts.to_str().unwrap()
        );
        let args = ["--config", "{config}", "--redis", url, "console", "--listen", "127.0.0.1:0"];
        let process = Launch::new(&args).config(&config).start();
        let address = until_async("the console to listen", SOON, async || {
            let stdout = process.stdout();
            let address = stdout.lines().find_map(|line| line.strip_prefix("console: "))?;
            Some(address.trim_end_matches('/').to_owned())
        })
        .await;
        Self { process, address, http: Client::new(), _folder: folder }
    }

    /// The address of the console, such as `http://127.0.0.1:9470`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The most memory that the console has used so far, in bytes.
    pub(super) fn memory(&self) -> u64 {
        peak_memory(self.process.pid())
    }

    /// Prepares a request of the administrator.
    pub(super) fn ask(&self, method: Method, path: &str) -> Request {
        self.ask_as("admin", method, path)
    }

    /// Prepares a request of somebody.
    pub(super) fn ask_as(&self, token: &str, method: Method, path: &str) -> Request {
        self.open(method, path).header("authorization", &format!("Bearer {token}"))
    }

    /// Prepares a request of nobody in particular.
    pub(super) fn open(&self, method: Method, path: &str) -> Request {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v1/{path}") };
        self.http.request(method, format!("{}{path}", self.address))
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        send(self.ask(Method::GET, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(self.ask(Method::POST, path).json(body)).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Answer {
        send(self.ask(Method::PUT, path).json(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        send(self.ask(Method::DELETE, path)).await
    }

    /// Waits until the task is over that an answer says has begun, and returns it.
    pub(super) async fn ended(&self, begun: &Answer) -> Value {
        assert_eq!(begun.status, 202, "{begun:?}");
        let place = begun.header("location").unwrap_or_else(|| panic!("no place: {begun:?}"));
        until_async("the task to be over", SOON, async || {
            let task = self.get(place).await.ok(200);
            let is_over = ["done", "stopped", "failed"].iter().any(|state| task["state"] == *state);
            is_over.then_some(task)
        })
        .await
    }

    /// Submits a job to a queue, and returns its id.
    pub(super) async fn submit(&self, queue: &str, job: &Value) -> String {
        let answer = self.post(&format!("queues/{queue}/jobs"), job).await;
        answer.ok(201)["id"].as_str().unwrap().to_owned()
    }
}

/// Sends a request, and reads the answer.
pub(super) async fn send(request: Request) -> Answer {
    let (head, body) = request.send().await.into_parts();
    let body = tokio::time::timeout(SOON, to_bytes(body, usize::MAX))
        .await
        .expect("the whole answer in time")
        .unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    Answer { status: head.status.as_u16(), headers: head.headers, text }
}

/// How many more programs there are that may see everything.
pub(super) const WATCHERS: usize = 6;

/// The token of one of the programs that may see everything.
pub(super) fn watcher(nth: usize) -> String {
    format!("watcher-{}", nth % WATCHERS)
}

fn accounts_file() -> String {
    let mut text = String::new();
    let watchers = (0..WATCHERS).map(|nth| (watcher(nth), "role = \"viewer\""));
    let named = ACCOUNTS.into_iter().map(|(token, rights)| (token.to_owned(), rights));
    for (token, rights) in named.chain(watchers) {
        let digest = Sha256::digest(token.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(text, "[tokens.{token}]\nsha256 = \"{digest}\"\n{rights}\n\n").unwrap();
    }
    text
}

/// The values of a key of the items of a list.
pub(super) fn values(list: &Value, key: &str) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
}
