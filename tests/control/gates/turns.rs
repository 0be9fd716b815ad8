//! Jobs that several gates refuse in turn, and starts that were not used.

use redis::Value;

use super::scripts::{
    DRAIN_KEYS, HIGH, LISTS, ONE, admit, admit_keys, drain, drain_whole, ids, limit, wait_in_waitlist,
};
use harness::scripts::Scripts;
use harness::scripts::{jobs_args, source};
use harness::wait::until;

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
    let scripts = Scripts::start();
    let runs = full_gates(&scripts);
    let free = |gate: &str| drop(scripts.server.cmd(&["HDEL", &held(gate), &runs]));
    let fill = |gate: &str| drop(scripts.server.cmd(&["HSET", &held(gate), &runs, "1"]));
    wait_in_waitlist(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
    for gate in [TYPE, TENANT] {
        free(gate);
        assert_eq!(drain(&scripts, &[], &[gate]), 1, "it moves to the waiting list of the other gate");
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
fn a_job_keeps_the_time_since_which_it_has_waited_when_it_moves_between_waiting_lists() {
    const CAME: &str = "1650000000000";
    let scripts = Scripts::start();
    let runs = full_gates(&scripts);
    let room = |gate: &str| format!("sf:{{q}}:room:{gate}");
    let gates = format!("{TYPE}\n{TENANT}");
    let fields = ["type", "test", "id", "patient", "life", "patient", "lane", "low", "room_gates", &gates];
    scripts.server.cmd(&[&["XADD", &room(TYPE), &format!("{CAME}-0")][..], &fields].concat());
    scripts.server.cmd(&["HSET", LISTS, TYPE, CAME]);
    for (nth, [from, to]) in (1..).zip([[TYPE, TENANT], [TENANT, TYPE]]) {
        scripts.server.cmd(&["HDEL", &held(from), &runs]);
        assert_eq!(drain(&scripts, &[], &[from]), 1, "it moves");
        let moved = format!("{:?}", scripts.server.cmd(&["XRANGE", &room(to), "-", "+"]));
        assert!(moved.contains(&format!("{nth} {CAME}")), "{moved}");
        let since: String = redis::from_redis_value(scripts.server.cmd(&["HGET", LISTS, to])).unwrap();
        assert_eq!(since, CAME);
        scripts.server.cmd(&["HSET", &held(from), &runs, "1"]);
    }
}

#[test]
fn a_job_that_cannot_claim_places_moves_once() {
    const BREAKER: &str = "sf:{q}:breaker:key:h.t=1";
    let scripts = Scripts::start();
    let runs = full_gates(&scripts);
    let rule = r#"{"concurrency":1,"breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":1000}}"#;
    limit(&scripts, "key:h.t", rule);
    wait_in_waitlist(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
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
        let waitlists = [TYPE, TENANT].map(|gate| ids(&scripts, &format!("sf:{{q}}:room:{gate}")));
        assert_eq!(waitlists.concat(), ["patient"]);
    }
}

#[test]
fn a_claim_of_a_job_that_is_gone_holds_up_nobody() {
    let scripts = Scripts::start();
    limit(&scripts, TYPE, r#"{"concurrency":2}"#);
    for (id, claim) in [("a", "1-1\nkey:h.t=1\ntype:test"), ("b", "nonsense")] {
        wait_in_waitlist(&scripts, id, TYPE);
        scripts.server.cmd(&["SET", CLAIMS[0], claim]);
        assert_eq!(drain(&scripts, &[], &[TYPE]), 1, "{claim}");
    }
    assert_eq!((ids(&scripts, HIGH).len(), scripts.int(&["EXISTS", CLAIMS[0]])), (2, 0));
}

#[test]
fn a_claim_ends_by_itself() {
    let scripts = Scripts::start();
    let runs = full_gates(&scripts);
    wait_in_waitlist(&scripts, "patient", &format!("{TYPE}\n{TENANT}"));
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
    let scripts = Scripts::start();
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

/// Reads what was let out, and returns the entries.
fn read_let_out(scripts: &Scripts) -> Vec<String> {
    let read = ["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", HIGH, ">"];
    drop(scripts.server.try_cmd(&["XGROUP", "CREATE", HIGH, "fleet", "0"]));
    scripts.server.cmd(&read);
    let range: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", HIGH, "-", "+"])).unwrap();
    range.into_iter().map(|(entry, _)| entry).collect()
}

/// Asks whether an entry that was let out may start.
fn may_start(scripts: &Scripts, entry: &str) -> i64 {
    let values = [entry, "1650000000000-0", TYPE];
    let (_, answers) = scripts.call(source("admit"), &admit_keys(HIGH), &jobs_args("me", "high", &[&values]));
    let answers: Vec<Value> = redis::from_redis_value(answers[0].clone()).unwrap();
    match &answers[0] {
        Value::Int(answer) => *answer,
        Value::Array(parts) => redis::from_redis_value(parts[0].clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rate_lets_out_no_more_jobs_than_may_start_at_once_while_no_worker_reads_them() {
    let scripts = Scripts::start();
    // Half a second's jobs are five.
    let breaker = r#""breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":1000}"#;
    limit(&scripts, TYPE, &format!(r#"{{"rate":{{"n":2,"per_ms":200,"burst":1}},{breaker}}}"#));
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        wait_in_waitlist(&scripts, id, TYPE);
    }
    let soon = std::time::Duration::from_secs(20);
    let left = || scripts.int(&["XLEN", "sf:{q}:room:type:test"]);
    let drained = |want: i64| {
        until(&format!("all but {want} to leave"), soon, || {
            drain(&scripts, &[], &[TYPE]);
            left() == want
        });
        let rate = "sf:{q}:rate:type:test";
        until("the rate to allow more", soon, || {
            let next: Option<f64> = redis::from_redis_value(scripts.server.cmd(&["GET", rate])).unwrap();
            next.is_none_or(|next| next < scripts.server.now_ms() as f64)
        });
        for _ in 0..20 {
            drain(&scripts, &[], &[TYPE]);
        }
        assert_eq!(left(), want);
    };
    drained(3);
    // A worker reads one.
    drop(scripts.server.try_cmd(&["XGROUP", "CREATE", HIGH, "fleet", "0"]));
    scripts.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "COUNT", "1", "STREAMS", HIGH, ">"]);
    drained(2);
    // Somebody cancels another one.
    let range = scripts.server.cmd(&["XREVRANGE", HIGH, "+", "-", "COUNT", "1"]);
    let last: Vec<(String, Vec<String>)> = redis::from_redis_value(range).unwrap();
    scripts.server.cmd(&["XDEL", HIGH, &last[0].0]);
    drained(1);
    // All are read, and one starts.
    let entries = read_let_out(&scripts);
    assert_eq!(may_start(&scripts, &entries[0]), 1);
    drained(0);
}

#[test]
fn a_breaker_that_opens_stops_jobs_that_have_left_the_waiting_list() {
    let (scripts, breaker) = (Scripts::start(), "sf:{q}:breaker:type:test");
    limit(&scripts, TYPE, r#"{"breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":100000}}"#);
    for id in ["a", "b", "c"] {
        wait_in_waitlist(&scripts, id, TYPE);
    }
    assert_eq!(drain(&scripts, &[], &[TYPE]), 3);
    let entries = read_let_out(&scripts);
    let far = (scripts.server.now_ms() + 60_000).to_string();
    scripts.server.cmd(&["HSET", breaker, "until_ms", &far, "cooldown_ms", "100000"]);
    assert_eq!(may_start(&scripts, &entries[0]), 2);
    assert_eq!(scripts.int(&["HLEN", &held(TYPE)]), 2, "it gave its place back");
    // After the cooldown, one of them is tried.
    scripts.server.cmd(&["HSET", breaker, "until_ms", "1"]);
    assert_eq!([&entries[1], &entries[1], &entries[2]].map(|entry| may_start(&scripts, entry)), [1, 1, 2]);
    let tried: String = redis::from_redis_value(scripts.server.cmd(&["HGET", breaker, "probe"])).unwrap();
    assert_eq!(tried, format!("high {}", entries[1]));
}

#[test]
fn one_script_lets_out_few_jobs_with_many_gates() {
    let scripts = Scripts::start();
    for nth in 0..50 {
        let others = (0..9).map(|field| format!("key:h.k{field}={nth}"));
        let gates: Vec<String> = std::iter::once(TYPE.to_owned()).chain(others).collect();
        wait_in_waitlist(&scripts, &nth.to_string(), &gates.join("\n"));
    }
    let drained = drain_whole(&scripts, &[], &[TYPE]);
    assert_eq!((drained.left, drained.more), (8, true));
}

#[test]
fn one_script_lets_out_fewer_jobs_if_a_breaker_counts_many_ends() {
    let scripts = Scripts::start();
    limit(&scripts, TYPE, r#"{"breaker":{"ratio":0.5,"min":200,"window_ms":60000,"cooldown_ms":1000}}"#);
    for nth in 0..50 {
        wait_in_waitlist(&scripts, &nth.to_string(), TYPE);
    }
    let ended: Vec<String> = (1..=100).map(|nth| format!("normal {nth}-0")).collect();
    for member in &ended {
        scripts.server.cmd(&["HSET", &held(TYPE), member, "1"]);
    }
    let ends = ended.iter().flat_map(|member| [TYPE, member.as_str(), "ok"]);
    let args: Vec<&str> = ["50", "524288", "100"].into_iter().chain(ends).chain([TYPE]).collect();
    let (left, rest) = scripts.call(source("drain"), &DRAIN_KEYS, &args);
    assert_eq!((left, &rest[1]), (30, &Value::Int(1)));
    assert_eq!(drain(&scripts, &[], &[TYPE]), 20);
}
