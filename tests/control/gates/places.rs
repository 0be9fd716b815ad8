//! How long gates keep the places of jobs.

use super::scripts::{HELD, admit, drain, limit};
use harness::scene::SOON;
use harness::scripts::Scripts;
use harness::wait::until;

#[test]
fn the_places_of_a_value_expire_a_month_after_the_last_start_and_those_of_a_type_do_not() {
    let scripts = Scripts::start();
    for (gate, limits) in [
        ("type:test", r#"{"concurrency":9}"#),
        ("key:h.slow", r#"{"concurrency":9}"#),
        ("key:h.rated", r#"{"rate":{"n":9,"per_ms":1000,"burst":9}}"#),
    ] {
        limit(&scripts, gate, limits);
    }
    let entry = scripts.delivered();
    assert_eq!(admit(&scripts, &entry, &["type:test", "key:h.slow=1", "key:h.rated=1"]).0, 1);
    let ttl = |gate: &str| scripts.int(&["PTTL", &format!("sf:{{q}}:held:{gate}")]);
    assert_eq!(ttl("type:test"), -1);
    const DAY_MS: i64 = 86_400_000;
    for gate in ["key:h.slow=1", "key:h.rated=1"] {
        assert!((29 * DAY_MS..=30 * DAY_MS).contains(&ttl(gate)), "{gate}: {}", ttl(gate));
        scripts.server.cmd(&["PEXPIRE", &format!("sf:{{q}}:held:{gate}"), "60000"]);
    }
    let another = scripts.delivered();
    assert_eq!(admit(&scripts, &another, &["key:h.slow=1", "key:h.rated=1"]).0, 1);
    for gate in ["key:h.slow=1", "key:h.rated=1"] {
        assert!(ttl(gate) > 29 * DAY_MS, "each start begins the month again");
    }
}

#[test]
fn a_job_that_is_gone_keeps_no_place_in_a_gate_that_only_counts_failures() {
    const GATE: &str = "type:test";
    let scripts = Scripts::start();
    limit(&scripts, GATE, r#"{"breaker":{"ratio":0.5,"min":20,"window_ms":60000,"cooldown_ms":30000}}"#);
    let (gone, runs) = (scripts.delivered(), scripts.delivered());
    for entry in [&gone, &runs] {
        assert_eq!(admit(&scripts, entry, &[GATE]).0, 1);
    }
    scripts.server.cmd(&["XACK", "sf:{q}:jobs", "fleet", &gone]);
    scripts.server.cmd(&["XDEL", "sf:{q}:jobs", &gone]);
    let held = || scripts.int(&["HLEN", "sf:{q}:held:type:test"]);
    assert_eq!(admit(&scripts, &runs, &[GATE]).0, 1);
    assert_eq!(held(), 2, "its worker may still say how it ended");
    until("the place to be forgotten", SOON, || {
        assert_eq!(admit(&scripts, &runs, &[GATE]).0, 1);
        held() == 1
    });
    assert_eq!(scripts.int(&["HEXISTS", "sf:{q}:held:type:test", &format!("normal {runs}")]), 1);
}

#[test]
fn a_gate_with_only_a_breaker_forgets_the_places_of_jobs_that_are_gone() {
    let scripts = Scripts::start();
    let rule = r#"{"breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":1000}}"#;
    limit(&scripts, "type:test", rule);
    let since = |time: &str| drop(scripts.server.cmd(&["HSET", HELD, "high 1-0", time]));
    let starts_and_ends = || {
        let entry = scripts.delivered();
        assert_eq!(admit(&scripts, &entry, &["type:test"]).0, 1);
        assert_eq!(drain(&scripts, &[format!("normal {entry}").as_str()], &[]), 0);
    };
    since("1");
    starts_and_ends();
    // Its worker may be about to report how it ended.
    assert_eq!(scripts.int(&["HLEN", HELD]), 1);
    since("gone 1");
    starts_and_ends();
    assert_eq!(scripts.int(&["EXISTS", HELD]), 0);
}
