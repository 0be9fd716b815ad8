//! The scripts of the waiting lists of unknown types: sent twice, on a full server, and with entries that are not jobs.

use redis::Value;

use harness::scripts::Scripts;
use harness::scripts::{as_sent, source};

const LIST: &str = "sf:{q}:room:unknown:test";
const LISTS: &str = "sf:{q}:rooms";
const ASKED: &str = "sf:{q}:rooms:asked";
const HIGH: &str = "sf:{q}:jobs:high";
const NORMAL: &str = "sf:{q}:jobs";
const LOW: &str = "sf:{q}:jobs:low";
const DEAD: &str = "sf:{q}:dead";

/// The keys of `take` for the waiting list of the type `test`.
pub(super) fn take_keys(queue: &str) -> Vec<String> {
    let names =
        ["room:unknown:test", "gates", "rooms", "rooms:places", "rooms:asked", "dead", "jobs:high", "jobs"];
    names.into_iter().chain(["jobs:low"]).map(|name| format!("sf:{{{queue}}}:{name}")).collect()
}

/// Puts a job into the waiting list, with these fields beside those that every such entry has. Returns its entry.
fn park(scripts: &Scripts, id: &str, more: &[&str]) -> String {
    let fields = ["XADD", LIST, "*", "type", "test", "id", id, "life", id, "lane", "low", "room_gates", ""];
    let entry: String = redis::from_redis_value(scripts.server.cmd(&[&fields, more].concat())).unwrap();
    scripts.server.cmd(&["HSETNX", LISTS, "unknown:test", "1700000000000"]);
    let place = format!("{entry} unknown:test");
    scripts.server.cmd(&["HSET", "sf:{q}:rooms:places", id, &place]);
    entry
}

/// Takes up to this many jobs. Returns how many left, whether there are more, the lane, and how many were delivered.
fn take(scripts: &Scripts, most: &str, [waited, quiet]: [&str; 2]) -> (i64, i64, String, usize) {
    take_until(scripts, most, [waited, quiet, "9999999999999"])
}

/// Takes those jobs that came until some time.
fn take_until(scripts: &Scripts, most: &str, overdue: [&str; 3]) -> (i64, i64, String, usize) {
    let keys = take_keys("q");
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let args = [&["unknown:test", "me", most, "262144"][..], &overdue].concat();
    let (moved, rest) = scripts.call(source("take"), &keys, &args);
    let Value::Int(more) = rest[0] else { panic!("{rest:?}") };
    (moved, more, redis::from_redis_value(rest[1].clone()).unwrap(), rest.len() - 2)
}

fn pending(scripts: &Scripts, stream: &str) -> i64 {
    match scripts.server.cmd(&["XPENDING", stream, "fleet"]) {
        Value::Array(facts) => redis::from_redis_value(facts[0].clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn int(scripts: &Scripts, command: &[&str]) -> i64 {
    redis::from_redis_value(scripts.server.cmd(command)).unwrap()
}

#[test]
fn a_waiting_list_is_emptied_from_its_head_and_forgotten() {
    let scripts = Scripts::start();
    (0..5).for_each(|nth| drop(park(&scripts, &nth.to_string(), &["unroutable_ms", "1"])));
    assert_eq!(take(&scripts, "3", ["", ""]), (3, 1, "high".to_owned(), 3));
    assert_eq!(pending(&scripts, HIGH), 3);
    let first = format!("{:?}", scripts.server.cmd(&["XRANGE", HIGH, "-", "+", "COUNT", "1"]));
    assert!(
        first.contains("lane") && !first.contains("unroutable_ms") && !first.contains("room_gates"),
        "{first}"
    );
    assert_eq!(int(&scripts, &["HLEN", "sf:{q}:rooms:places"]), 2);
    assert_eq!(take(&scripts, "50", ["", ""]), (2, 0, "high".to_owned(), 2));
    assert_eq!(int(&scripts, &["EXISTS", LIST, LISTS, "sf:{q}:rooms:places"]), 0);
    assert_eq!(take(&scripts, "50", ["", ""]), (0, 0, String::new(), 0));
}

#[test]
fn a_take_that_is_sent_twice_delivers_each_job_once() {
    let scripts = Scripts::start();
    (0..4).for_each(|nth| drop(park(&scripts, &nth.to_string(), &[])));
    for _ in 0..2 {
        assert_eq!(take(&scripts, "2", ["", ""]).3, 2);
    }
    assert_eq!((pending(&scripts, HIGH), int(&scripts, &["XLEN", HIGH])), (4, 4));
}

#[test]
fn jobs_go_where_nothing_waits_and_otherwise_to_the_end_of_the_high_lane() {
    let scripts = Scripts::start();
    (0..3).for_each(|nth| drop(park(&scripts, &nth.to_string(), &[])));
    scripts.server.cmd(&["XADD", HIGH, "*", "type", "other"]);
    assert_eq!(take(&scripts, "1", ["", ""]), (1, 1, "normal".to_owned(), 1));
    scripts.server.cmd(&["XADD", NORMAL, "*", "type", "other"]);
    assert_eq!(take(&scripts, "1", ["", ""]), (1, 1, "low".to_owned(), 1));
    scripts.server.cmd(&["XADD", LOW, "*", "type", "other"]);
    // A worker that would end them must get them.
    assert_eq!(take(&scripts, "1", ["0", "0"]), (0, 1, String::new(), 0));
    assert_eq!(take(&scripts, "1", ["", ""]), (1, 0, String::new(), 0));
    assert_eq!(int(&scripts, &["XLEN", HIGH]), 2);
}

#[test]
fn a_lane_whose_pending_entries_have_no_bodies_is_not_taken_for_idle() {
    let scripts = Scripts::start();
    let lost: String =
        redis::from_redis_value(scripts.server.cmd(&["XADD", HIGH, "*", "type", "other"])).unwrap();
    scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "other", "STREAMS", HIGH, ">"]);
    scripts.server.cmd(&["XDEL", HIGH, &lost]);
    scripts.server.cmd(&["XADD", HIGH, "*", "type", "other"]);
    park(&scripts, "j", &[]);
    assert_eq!(take(&scripts, "5", ["0", "0"]), (1, 0, "normal".to_owned(), 1));
    assert_eq!(pending(&scripts, HIGH), 1, "nobody else got what waits");
}

#[test]
fn only_jobs_without_a_worker_for_too_long_are_taken_to_be_ended() {
    let scripts = Scripts::start();
    park(&scripts, "old", &["unroutable_ms", "1700000000000"]);
    park(&scripts, "new", &[]);
    let hour = "3600000";
    assert_eq!(take(&scripts, "50", [hour, hour]), (1, 1, "high".to_owned(), 1));
    assert_eq!(take(&scripts, "50", [hour, hour]), (0, 1, String::new(), 0));
    assert_eq!(scripts.call(source("types_with_jobs"), &[LISTS, ASKED], &["unknown:test"]).0, 1);
    assert_eq!(take(&scripts, "50", ["0", hour]), (0, 1, String::new(), 0), "a worker has just asked");
}

#[test]
fn jobs_that_came_later_are_not_taken_to_be_ended_however_far_the_clock_was_set_forward() {
    let scripts = Scripts::start();
    let came = |entry: String| entry.split_once('-').unwrap().0.parse::<u64>().unwrap();
    let first = came(park(&scripts, "first", &[]));
    let until = |ms: u64| take_until(&scripts, "50", ["0", "0", &ms.to_string()]);
    assert_eq!(until(first - 1), (0, 1, String::new(), 0));
    assert_eq!(until(first), (1, 0, "high".to_owned(), 1));
}

#[test]
fn the_question_of_a_worker_is_noted_and_may_be_repeated() {
    let scripts = Scripts::start();
    let (source, keys, none) = (source("types_with_jobs"), [LISTS, ASKED], [""; 0]);
    scripts.twice(source, &keys, &none, [0, 0]);
    park(&scripts, "j", &[]);
    scripts.twice(source, &keys, &none, [1, 1]);
    let (_, rest) = scripts.call(source, &keys, &["unknown:a", "unknown:test"]);
    assert_eq!(rest, [Value::Int(2)]);
    assert_eq!(int(&scripts, &["HEXISTS", ASKED, "unknown:test"]), 1);
    scripts.twice(source, &keys, &["unknown:test"], [1, 1]);
}

#[test]
fn an_entry_that_is_not_a_job_holds_up_no_other() {
    let scripts = Scripts::start();
    let fields: Vec<String> =
        (0..3000).map(|nth| format!("f{nth}")).flat_map(|name| [name, "v".to_owned()]).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    scripts.server.cmd(&[&["XADD", LIST, "*"], &fields[..]].concat());
    scripts.server.cmd(&["XADD", LIST, "*", "no", "job"]);
    park(&scripts, "j", &[]);
    assert_eq!(take(&scripts, "50", ["", ""]), (3, 0, "high".to_owned(), 2));
    let letter = format!("{:?}", scripts.server.cmd(&["XRANGE", DEAD, "-", "+"]));
    assert!(letter.contains("malformed") && letter.contains("is not a job"), "{letter}");
}

#[test]
fn a_waiting_list_is_emptied_on_a_full_server_and_refused_if_no_stream() {
    let scripts = Scripts::start();
    park(&scripts, "j", &[]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scripts.call(source("types_with_jobs"), &[LISTS, ASKED], &["unknown:test"]).0, 1);
    assert_eq!(take(&scripts, "50", ["", ""]), (1, 0, "high".to_owned(), 1));
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    scripts.server.cmd(&["SET", LIST, "not a stream"]);
    let keys = take_keys("q");
    let (script, count) = (as_sent(source("take")), keys.len().to_string());
    let head = ["EVAL", &script, &count].into_iter().chain(keys.iter().map(String::as_str));
    let command: Vec<&str> = head.chain(["unknown:test", "me", "1", "1", "", "", ""]).collect();
    let refused = format!("{:?}", scripts.server.try_cmd(&command));
    assert!(refused.contains("WRONGTYPE"), "{refused}");
}
