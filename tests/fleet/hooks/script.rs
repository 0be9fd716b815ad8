//! The script that appends events, called twice and on a full server.

use redis::Value;

use harness::redis_server::RedisServer;
use harness::scripts::source;

const EVENTS: &str = "sf:{q}:events";

/// Two events with different numbers of fields, of which about a hundred are kept.
const CALL: [&str; 10] =
    ["1", EVENTS, "100", "2", "event", "queue_length", "4", "event", "before_handle", "id"];

fn call() -> Vec<&'static str> {
    ["EVAL", source("publish")].into_iter().chain(CALL).chain(["message"]).collect()
}

#[test]
fn events_sent_twice_are_stored_twice_and_stay_capped() {
    let server = RedisServer::start();
    for _ in 0..2 {
        assert_eq!(server.cmd(&call()), Value::Array(vec![Value::Int(2)]));
    }
    assert_eq!(server.cmd(&["XLEN", EVENTS]), Value::Int(4));
    for _ in 0..300 {
        server.cmd(&call());
    }
    let Value::Int(kept) = server.cmd(&["XLEN", EVENTS]) else { panic!("XLEN returned no number") };
    assert!((100..=300).contains(&kept), "{kept}");
}

#[test]
fn a_full_server_refuses_all_events_of_a_batch() {
    let server = RedisServer::start();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = format!("{:?}", server.try_cmd(&call()));
    assert!(refused.contains("OOM"), "{refused}");
    assert_eq!(server.cmd(&["EXISTS", EVENTS]), Value::Int(0));
}
