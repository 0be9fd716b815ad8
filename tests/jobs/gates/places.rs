//! How long gates keep the places of jobs.

use super::scripts::{admit, limit};
use harness::scripts::Scripts;

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
