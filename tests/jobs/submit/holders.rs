//! Holders of unique keys that the script finds in odd places.

use streamfleet::job::{Envelope, Lane};

use super::scripts::{KEYS, NO_LOCK, PACKED, RECORD, args, first, second, verdicts};
use crate::generations::waitlists::{LIST, PLACES, cancel, park};
use harness::scripts::Scripts;
use harness::scripts::attempts::{Attempt, DEFER_KEYS};
use harness::scripts::{jobs_args, source};

/// Submits another job of the key, which keeps what it finds, and returns the verdict.
fn reject(scripts: &Scripts) -> String {
    let (keys, args) = second("now", "reject");
    verdicts(scripts.call(source("submit"), &keys, &args).1).swap_remove(0)
}

#[test]
fn a_holder_keeps_its_lock_while_another_generation_of_its_id_waits_in_a_waiting_list() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("now"));
    let other = ["XADD", "sf:{q}:room:type:test", "*", "id", "j", "life", "2f", "type", "test"];
    let entry: String = redis::from_redis_value(scripts.server.cmd(&other)).unwrap();
    scripts.server.cmd(&["HSET", PLACES, "j", &format!("{entry} type:test")]);
    assert_eq!(reject(&scripts), "held", "it waits in its lane");
    scripts.server.cmd(&["HSET", RECORD, "state", "running"]);
    assert_eq!(reject(&scripts), "held", "it runs");
    // It may be in a waiting list, too, and the other generation has its place.
    scripts.server.cmd(&["DEL", KEYS[5]]);
    assert_eq!(reject(&scripts), "held", "nobody knows where it is");
    scripts.server.cmd(&["DEL", PLACES]);
    assert_eq!(reject(&scripts), "new", "somebody deleted it");
}

#[test]
fn a_holder_in_a_waiting_list_keeps_its_lock_when_another_generation_of_its_id_leaves() {
    for holder_is_first in [true, false] {
        let scripts = Scripts::start();
        scripts.call(source("submit"), &KEYS, &first("now"));
        let range: Vec<(String, Vec<String>)> =
            redis::from_redis_value(scripts.server.cmd(&["XRANGE", KEYS[5], "-", "+"])).unwrap();
        // The other generation is delivered, too.
        let mut generations = [(scripts.delivered(), "2f"), (range[0].0.clone(), "1f")];
        if holder_is_first {
            generations.reverse();
        }
        let parked = generations.map(|(entry, generation)| (generation, park(&scripts, &entry, generation)));
        let (_, other) = parked.iter().find(|(generation, _)| *generation == "2f").unwrap();
        assert_eq!(reject(&scripts), "held");
        assert_eq!(cancel(&scripts, other, "2f"), 1);
        assert_eq!(reject(&scripts), "held");
        let (keys, args) = second("now", "replace");
        assert_eq!(verdicts(scripts.call(source("submit"), &keys, &args).1)[0], "replaced");
        assert_eq!([scripts.int(&["XLEN", LIST]), scripts.int(&["EXISTS", PLACES])], [0, 0]);
    }
}

#[test]
fn a_holder_that_somebody_deleted_from_its_waiting_list_keeps_no_lock() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("now"));
    let range: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", KEYS[5], "-", "+"])).unwrap();
    scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", KEYS[5], ">"]);
    park(&scripts, &range[0].0, "1f");
    assert_eq!(reject(&scripts), "held");
    scripts.server.cmd(&["DEL", LIST]);
    assert_eq!(reject(&scripts), "new");
}

#[test]
fn a_holder_whose_due_time_is_no_number_refuses_no_other_job() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    scripts.server.cmd(&["DEL", KEYS[1], KEYS[2]]);
    scripts.server.cmd(&["HSET", RECORD, "due_ms", "x"]);
    let (keys, newcomer) = second("now", "reject");
    let good = ["sf:{q}:job:good", "sf:{q}:unique:", "sf:{q}:job:good", "sf:{q}:steps:good", "sf:{q}:batch:"];
    let keys = [&keys[..], &good].concat();
    let answer = scripts.call(source("submit"), &keys, &[newcomer, args("good", "now", NO_LOCK)].concat()).1;
    assert_eq!(verdicts(answer)[3..], ["new", "good", "waiting"]);
}

#[test]
fn a_debounce_changes_no_other_generation_of_its_holders_id() {
    let scripts = Scripts::start();
    scripts.call(source("submit"), &KEYS, &first("in"));
    // The holder was due, and waits in its lane, when a job that somebody gave the same id was deferred.
    scripts.server.cmd(&["XADD", KEYS[6], "*", "id", "j", "life", "1f", "type", "test"]);
    let fields = [("life", "2f"), ("id", "j"), ("type", "test")];
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let pack = Envelope::new(fields).pack(Lane::Normal);
    scripts.server.cmd(&[&b"HSET"[..], KEYS[2].as_bytes(), b"j", &pack]);
    let before = scripts.digest();
    let (keys, args) = second("in", "debounce");
    let args = args.iter().map(|value| if *value == PACKED { &pack } else { value.as_bytes() });
    let answer = scripts.call(source("submit"), &keys, &args.collect::<Vec<_>>());
    assert_eq!(verdicts(answer.1)[0], "held");
    assert_eq!(scripts.digest(), before);
}

#[test]
fn a_holder_that_left_a_waiting_list_is_searched_for_where_its_retry_goes() {
    let scripts = Scripts::start();
    let (high, normal) = (KEYS[4], KEYS[5]);
    scripts.call(source("submit"), &KEYS, &first("now"));
    // A gate let it pass in another lane.
    scripts.server.cmd(&["XTRIM", normal, "MAXLEN", "0"]);
    scripts.server.cmd(&["XGROUP", "CREATE", high, "fleet", "0", "MKSTREAM"]);
    let passed = ["XADD", high, "*", "id", "j", "life", "1f", "type", "test", "lane", "normal"];
    let entry: String = redis::from_redis_value(scripts.server.cmd(&passed)).unwrap();
    scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", high, ">"]);
    scripts.server.cmd(&["HSET", RECORD, "state", "running", "lane", "high", "entry", &entry]);
    let mut keys = DEFER_KEYS;
    keys[0] = high;
    let attempt = Attempt { generation: "1f", ..Attempt::first(&entry) };
    let answer =
        scripts.call(source("defer"), &keys, &jobs_args("me", "high", &[&attempt.defer_values("0")]));
    assert_eq!(format!("{:?}", answer.1), "[array([int(1)])]");
    // Its retry was due.
    scripts.server.cmd(&["ZREM", KEYS[1], "j"]);
    let (keys, args) = second("now", "replace");
    let answer = verdicts(scripts.call(source("submit"), &keys, &args).1);
    assert_eq!(answer[..2], ["hidden", "j"]);
    assert!(answer[2].starts_with("normal "), "{answer:?}");
    // No other job's entry is taken for its own.
    assert_eq!(scripts.int(&["HEXISTS", RECORD, "entry"]), 0);
}
