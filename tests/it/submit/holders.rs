//! Holders of unique keys that the script finds in odd places.

use super::scripts::{KEYS, NO_LOCK, RECORD, args, first, second, verdicts};
use crate::harness::scripts::source;
use crate::traps::scripts::Scripts;

const PLACES: &str = "sf:{q}:rooms:places";

/// Submits another job of the key, which keeps what it finds, and returns the verdict.
fn reject(scripts: &Scripts) -> String {
    let (keys, args) = second("now", "reject");
    verdicts(scripts.call(source("submit"), &keys, &args).1).swap_remove(0)
}

#[test]
fn a_holder_keeps_its_lock_while_another_life_of_its_id_waits_in_a_room() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("now"));
    let other = ["XADD", "sf:{q}:room:type:test", "*", "id", "j", "life", "2f", "type", "test"];
    let entry: String = redis::from_redis_value(scripts.server.cmd(&other)).unwrap();
    scripts.server.cmd(&["HSET", PLACES, "j", &format!("{entry} type:test")]);
    assert_eq!(reject(&scripts), "held", "it waits in its lane");
    scripts.server.cmd(&["HSET", RECORD, "state", "running"]);
    assert_eq!(reject(&scripts), "held", "it runs");
    // It may be in a room, too, and the other life has its place.
    scripts.server.cmd(&["DEL", KEYS[5]]);
    assert_eq!(reject(&scripts), "held", "nobody knows where it is");
    scripts.server.cmd(&["DEL", PLACES]);
    assert_eq!(reject(&scripts), "new", "somebody deleted it");
}

#[test]
fn a_holder_whose_due_time_is_no_number_refuses_no_other_job() {
    let scripts = Scripts::new();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["DEL", KEYS[1], KEYS[2]]);
    scripts.server.cmd(&["HSET", RECORD, "due_ms", "x"]);
    let (keys, newcomer) = second("now", "reject");
    let good = ["sf:{q}:job:good", "sf:{q}:unique:", "sf:{q}:job:good", "sf:{q}:steps:good", "sf:{q}:batch:"];
    let keys = [&keys[..], &good].concat();
    let answer = scripts.call(source("submit"), &keys, &[newcomer, args("good", "now", NO_LOCK)].concat()).1;
    assert_eq!(verdicts(answer)[3..], ["new", "good", "waiting"]);
}
