//! A queue that cannot be served, at startup or later: the others are served, and it is served again once it is fixed.

use super::{SOON, grant, launch, until_said, url_of_fleet, works};
use harness::redis_server::RedisServer;
use harness::scrape::{get, series};
use harness::wait::until;

/// Asserts that the worker reports everywhere that it does not serve `c`, and why, and that it serves the others.
fn assert_c_is_out(address: &str, words: &[&str]) {
    until_said(address, &[&["queue c is not served: "], words].concat());
    let served =
        |queue: &str| series(address, &format!("streamfleet_worker_queue_served{{queue=\"{queue}\"}}"));
    until("the metric of c to be 0", SOON, || served("c") == Some(0.0));
    assert_eq!([served("a"), served("b")], [Some(1.0); 2]);
    assert_eq!(get(address, "/livez"), Some((200, "ok\n".to_owned())));
}

fn assert_c_is_back(server: &RedisServer, address: &str) {
    works(server, &["c"]);
    until_said(address, &[]);
    let served = "streamfleet_worker_queue_served{queue=\"c\"}";
    until("the metric to say so too", SOON, || series(address, served) == Some(1.0));
}

/// Tests all of these keys at the same time, each on a server of its own.
fn at_once<const N: usize>(keys: [&str; N], test: impl Fn(&str) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for key in keys {
            scope.spawn(move || test(key));
        }
    });
}

#[test]
fn a_queue_with_a_key_of_the_wrong_type_does_not_affect_other_queues() {
    at_once(["sf:{c}:jobs", "sf:{c}:jobs:low", "sf:{c}:control"], |key| {
        let server = RedisServer::start();
        server.cmd(&["SET", key, "x"]);
        let (worker, address) = launch(&server.url());
        works(&server, &["a", "b"]);
        assert_c_is_out(&address, &[key, "WRONGTYPE"]);
        until("the log to name the queue and the key", SOON, || {
            let log = worker.stderr();
            let is_report = |line: &str| line.contains("a queue is not served") && line.contains(key);
            log.lines().any(is_report)
        });
        server.cmd(&["DEL", key]);
        assert_c_is_back(&server, &address);
        worker.term();
        assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    });
}

#[test]
fn promise_8_a_bad_queue_blocks_no_other_queue_of_its_worker() {
    at_once(["sf:{c}:jobs", "sf:{c}:jobs:high"], |key| {
        let server = RedisServer::start();
        let (worker, address) = launch(&server.url());
        works(&server, &["a", "b", "c"]);
        until_said(&address, &[]);
        server.cmd(&["DEL", key]);
        server.cmd(&["SET", key, "x"]);
        assert_c_is_out(&address, &[key, "WRONGTYPE"]);
        works(&server, &["a", "b"]);
        server.cmd(&["DEL", key]);
        assert_c_is_back(&server, &address);
        works(&server, &["a", "b"]);
        worker.term();
        assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    });
}

#[test]
fn a_queue_without_rights_affects_no_other_at_startup_or_at_runtime() {
    let server = RedisServer::start();
    grant(&server, &["a", "b"]);
    let (worker, address) = launch(&url_of_fleet(&server));
    works(&server, &["a", "b"]);
    assert_c_is_out(&address, &["NOPERM", "sf:{c}:*"]);
    grant(&server, &["a", "b", "c"]);
    assert_c_is_back(&server, &address);
    grant(&server, &["a", "b"]);
    assert_c_is_out(&address, &["sf:{c}:*"]);
    works(&server, &["a", "b"]);
    grant(&server, &["a", "b", "c"]);
    assert_c_is_back(&server, &address);
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

#[test]
fn a_worker_that_can_serve_no_queue_is_alive_but_not_ready() {
    let server = RedisServer::start();
    for queue in ["a", "b", "c"] {
        server.cmd(&["SET", &format!("sf:{{{queue}}}:jobs"), "x"]);
    }
    let (worker, address) = launch(&server.url());
    until("/readyz to name all of them", SOON, || {
        let (status, said) = get(&address, "/readyz")?;
        let named = ["sf:{a}:jobs", "sf:{b}:jobs", "sf:{c}:jobs"].iter().all(|key| said.contains(key));
        (status == 503 && named).then_some(())
    });
    assert_eq!(get(&address, "/livez"), Some((200, "ok\n".to_owned())));
    server.cmd(&["DEL", "sf:{b}:jobs"]);
    works(&server, &["b"]);
    until_said(&address, &["queue a is not served", "queue c is not served"]);
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}
