//! Live and past events.

use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use hyper::Method;
use serde_json::{Value, json};

use super::client::{Console, SOON, send};
use super::http::Request;
use harness::cli;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// A client that listens.
pub(super) struct Listener {
    response: BodyDataStream,
    text: String,
}

/// A message.
#[derive(Debug)]
pub(super) struct Message {
    id: String,
    pub(super) data: Value,
}

impl Listener {
    pub(super) async fn start(request: Request) -> Self {
        let response = request.send().await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut listener = Self { response: response.into_body().into_data_stream(), text: String::new() };
        // The first message says that the client is heard from now on.
        listener.block().await;
        listener
    }

    /// Reads up to an empty line.
    async fn block(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return block;
            }
            let piece = tokio::time::timeout(SOON, self.response.next()).await.unwrap().unwrap().unwrap();
            self.text += &String::from_utf8_lossy(&piece);
        }
    }

    pub(super) async fn next(&mut self) -> Message {
        loop {
            let block = self.block().await;
            let field =
                |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let Some(data) = field("data: ") {
                let data = serde_json::from_str(&data).unwrap();
                return Message { id: field("id: ").unwrap_or_default(), data };
            }
        }
    }
}

pub(super) fn publish(server: &RedisServer, queue: &str, id: &str) {
    let key = format!("sf:{{{queue}}}:events");
    server.cmd(&["XADD", &key, "*", "event", "failed_handle", "id", id, "attempt", "3", "error", "no ann"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_get_every_event_and_redis_is_asked_once() {
    const CLIENTS: usize = 50;
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test"})).await;
    let mut listeners = Vec::new();
    for _ in 0..CLIENTS {
        listeners.push(Listener::start(console.ask(Method::GET, "queues/default/events")).await);
    }
    let calls = server.calls("xrange");
    publish(&server, "default", "one");
    publish(&server, "default", "two");
    for listener in &mut listeners {
        for id in ["one", "two"] {
            let message = listener.next().await;
            assert_eq!(
                (&message.data["id"], &message.data["queue"]),
                (&Value::from(id), &Value::from("default"))
            );
            assert_eq!(
                (&message.data["attempt"], &message.data["error"]),
                (&Value::from(3), &Value::from("no ann"))
            );
            assert_eq!(message.id, message.data["entry"]);
        }
    }
    let asked = server.calls("xrange") - calls;
    let most = 4 * SOON.as_secs();
    assert!(asked <= most, "{asked} calls for {CLIENTS} clients");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_again_gets_what_it_has_missed() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test"})).await;
    publish(&server, "default", "zero");
    let path = "queues/default/events";
    let mut listener = Listener::start(console.ask(Method::GET, path)).await;
    publish(&server, "default", "one");
    let last = listener.next().await;
    drop(listener);
    publish(&server, "default", "two");
    let mut again = Listener::start(console.ask(Method::GET, path).header("Last-Event-ID", &last.id)).await;
    assert_eq!(again.next().await.data["id"], "two");
    publish(&server, "default", "three");
    assert_eq!(again.next().await.data["id"], "three");
    let mut from = Listener::start(console.ask(Method::GET, &format!("{path}?after=0-0"))).await;
    for id in ["zero", "one", "two", "three"] {
        assert_eq!(from.next().await.data["id"], id);
    }
    let past = console.get(&format!("{path}/past?limit=2")).await.ok(200);
    assert_eq!(past["items"], cli::json(&server, &["events", "--limit", "2"])["items"]);
    assert_eq!([&past["items"][0]["id"], &past["items"][1]["id"]], ["two", "three"]);
    let wrong = send(console.ask(Method::GET, path).header("Last-Event-ID", "soon")).await;
    assert_eq!(wrong.wrong(422), "header.Last-Event-ID");
    assert_eq!(console.get(&format!("{path}?after=soon")).await.wrong(422), "query.after");
    console.get("queues/nowhere/events").await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_all_queues_come_in_one_stream() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    for queue in ["mail", "default"] {
        console.submit(queue, &json!({"type": "test"})).await;
    }
    // The list of queues is remembered for a moment.
    until_async("both queues to be listed", SOON, async || {
        let list = console.get("queues").await.ok(200);
        list["items"].as_array().unwrap().len() == 2
    })
    .await;
    let mut all = Listener::start(console.ask(Method::GET, "events")).await;
    let mut limited = Listener::start(console.ask_as("limited", Method::GET, "events")).await;
    publish(&server, "default", "one");
    publish(&server, "mail", "two");
    let mut found = Vec::new();
    let mut last = String::new();
    for _ in 0..2 {
        let message = all.next().await;
        assert_eq!(
            message.id,
            format!(
                "{}/{}",
                message.data["queue"].as_str().unwrap(),
                message.data["entry"].as_str().unwrap()
            )
        );
        found.push(message.data["id"].as_str().unwrap().to_owned());
        last = message.id;
    }
    found.sort();
    assert_eq!(found, ["one", "two"]);
    assert_eq!(limited.next().await.data["id"], "two", "the other queue is not theirs");
    drop(all);
    publish(&server, "default", "three");
    let mut again = Listener::start(console.ask(Method::GET, "events").header("Last-Event-ID", &last)).await;
    while again.next().await.data["id"] != "three" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_events_are_hidden_from_those_who_see_no_payloads() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test"})).await;
    publish(&server, "default", "one");
    let path = "queues/default/events?after=0-0";
    let mut listener = Listener::start(console.ask_as("viewer", Method::GET, path)).await;
    assert_eq!(listener.next().await.data["error"], "***");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_comes_without_its_fields() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    console.submit("default", &json!({"type": "test"})).await;
    let path = "queues/default/events";
    let mut listener = Listener::start(console.ask(Method::GET, path)).await;
    let large = "x".repeat(8 * 1024);
    let key = "sf:{default}:events";
    let entry = server.cmd(&["XADD", key, "*", "event", "failed_handle", "id", "a", "entry", &large]);
    let redis::Value::BulkString(entry) = entry else { panic!("{entry:?}") };
    publish(&server, "default", "b");
    let mut missed = Listener::start(console.ask(Method::GET, &format!("{path}?after=0-0"))).await;
    for listener in [&mut listener, &mut missed] {
        let message = listener.next().await;
        assert_eq!(message.id.as_bytes(), entry);
        let mut keys: Vec<_> = message.data.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["at", "at_ms", "entry", "event", "queue"]);
        assert_eq!(
            (&message.data["event"], &message.data["entry"]),
            (&json!("too_large"), &json!(message.id))
        );
        assert_eq!(listener.next().await.data["id"], "b");
    }
}
