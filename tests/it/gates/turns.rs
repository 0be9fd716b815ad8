//! Jobs that several gates refuse in turn, and starts that were not used.

use redis::Value;

use super::scripts::{DRAIN_KEYS, HIGH, ONE, admit, drain, drain_whole, ids, limit, wait_in_room};
use crate::harness::scripts::source;
use crate::traps::scripts::Scripts;

const TYPE: &str = "type:test";
const TENANT: &str = "key:h.t=1";
const CLAIMS: [&str; 2] = ["sf:{q}:claim:type:test", "sf:{q}:claim:key:h.t=1"];

fn held(gate: &str) -> String {
    format!("sf:{{q}}:held:{gate}")
}

/// Limits both gates to one job, and returns a job that holds a place in each.
fn full_gates(scripts: &Scripts) -> String {
    limit(scripts, TYPE, ONE);
    limit(scripts, "key:h.t", ONE);
    let runs = scripts.delivered();
    assert_eq!(admit(scripts, &runs, &[TYPE, TENANT]).0, 1);
    format!("normal {runs}")
}

#[test]
fn a_job_that_two_full_gates_refuse_in_turn_gets_its_turn() {
    let scripts = Scripts::new();
    let runs = full_gates(&scripts);
    let free = |gate: &str| drop(scripts.server.cmd(&["HDEL", &held(gate), &runs]));
    let fill = |gate: &str| drop(scripts.server.cmd(&["HSET", &held(gate), &runs, "1"]));
    wait_in_room(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
    for gate in [TYPE, TENANT] {
        free(gate);
        assert_eq!(drain(&scripts, &[], &[gate]), 1, "it moves to the room of the other gate");
        fill(gate);
    }
    assert_eq!(scripts.int(&["EXISTS", CLAIMS[0], CLAIMS[1]]), 0, "it has not waited for long");
    free(TYPE);
    assert_eq!(drain(&scripts, &[], &[TYPE]), 1);
    assert_eq!(scripts.int(&["EXISTS", CLAIMS[0], CLAIMS[1]]), 2);
    let other = scripts.delivered();
    assert_eq!(admit(&scripts, &other, &[TYPE]), (2, vec![Value::Int(1)]), "the free place is claimed");
    assert_eq!(drain(&scripts, &[], &[TYPE]), 0, "the other gate is still full");
    free(TENANT);
    // Whichever of its gates is looked at.
    assert_eq!(drain(&scripts, &[], &[TYPE]), 1);
    assert_eq!(ids(&scripts, HIGH), ["patient"]);
    let fields = format!("{:?}", scripts.server.cmd(&["XRANGE", HIGH, "-", "+"]));
    assert!(!fields.contains("room_moves"), "{fields}");
    assert_eq!(scripts.int(&["EXISTS", CLAIMS[0], CLAIMS[1]]), 0);
    assert_eq!([TYPE, TENANT].map(|gate| scripts.int(&["HLEN", &held(gate)])), [1, 1]);
}

#[test]
fn a_job_that_cannot_claim_places_moves_once() {
    const BREAKER: &str = "sf:{q}:breaker:key:h.t=1";
    let scripts = Scripts::new();
    let runs = full_gates(&scripts);
    let rule = r#"{"concurrency":1,"breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":1000}}"#;
    limit(&scripts, "key:h.t", rule);
    wait_in_room(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
    let free = |gate: &str| {
        let other = if gate == TYPE { TENANT } else { TYPE };
        scripts.server.cmd(&["HDEL", &held(gate), &runs]);
        scripts.server.cmd(&["HSET", &held(other), &runs, "1"]);
    };
    for gate in [TYPE, TENANT] {
        free(gate);
        assert_eq!(drain(&scripts, &[], &[gate]), 1);
    }
    scripts.server.cmd(&["SET", BREAKER, "x"]);
    free(TYPE);
    for _ in 0..3 {
        drain_whole(&scripts, &[], &[TYPE]);
        let rooms = [TYPE, TENANT].map(|gate| ids(&scripts, &format!("sf:{{q}}:room:{gate}")));
        assert_eq!(rooms.concat(), ["patient"]);
    }
}

#[test]
fn a_claim_of_a_job_that_is_gone_holds_up_nobody() {
    let scripts = Scripts::new();
    limit(&scripts, TYPE, r#"{"concurrency":2}"#);
    for (id, claim) in [("a", "1-1\nkey:h.t=1\ntype:test"), ("b", "nonsense")] {
        wait_in_room(&scripts, id, TYPE);
        scripts.server.cmd(&["SET", CLAIMS[0], claim]);
        assert_eq!(drain(&scripts, &[], &[TYPE]), 1, "{claim}");
    }
    assert_eq!((ids(&scripts, HIGH).len(), scripts.int(&["EXISTS", CLAIMS[0]])), (2, 0));
}

#[test]
fn a_claim_ends_by_itself() {
    let scripts = Scripts::new();
    let runs = full_gates(&scripts);
    wait_in_room(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
    for gate in [TYPE, TENANT, TYPE] {
        scripts.server.cmd(&["HDEL", &held(gate), &runs]);
        assert_eq!(drain(&scripts, &[], &[gate]), 1);
        scripts.server.cmd(&["HSET", &held(gate), &runs, "1"]);
    }
    for claim in CLAIMS {
        assert!((1..=30_000).contains(&scripts.int(&["PTTL", claim])), "{claim}");
    }
}

#[test]
fn a_start_that_was_not_used_is_given_back_once() {
    let scripts = Scripts::new();
    limit(&scripts, TYPE, r#"{"rate":{"n":1,"per_ms":60000,"burst":1}}"#);
    let (first, second, third) = (scripts.delivered(), scripts.delivered(), scripts.delivered());
    assert_eq!(admit(&scripts, &first, &[TYPE]).0, 1);
    assert_eq!(admit(&scripts, &second, &[TYPE]).0, 2, "one in a minute");
    let member = format!("normal {first}");
    for _ in 0..2 {
        scripts.call(source("drain"), &DRAIN_KEYS, &["50", "524288", "1", TYPE, &member, "unstarted"]);
    }
    assert_eq!(admit(&scripts, &second, &[TYPE]).0, 1);
    assert_eq!(admit(&scripts, &third, &[TYPE]).0, 2);
}
