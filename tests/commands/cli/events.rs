//! `events`: the last ones, all of them page by page, and new ones as they come.

use std::time::Duration;

use serde_json::{Value, json};

use harness::assert_output;
use harness::cli::{json as answered, launch, sf, stdout_of};
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(20);

fn tell(server: &RedisServer, entry: &str, fields: &[&str]) {
    server.cmd(&[&["XADD", "sf:{default}:events", entry], fields].concat());
}

fn three(server: &RedisServer) {
    let job = ["id", "1700000000000-0", "type", "a.b", "attempt", "1", "worker", "host-1-0a0b0c0d"];
    let of_job = |event: &[&'static str]| [event, &job[..]].concat();
    tell(server, "1700000000001-0", &of_job(&["event", "before_handle"]));
    let failed =
        [&of_job(&["event", "failed_handle"])[..], &["error", "no\x1b[31m", "elapsed_ms", "7"]].concat();
    tell(server, "1700000000002-0", &failed);
    tell(server, "1700000000003-0", &["event", "queue_length", "waiting", "2"]);
}

fn names(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn the_last_events_are_listed_and_others_page_by_page() {
    let server = RedisServer::start();
    assert!(stdout_of(&server, &["events"]).contains("no events of the queue default"));
    three(&server);
    let page = answered(&server, &["events", "--limit", "2"]);
    assert_eq!(names(&page), ["failed_handle", "queue_length"]);
    let failed = &page["items"][0];
    let notifications = ["entry", "at_ms", "id", "attempt", "elapsed_ms"].map(|name| failed[name].clone());
    let want = json!(["1700000000002-0", 1_700_000_000_002_u64, "1700000000000-0", 1, 7]);
    assert_eq!(Value::from(notifications.to_vec()), want);
    let first = answered(&server, &["events", "--after", "0-0", "--limit", "1"]);
    assert_eq!((names(&first), &first["next"]), (vec!["before_handle"], &"1700000000001-0".into()));
    let rest = answered(&server, &["events", "--after", "1700000000001-0"]);
    assert_eq!(names(&rest), ["failed_handle", "queue_length"]);
    let none = answered(&server, &["events", "--after", "1700000000003-0"]);
    assert_eq!((names(&none).len(), &none["next"]), (0, &"1700000000003-0".into()));
    assert_output!(stdout_of(&server, &["events"]));
    assert_eq!(sf(&server, &["events", "--after", "yesterday"]).code, Some(2));
}

#[test]
fn follow_prints_past_and_new_events_one_object_per_line() {
    let server = RedisServer::start();
    three(&server);
    let follower = launch(&server, &["events", "--follow", "--limit", "1", "--json"]).start();
    let lines =
        || follower.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    until("the last event is printed", SOON, || lines().len() == 1);
    tell(&server, "*", &["event", "after_handle", "outcome", "succeeded"]);
    until("the new event is printed", SOON, || lines().len() == 2);
    assert_eq!((&lines()[0]["waiting"], &lines()[1]["outcome"]), (&2.into(), &"succeeded".into()));
}
