//! The script that reads a queue's figures: it counts correctly, changes nothing, and works without keys and on a full server.

use redis::Value;

use harness::redis_server::RedisServer;
use harness::scripts::Scripts;
use harness::scripts::source;

const STREAM: &str = "sf:{q}:jobs";
const HIGH: &str = "sf:{q}:jobs:high";
const LOW: &str = "sf:{q}:jobs:low";
const DELAYED: &str = "sf:{q}:delayed";
const DEAD: &str = "sf:{q}:dead";
const LEADER: &str = "sf:{q}:leader";
const CRON: &str = "sf:{q}:cron";
const PLACES: &str = "sf:{q}:rooms:places";
const GATES: &str = "sf:{q}:gates";
const LISTS: &str = "sf:{q}:rooms";
const COUNTS: &str = "sf:{q}:counts";
const KEYS: [&str; 11] = [DELAYED, DEAD, LEADER, HIGH, STREAM, LOW, CRON, PLACES, GATES, LISTS, COUNTS];

/// Returns the numbers of the answer to a leader whose lease is one second.
fn survey(scripts: &Scripts) -> Vec<i64> {
    figures(scripts, "1000")
}

/// Returns the numbers of an answer; an empty text becomes -1, any other text 1. "Soon" is one minute.
fn figures(scripts: &Scripts, lease: &str) -> Vec<i64> {
    let (_, mut rest) = scripts.call(source("snapshot"), &KEYS, &["60000", lease]);
    assert_eq!(rest.remove(0), Value::Array(Vec::new()), "some keys were not read");
    let number = |value: Value| match value {
        Value::Int(number) => number,
        Value::BulkString(text) => {
            if text.is_empty() {
                -1
            } else {
                1
            }
        }
        other => panic!("{other:?}"),
    };
    rest.into_iter().map(number).collect()
}

fn add(server: &RedisServer, stream: &str, jobs: usize) {
    (0..jobs).for_each(|_| drop(server.cmd(&["XADD", stream, "*", "type", "a"])));
}

fn read(server: &RedisServer, consumer: &str, count: &str) {
    server.cmd(&["XREADGROUP", "GROUP", "fleet", consumer, "COUNT", count, "STREAMS", STREAM, ">"]);
}

#[test]
fn a_snapshot_has_every_part_and_changes_nothing() {
    let scripts = Scripts::start();
    let server = &scripts.server;
    add(server, STREAM, 5);
    add(server, HIGH, 1);
    read(server, "me", "2");
    read(server, "me.claims", "1");
    let now = server.now_ms();
    for (due, job) in [(now - 90_000, "late"), (now + 30_000, "soon"), (now + 3_600_000, "later")] {
        server.cmd(&["ZADD", DELAYED, &due.to_string(), job]);
    }
    server.cmd(&["XADD", DEAD, "1700000000000-1", "type", "a"]);
    server.cmd(&["SET", LEADER, "me"]);
    server.cmd(&["HSET", CRON, "nightly", "x"]);
    server.cmd(&["HSET", PLACES, "a", "1-0 queue", "b", "2-0 queue"]);
    server.cmd(&["HSET", LISTS, "queue", "1", "unknown:b", "1", "fair:normal:=9", "1"]);
    add(server, "sf:{q}:room:unknown:b", 1);
    add(server, "sf:{q}:room:fair:normal:=9", 2);
    server.cmd(&["HSET", GATES, "p:queue", "5 0 ann\n", "p:type:a", "5 0 ann\n", "p:type:b", "5 9 ann\n"]);
    server.cmd(&["HSET", GATES, "c:type:a", r#"{"breaker":{}}"#, "r:type:a", r#"{"breaker":{}}"#]);
    server.cmd(&["HSET", "sf:{q}:breaker:type:a", "until_ms", "9999999999999"]);
    server.cmd(&["HSET", COUNTS, "moved_in", "7", "moved_out", "4"]);
    let before = scripts.digest();
    let told = survey(&scripts);
    assert_eq!(scripts.digest(), before);
    // The delayed jobs, those due soon, when the first is due, the dead letters, and whether there is a leader.
    assert_eq!(told[..5], [3, 2, now.cast_signed() - 90_000, 1, 1]);
    let lanes: Vec<_> = told[5..20].chunks(5).map(|lane| &lane[..4]).collect();
    // Without a read, only the stream knows how many entries a lane ever had.
    assert_eq!(lanes, [[1, 0, -1, 1], [5, 3, 5, 1], [0, 0, -1, -1]]);
    let [recurring, used, _max, policy, waitlists @ ..] = &told[20..] else { panic!("{told:?}") };
    assert_eq!((recurring, policy, waitlists), (&1, &1, &[2, 5, 1, 2, 2, 1, 1, 1, 7, 4][..]));
    assert!(*used > 100_000, "{told:?}");
    // Without a lease, nobody looks at pending entries and at the memory.
    let silences = |told: &[i64]| [9, 14, 19].map(|at| told[at] >= 0);
    assert_eq!(silences(&told), [true; 3]);
    let told = figures(&scripts, "");
    let rest = [1, -1, 0, -1, 2, 5, 1, 2, 0, 0, 1, 1, 7, 4];
    assert_eq!((silences(&told), &told[20..]), ([false; 3], &rest[..]));
    // A pause that is over counts no more.
    server.cmd(&["HSET", GATES, "p:queue", "5 9 ann\n"]);
    assert_eq!(figures(&scripts, "")[25], -1);
}

#[test]
fn the_breaker_of_a_value_counts_while_jobs_wait_for_it() {
    const OPEN: usize = 29;
    let scripts = Scripts::start();
    let server = &scripts.server;
    let open = || survey(&scripts)[OPEN];
    server.cmd(&["HSET", GATES, "c:key:h.dependency", r#"{"breaker":{}}"#, "r:key:h.dependency=relay", "{}"]);
    for value in ["bank", "relay", "fax"] {
        let breaker = format!("sf:{{q}}:breaker:key:h.dependency={value}");
        server.cmd(&["HSET", &breaker, "until_ms", "9999999999999"]);
    }
    assert_eq!(open(), 0, "no job waits");
    // The relay has no breaker any more.
    server.cmd(&[
        "HSET",
        LISTS,
        "key:h.dependency=bank",
        "1",
        "key:h.dependency=relay",
        "1",
        "key:h.other=fax",
        "1",
    ]);
    assert_eq!(open(), 1);
    server.cmd(&["HSET", "sf:{q}:breaker:key:h.dependency=bank", "until_ms", "5"]);
    assert_eq!(open(), 0, "it has closed");
    server.cmd(&["HSET", "sf:{q}:breaker:key:h.dependency=bank", "until_ms", "9999999999999"]);
    server.cmd(&["HSET", GATES, "r:key:h.dependency", "{}"]);
    assert_eq!(open(), 0, "somebody has removed the breaker of each value");
}

#[test]
fn the_longest_idle_time_is_found_behind_hundreds_of_fresh_entries() {
    let scripts = Scripts::start();
    let server = &scripts.server;
    add(server, STREAM, 300);
    read(server, "me", "300");
    let silence = || survey(&scripts)[14];
    assert!(silence() < 1000);
    let last: Vec<(String, Vec<String>)> =
        redis::from_redis_value(server.cmd(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"])).unwrap();
    let ago = ["XCLAIM", STREAM, "fleet", "me", "0", &last[0].0, "IDLE", "70000", "JUSTID"];
    server.cmd(&ago);
    assert!((70_000..80_000).contains(&silence()));
}

#[test]
fn a_queue_without_keys_is_empty_and_a_full_server_still_answers() {
    let scripts = Scripts::start();
    for key in KEYS {
        scripts.server.cmd(&["DEL", key]);
    }
    let told = survey(&scripts);
    assert_eq!(told[..5], [0, 0, -1, 0, -1]);
    assert_eq!(told[5..20], [0, 0, -1, -1, 0].repeat(3));
    assert_eq!(told[20], 0);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "100000"]);
    assert_eq!(survey(&scripts)[22], 100_000);
}
