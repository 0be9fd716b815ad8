//! `--watch`: lists that are shown again and again.

use std::time::Duration;

use serde_json::Value;

use super::form::on_a_terminal;
use harness::cli::{launch, sf};
use harness::process::Worker;
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

fn until_shown(command: &Worker, text: &str) {
    until(&format!("{text} is shown"), SOON, || command.stdout().contains(text));
}

#[test]
fn a_list_in_a_pipe_is_printed_again_and_again() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a", "--queue", "first"]);
    let command = launch(&server, &["queues", "--watch=100ms"]).start();
    until("three blocks", SOON, || command.stdout().split("\n\n").count() >= 3);
    sf(&server, &["enqueue", "a", "--queue", "second"]);
    until_shown(&command, "\nsecond ");
    assert!(command.stdout().split("\n\n").all(|block| block.is_empty() || block.starts_with("queue ")));
    assert_eq!(command.exit_status(), None);
}

#[test]
fn a_list_in_json_is_one_document_per_look() {
    let server = RedisServer::start();
    let command = launch(&server, &["delayed", "list", "--watch=100ms", "-o", "json"]).start();
    let documents = || {
        let text = command.stdout();
        let read = serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok);
        Some(read.collect::<Vec<_>>()).filter(|read| read.len() >= 2)
    };
    let read = until("two documents", SOON, documents);
    assert!(read.iter().all(|list| list["version"] == 1 && list["total"] == 0), "{read:?}");
}

#[test]
fn a_list_on_a_terminal_is_repainted_in_place() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a", "--queue", "first"]);
    let command = on_a_terminal(&server, &["queues", "--watch=100ms"]).start();
    until_shown(&command, "first");
    sf(&server, &["enqueue", "a", "--queue", "second"]);
    until_shown(&command, "second");
    // The cursor goes up to the first line of the list, which has one about the queue and one about why its job waits.
    assert!(command.stdout().contains("\u{1b}[2A"), "{:?}", command.stdout());
}

#[test]
fn a_list_survives_a_restart_of_redis() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a", "--queue", "first"]);
    let command = launch(&server, &["queues", "--watch=100ms"]).start();
    until_shown(&command, "first");
    server.kill9();
    until("the error is reported", SOON, || command.stderr().contains("trying again"));
    server.restart();
    sf(&server, &["enqueue", "a", "--queue", "second"]);
    until_shown(&command, "second");
}

#[test]
fn an_interval_needs_a_unit_and_must_not_be_too_short() {
    let server = RedisServer::start();
    for interval in ["--watch=2", "--watch=10ms", "--watch=soon"] {
        assert_eq!(sf(&server, &["workers", interval]).code, Some(2), "{interval}");
    }
    let unknown = sf(&server, &["dead", "list", "-q", "nosuch", "--watch"]);
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
}
