//! The names of keys: those that scripts derive are those that the engine builds.

#[path = "../../../crates/engine/src/client/derived.rs"]
mod derived;

use derived::DERIVED;
use harness::redis_server::RedisServer;
use harness::scripts::{reply, status_and_rest};

#[test]
fn scripts_derive_the_same_names_from_any_key_of_a_queue() {
    let server = RedisServer::start();
    let calls: Vec<String> = DERIVED.iter().map(|(call, _)| format!("{{ {call} }}")).collect();
    let source = format!("return {{ 1, {} }}", calls.join(", "));
    let wanted: Vec<&[&str]> = DERIVED.iter().map(|(_, names)| *names).collect();
    for given in wanted.concat() {
        let (_, derived) = status_and_rest(reply(&server, &source, &[given], &[] as &[&str]));
        let derived: Vec<Vec<String>> =
            derived.into_iter().map(|names| redis::from_redis_value(names).unwrap()).collect();
        assert_eq!(derived, wanted, "from {given}");
    }
}

#[test]
fn scripts_take_the_names_of_keys_apart() {
    let server = RedisServer::start();
    let cases = [
        ("name_in(record_key(KEYS[1], 'a:1'), 'job')", "a:1"),
        ("name_in(offloaded_key(KEYS[1], '5-1-00ff'), 'offloaded')", "5-1-00ff"),
        ("name_in(offloaded_key(KEYS[1], ''), 'offloaded')", ""),
        ("name_in(record_key(KEYS[1], 'a'), 'offloaded')", "nil"),
        ("name_in(lane_key(KEYS[1], 'low'), 'jobs')", "low"),
        ("name_in(lane_key(KEYS[1], 'normal'), 'jobs')", "nil"),
        ("waitlist_name(waitlist_key(KEYS[1], 'fair:low:=a:b'))", "fair:low:=a:b"),
        ("waitlist_name(lane_key(KEYS[1], 'high'))", "nil"),
        ("is_placeholder(lock_key(KEYS[1], ''))", "true"),
        ("is_placeholder(lock_key(KEYS[1], 'k'))", "false"),
        ("is_placeholder(lane_key(KEYS[1], 'high'))", "false"),
    ];
    for (call, wanted) in cases {
        let source = format!("return {{ 1, tostring({call}) }}");
        let (_, mut told) = status_and_rest(reply(&server, &source, &["sf:{q}:gates"], &[] as &[&str]));
        let told: String = redis::from_redis_value(told.remove(0)).unwrap();
        assert_eq!(told, wanted, "{call}");
    }
}
