//! Scripts and entries of many MiB, which only a producer without this library leaves in a lane: Redis copies each byte of an entry
//! that a script reads, so no script reads one.

use std::collections::BTreeSet;

use redis::Value;
use streamfleet::Broker;

use super::scripts::{
    ADMIT_KEYS, DRAIN_KEYS, GATES, HIGH, LISTS, LOW, ONE, PLACES, STREAM, limit, wait_in_waitlist,
};
use super::share::{KEYS as SHARE_KEYS, nothing_seen};
use harness::fleet::config;
use harness::scripts::Scripts;
use harness::scripts::{as_sent, names, source};

const LARGE: usize = 8 << 20;

/// A script may read less than this. It is far more than any of these needs.
const MOST: i64 = 64 << 10;

/// Counts the bytes that a script gets from Redis.
const COUNTED: &str = "local redis = (function(real) \
    local read = 0 \
    local function size(reply) \
      if type(reply) == 'string' then return #reply end \
      local sum = 0 \
      for _, item in pairs(type(reply) == 'table' and reply or {}) do sum = sum + size(item) end \
      return sum \
    end \
    local function counted(call) \
      return function(...) \
        local reply = call(...) \
        read = read + size(reply) \
        real.call('SET', 'sf:{q}:read', read) \
        return reply \
      end \
    end \
    return setmetatable({ call = counted(real.call), pcall = counted(real.pcall) }, { __index = real }) \
  end)(redis)\n";

/// Calls a script. Returns its answer, and how many bytes it has read.
fn call(scripts: &Scripts, name: &str, keys: &[&str], args: &[&str]) -> (Value, i64) {
    let (text, count) = (format!("{COUNTED}{}", as_sent(source(name))), keys.len().to_string());
    let answer = scripts.server.cmd(&[&["EVAL", &text, &count][..], keys, args].concat());
    let read: String = redis::from_redis_value(scripts.server.cmd(&["GET", "sf:{q}:read"])).unwrap();
    (answer, read.parse().unwrap())
}

/// Adds an entry of 8 MiB.
fn add_large(scripts: &Scripts, stream: &str) -> String {
    let payload = "x".repeat(LARGE);
    let added = scripts.server.cmd(&["XADD", stream, "*", "type", "test", "h.t", "a", "payload", &payload]);
    redis::from_redis_value(added).unwrap()
}

/// Calls a script that reads little, and returns its answer.
fn called(scripts: &Scripts, name: &str, keys: &[&str], args: &[&str]) -> Value {
    let (answer, read) = call(scripts, name, keys, args);
    assert!(read < MOST, "{name} has read {read} bytes");
    answer
}

#[test]
fn the_bytes_that_a_script_reads_are_counted() {
    let scripts = Scripts::start();
    let entry = add_large(&scripts, "sf:{q}:dead");
    let keys = ["sf:{q}:dead", "sf:{q}:job:j", HIGH, STREAM, LOW, "sf:{q}:steps:j", "sf:{q}:receipt:c"];
    assert!(call(&scripts, "replay", &keys, &[&entry, ""]).1 > LARGE as i64);
}

#[test]
fn sharing_reads_no_large_entry() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", GATES, "f:fair", r#"{"by":"h.t","weights":{}}"#]);
    let small = || -> String {
        redis::from_redis_value(scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "h.t", "a"]))
            .unwrap()
    };
    let first = [0; 20].map(|_| small());
    add_large(&scripts, STREAM);
    let last = small();
    let head = ["4", "200", "262144"];
    let answer =
        called(&scripts, "share", &SHARE_KEYS, &head.into_iter().chain(nothing_seen()).collect::<Vec<_>>());
    let Value::Array(answer) = answer else { panic!("{answer:?}") };
    let mark: String = redis::from_redis_value(answer[6].clone()).unwrap();
    let seen = [mark.as_str(), &last, "0", "4", &first[0], &first[19], &last, &last];
    let none = || nothing_seen().take(4);
    let args: Vec<&str> = head.into_iter().chain(none()).chain(seen).chain(none()).collect();
    let answer = called(&scripts, "share", &SHARE_KEYS, &args);
    assert_eq!(
        answer,
        Value::Array(Vec::from([20, 2, 0, 1].map(Value::Int)).into_iter().chain(empty(4)).collect())
    );
    assert_eq!(scripts.int(&["XLEN", STREAM]), 4);
}

fn empty(count: usize) -> impl Iterator<Item = Value> {
    std::iter::repeat_n(Value::BulkString(Vec::new()), count)
}

#[tokio::test]
async fn a_worker_shares_small_jobs_and_leaves_large_ones_in_their_lane() {
    let scripts = Scripts::start();
    let broker = Broker::connect(config(&scripts.server.url()).redis).await.unwrap();
    let queue = broker.queue("q".parse().unwrap());
    scripts.server.cmd(&["HSET", GATES, "f:fair", r#"{"by":"h.t","weights":{}}"#]);
    let add = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'h.t', ARGV[2]) end return 0";
    for (jobs, tenant) in [("300", "a"), ("1", "b")] {
        scripts.server.cmd(&["EVAL", add, "1", STREAM, jobs, tenant]);
        (0..2).for_each(|_| drop(add_large(&scripts, STREAM)));
    }
    let (mut held_back, mut left) = (0, 0);
    loop {
        let shared = queue.share(Some(8), &[]).await.unwrap();
        (held_back, left) = (held_back + shared.held_back, left + shared.left);
        if !shared.more {
            break;
        }
    }
    // The large ones have their places in the window.
    assert_eq!((scripts.int(&["XLEN", STREAM]), held_back - left), (8, 301 - 4));
    let large = "local count = 0 for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do \
        if entry[2][5] == 'payload' then count = count + 1 end end return count";
    assert_eq!(scripts.int(&["EVAL", large, "1", STREAM]), 4);
}

#[test]
fn a_full_gate_reads_none_of_the_entries_that_hold_its_places() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    let (waits, asks) = (add_large(&scripts, HIGH), scripts.delivered());
    let held = "sf:{q}:held:type:test";
    scripts.server.cmd(&["HSET", held, &format!("high {waits}"), "1"]);
    let args = ["me", "normal", "3", &asks, "1650000000000-0", "type:test"];
    let refused = Value::Array(vec![Value::Int(2), Value::Int(1)]);
    let answer = called(&scripts, "admit", &ADMIT_KEYS, &args);
    assert_eq!(answer, Value::Array(vec![Value::Int(1), Value::Array(vec![refused])]));
    assert_eq!(scripts.int(&["HLEN", held]), 1, "it waits to be read");
    // Nobody has got it because of that.
    assert_eq!(scripts.server.cmd(&["XPENDING", HIGH, "fleet", "-", "+", "9"]), Value::Array(Vec::new()));
    assert_eq!(scripts.server.cmd(&["XINFO", "CONSUMERS", HIGH, "fleet"]), Value::Array(Vec::new()));
    scripts.server.cmd(&["XDEL", HIGH, &waits]);
    let answer = called(&scripts, "admit", &ADMIT_KEYS, &args);
    assert_eq!(answer, Value::Array(vec![Value::Int(1), Value::Array(vec![Value::Int(1)])]));
}

#[test]
fn a_gate_with_a_rate_reads_none_of_the_entries_that_it_has_let_out() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", r#"{"rate":{"n":1,"per_ms":10000,"burst":1}}"#);
    let waits = add_large(&scripts, HIGH);
    let unstarted = "sf:{q}:unstarted:type:test";
    scripts.server.cmd(&["HSET", unstarted, &format!("high {waits}"), "1"]);
    wait_in_waitlist(&scripts, "a", "type:test");
    called(&scripts, "drain", &DRAIN_KEYS, &["50", "524288", "0", "type:test"]);
    assert_eq!(scripts.int(&["HLEN", unstarted]), 1);
    scripts.server.cmd(&["XDEL", HIGH, &waits]);
    called(&scripts, "drain", &DRAIN_KEYS, &["50", "524288", "0", "type:test"]);
    assert_eq!(scripts.int(&["XLEN", HIGH]), 1, "the next one is let out");
}

#[test]
fn a_worker_that_takes_jobs_from_a_waiting_list_reads_nothing_that_waits_in_a_lane() {
    let scripts = Scripts::start();
    // One entry is pending without a body, so the numbers do not show that another waits.
    for stream in [HIGH, STREAM, LOW] {
        let gone: String =
            redis::from_redis_value(scripts.server.cmd(&["XADD", stream, "*", "type", "test"])).unwrap();
        scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", stream, ">"]);
        scripts.server.cmd(&["XDEL", stream, &gone]);
        add_large(&scripts, stream);
    }
    let waitlist = "sf:{q}:room:unknown:test";
    scripts.server.cmd(&["XADD", waitlist, "*", "type", "test", "id", "a", "life", "1-1"]);
    scripts.server.cmd(&["HSET", LISTS, "unknown:test", "1"]);
    let keys = [waitlist, GATES, LISTS, PLACES, "sf:{q}:rooms:asked", "sf:{q}:dead", HIGH, STREAM, LOW];
    called(&scripts, "take", &keys, &["unknown:test", "me", "50", "262144", "", "", ""]);
    assert_eq!([HIGH, STREAM, LOW].map(|stream| scripts.int(&["XLEN", stream])), [2, 1, 1]);
}

#[test]
fn the_search_for_orphans_reads_none_of_them_in_a_script() {
    let scripts = Scripts::start();
    let orphan = add_large(&scripts, STREAM);
    scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", STREAM, ">"]);
    scripts.server.cmd(&["XACK", STREAM, "fleet", &orphan]);
    let answer = called(&scripts, "orphans", &[STREAM], &["0-0", "200"]);
    assert_eq!(answer, Value::Array(vec![Value::Int(0), Value::BulkString(orphan.into_bytes())]));
}

#[test]
fn the_search_for_deleted_letters_reads_none_of_those_that_exist() {
    let scripts = Scripts::start();
    let (dead, list) = ("sf:{q}:dead", "sf:{q}:dead:letters");
    let letter = add_large(&scripts, dead);
    scripts.server.cmd(&["HSET", list, &letter, "aaaa:aaaa j", "1-1", "aaaa:aaaa k", "no id", "aaaa:aaaa l"]);
    let Value::Array(answer) = called(&scripts, "listed", &[dead, list], &["0"]) else { panic!("no list") };
    let told: Vec<String> =
        answer[1..].iter().map(|text| redis::from_redis_value(text.clone()).unwrap()).collect();
    assert_eq!((&answer[0], told[0].as_str(), told.len()), (&Value::Int(2), "0", 5), "{told:?}");
    assert!(told.contains(&"1-1".to_owned()) && !told.contains(&letter), "{told:?}");
    let keys = [dead, list, "sf:{q}:job:j", "sf:{q}:steps:j"];
    let answer = called(&scripts, "gone", &keys, &["1000", &letter]);
    assert_eq!(answer, Value::Array(vec![Value::Int(0)]));
    assert_eq!(scripts.int(&["HEXISTS", list, &letter]), 1);
}

/// Who adds a script here must know how large the entries are that it reads. Those of lanes may have any size.
#[test]
fn every_script_that_reads_entries_is_known() {
    // Before a script writes an entry to a waiting list, or a letter, large fields get a key of their own.
    let waitlists = ["drain", "park", "take", "waitlist_jobs", "waitlists"];
    let letters = ["begin", "bury", "decide", "drop", "edit", "recount", "replay", "task_replay"];
    // Notes in the audit, and samples of the queue.
    let notes = ["audit", "incident_ack", "sample", "task_put", "task_set"];
    // The caller has seen that these are small; the holder of a lock was submitted by a script.
    let lanes = ["share", "submit"];
    let known = waitlists.into_iter().chain(letters).chain(notes).chain(lanes).collect::<BTreeSet<_>>();
    let reads = |name: &&str| {
        let sent = as_sent(source(name));
        ["'XRANGE'", "'XREVRANGE'", "'XREAD'"].iter().any(|command| sent.contains(command))
    };
    assert_eq!(names().filter(reads).collect::<BTreeSet<_>>(), known);
}
