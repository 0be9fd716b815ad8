//! The script that takes jobs with ids: sent twice, and to a full server.

use redis::Value;

use crate::traps::scripts::{Scripts, source};

const RECORD: &str = "sf:{q}:job:j";

const KEYS: [&str; 8] = [
    "sf:{q}:control",
    "sf:{q}:delayed",
    "sf:{q}:delayed:fields",
    "sf:{q}:wake",
    "sf:{q}:jobs:high",
    "sf:{q}:jobs",
    "sf:{q}:jobs:low",
    RECORD,
];

fn now() -> [&'static str; 12] {
    ["", "j", "normal", "test", "now", "0", "60000", "4", "type", "test", "id", "j"]
}

fn later() -> [&'static str; 9] {
    ["", "j", "low", "test", "in", "60000", "60000", "1", "packed"]
}

fn verdicts(answer: Vec<Value>) -> Vec<String> {
    answer.into_iter().map(|item| redis::from_redis_value(item).unwrap()).collect()
}

#[test]
fn a_job_with_an_id_that_is_sent_twice_is_taken_once() {
    let scripts = Scripts::new();
    scripts.twice(source!("submit"), &KEYS, &now(), [1, 1]);
    assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 1);
    let scripts = Scripts::new();
    scripts.twice(source!("submit"), &KEYS, &later(), [1, 1]);
    assert_eq!((scripts.int(&["ZCARD", KEYS[1]]), scripts.int(&["HLEN", KEYS[2]])), (1, 1));
}

#[test]
fn a_job_twice_in_one_call_is_taken_once() {
    let scripts = Scripts::new();
    let keys = [&KEYS[..], &[RECORD]].concat();
    let args = [&now()[..], &later()[1..]].concat();
    let (jobs, answer) = scripts.call(source!("submit"), &keys, &args);
    assert_eq!(
        (jobs, verdicts(answer)),
        (2, ["new", "waiting", "known", "waiting"].map(str::to_owned).to_vec())
    );
    assert_eq!((scripts.int(&["XLEN", KEYS[5]]), scripts.int(&["ZCARD", KEYS[1]])), (1, 0));
}

#[test]
fn a_delayed_job_of_the_id_without_a_record_is_known_too() {
    let scripts = Scripts::new();
    scripts.server.cmd(&["ZADD", KEYS[1], "9999999999999", "j"]);
    scripts.server.cmd(&["HSET", KEYS[2], "j", "packed"]);
    let (_, answer) = scripts.call(source!("submit"), &KEYS, &now());
    assert_eq!(verdicts(answer), ["known", "scheduled"]);
    assert_eq!(scripts.int(&["XLEN", KEYS[5]]), 0);
}

#[test]
fn a_full_server_refuses_jobs_with_ids_whole() {
    for args in [&now()[..], &later()[..]] {
        let scripts = Scripts::new();
        scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = scripts.digest();
        let mut command = vec!["EVAL", source!("submit"), "8"];
        command.extend(KEYS);
        command.extend(args);
        let answer = format!("{:?}", scripts.server.try_cmd(&command));
        assert!(answer.contains("OOM"), "{answer}");
        assert_eq!(scripts.digest(), before);
    }
}

#[test]
fn a_queue_at_its_limit_takes_what_it_knows_and_nothing_else() {
    let scripts = Scripts::new();
    scripts.server.cmd(&["HSET", KEYS[0], "max_depth", "1"]);
    scripts.twice(source!("submit"), &KEYS, &now(), [1, 1]);
    let mut other = now();
    other[1] = "k";
    let mut keys = KEYS;
    keys[7] = "sf:{q}:job:k";
    scripts.twice(source!("submit"), &keys, &other, [-1, -1]);
}
