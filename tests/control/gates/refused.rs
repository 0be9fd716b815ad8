//! Waiting lists and gates whose jobs Redis refuses to move: nothing moves twice, and one script tries few of them.

use redis::Value;

use super::scripts::{DRAIN_KEYS, GATES, HIGH, LISTS, LOW, ONE, PLACES, STREAM, admit, ids, limit};
use harness::fleet::Acts;
use harness::scene::{LONG, SOON, Scene};
use harness::scripts::Scripts;
use harness::scripts::source;
use harness::wait::until_async;

/// A gate with only a rate, in which no job can take a place.
const BROKEN: &str = "type:broken";
const BROKEN_HELD: &str = "sf:{q}:held:type:broken";
const RATE: &str = r#"{"rate":{"n":100,"per_ms":1000,"burst":25}}"#;

fn break_gate(scripts: &Scripts) {
    limit(scripts, BROKEN, RATE);
    scripts.server.cmd(&["SET", BROKEN_HELD, "x"]);
}

/// Adds a job to the waiting list of a gate. It must pass that gate and, if it is given, another one.
fn wait_in(scripts: &Scripts, waitlist: &str, id: &str, other: Option<&str>) {
    let gates = std::iter::once(waitlist).chain(other).collect::<Vec<_>>().join("\n");
    let fields = ["type", "test", "id", id, "life", id, "created_ms", "1", "room_gates", &gates];
    let added =
        scripts.server.cmd(&[&["XADD", &format!("sf:{{q}}:room:{waitlist}"), "*"][..], &fields].concat());
    let entry: String = redis::from_redis_value(added).unwrap();
    scripts.server.cmd(&["HSET", LISTS, waitlist, "1"]);
    scripts.server.cmd(&["HSET", PLACES, id, &format!("{entry} {waitlist}")]);
}

/// Lets jobs out of these waiting lists. Returns how many left, and the first error.
fn drain(scripts: &Scripts, waitlists: &[String]) -> (i64, String) {
    let head = ["50", "262144", "0"].map(str::to_owned);
    let (left, rest) = scripts.call(source("drain"), &DRAIN_KEYS, &[&head[..], waitlists].concat());
    (left, redis::from_redis_value(rest[2].clone()).unwrap())
}

#[test]
fn a_job_whose_second_gate_is_broken_stays_in_its_waiting_list_once() {
    let scripts = Scripts::start();
    break_gate(&scripts);
    // Two full gates, whose places large jobs hold that wait in the lane: to check them takes all that one script may check.
    let payload = "x".repeat(120_000);
    for tenant in 0..2 {
        let gate = format!("key:h.tenant={tenant}");
        limit(&scripts, &gate, r#"{"concurrency":4}"#);
        for _ in 0..4 {
            let added = scripts.server.cmd(&["XADD", HIGH, "*", "type", "test", "payload", &payload]);
            let member = format!("high {}", redis::from_redis_value::<String>(added).unwrap());
            scripts.server.cmd(&["HSET", &format!("sf:{{q}}:held:{gate}"), &member, "1"]);
        }
        wait_in(&scripts, &gate, &format!("waits-{tenant}"), None);
    }
    wait_in(&scripts, "key:h.tenant=2", "one", Some(BROKEN));
    let waitlists: Vec<String> = (0..3).map(|tenant| format!("key:h.tenant={tenant}")).collect();
    for _ in 0..3 {
        let (left, failed) = drain(&scripts, &waitlists);
        assert!(left == 0 && failed.contains("WRONGTYPE"), "{left} left: {failed}");
    }
    let copies = |stream: &str| ids(&scripts, stream).iter().filter(|id| *id == "one").count();
    assert_eq!([HIGH, STREAM, LOW, "sf:{q}:room:key:h.tenant=2"].map(copies), [0, 0, 0, 1]);
    scripts.server.cmd(&["DEL", BROKEN_HELD]);
    assert_eq!(drain(&scripts, &waitlists), (1, String::new()));
    assert_eq!((copies(HIGH), scripts.int(&["HLEN", BROKEN_HELD])), (1, 1));
}

#[test]
fn one_script_tries_few_jobs_that_cannot_be_moved_in_however_many_waiting_lists() {
    let scripts = Scripts::start();
    break_gate(&scripts);
    let waitlists: Vec<String> = (0..20).map(|tenant| format!("key:h.tenant={tenant}")).collect();
    for waitlist in &waitlists {
        for nth in 0..20 {
            wait_in(&scripts, waitlist, &format!("{waitlist}-{nth}"), Some(BROKEN));
        }
    }
    let before = scripts.server.calls("xadd");
    let (left, failed) = drain(&scripts, &waitlists);
    assert!(left == 0 && failed.contains("WRONGTYPE"), "{left} left: {failed}");
    let tried = scripts.server.calls("xadd") - before;
    assert!((1..=20).contains(&tried), "{tried} jobs were tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_list_between_those_that_cannot_be_emptied_has_its_turn() {
    let scene = Scene::new().await;
    let gates = "sf:{default}:gates";
    scene.server.cmd(&["HSET", gates, "r:type:broken", RATE, "@rev", "1"]);
    scene.server.cmd(&["SET", "sf:{default}:held:type:broken", "x"]);
    let add = |waitlist: &str, id: &str, gates: &str| {
        let fields = ["type", "test", "id", id, "life", id, "created_ms", "1", "room_gates", gates];
        let key = format!("sf:{{default}}:room:{waitlist}");
        scene.server.cmd(&[&["XADD", &key, "*"][..], &fields].concat());
        scene.server.cmd(&["HSET", "sf:{default}:rooms", waitlist, "1"]);
    };
    for tenant in [0, 1, 2] {
        let waitlist = format!("key:h.tenant={tenant}");
        let stuck = if tenant == 1 { 0 } else { 30 };
        for nth in 0..stuck {
            add(&waitlist, &format!("stuck-{tenant}-{nth}"), &format!("{waitlist}\n{BROKEN}"));
        }
        if stuck == 0 {
            add(&waitlist, "free", &waitlist);
        }
    }
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    let free = "free".parse().unwrap();
    until_async("the free job to run", SOON, async || handler.runs(&free) == 1).await;
    fleet.stop().await;
}

#[test]
fn a_claim_lasts_no_longer_than_it_may_even_if_the_clock_went_back() {
    const CLAIM: &str = "sf:{q}:claim:type:test";
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    // Its job claimed the place just before somebody set the clock back by an hour.
    let claim = "1-0\nkey:h.t=1\ntype:test\nkey:h.t=1";
    scripts.server.cmd(&["HSET", GATES, "p:key:h.t=1", "1 0 ann\n"]);
    scripts.server.cmd(&["SET", CLAIM, claim, "PX", "3630000"]);
    assert_eq!(admit(&scripts, &scripts.delivered(), &["type:test"]), (2, vec![Value::Int(1)]));
    let left = scripts.int(&["PTTL", CLAIM]);
    assert!((1..=30_000).contains(&left), "{left} ms are left");
    scripts.server.cmd(&["PEXPIRE", CLAIM, "9000"]);
    admit(&scripts, &scripts.delivered(), &["type:test"]);
    let left = scripts.int(&["PTTL", CLAIM]);
    assert!((1..=9_000).contains(&left), "{left} ms are left");
}
