//! The scripts of gates and waiting lists: sent twice, too late, to a full server, and with keys of another type.

use redis::Value;

use harness::scripts::Scripts;
use harness::scripts::source;

pub(super) const STREAM: &str = "sf:{q}:jobs";
pub(super) const HIGH: &str = "sf:{q}:jobs:high";
pub(super) const LOW: &str = "sf:{q}:jobs:low";
pub(super) const DEAD: &str = "sf:{q}:dead";
pub(super) const GATES: &str = "sf:{q}:gates";
pub(super) const LISTS: &str = "sf:{q}:rooms";
pub(super) const PLACES: &str = "sf:{q}:rooms:places";
const LIST: &str = "sf:{q}:room:type:test";
pub(super) const HELD: &str = "sf:{q}:held:type:test";
const NOTHING: &str = "sf:{q}:offloaded:";
const GENERATION: &str = "1650000000000-0";
const PARK_KEYS: [&str; 9] =
    [STREAM, "sf:{q}:receipts:me", "sf:{q}:cancels", LISTS, PLACES, "sf:{q}:job:j", NOTHING, NOTHING, LIST];
pub(super) const ADMIT_KEYS: [&str; 6] = [GATES, LISTS, STREAM, HIGH, STREAM, LOW];
pub(super) const DRAIN_KEYS: [&str; 7] = [GATES, LISTS, PLACES, DEAD, HIGH, STREAM, LOW];
pub(super) const ONE: &str = r#"{"concurrency":1}"#;

fn park(scripts: &Scripts, entry: &str) -> Value {
    let fields = ["type", "test", "id", "j", "life", GENERATION, "lane", "low", "room_gates", "type:test"];
    let head = [entry, GENERATION, "j", "0", "0", "test", "1700000000000", "type:test"];
    let values = [&head[..], &fields].concat();
    scripts.call_each(source("park"), &PARK_KEYS, &[&values[..]]).remove(0)
}

/// The keys of `admit` for jobs of this lane.
pub(super) fn admit_keys(stream: &'static str) -> [&'static str; 6] {
    let mut keys = ADMIT_KEYS;
    keys[2] = stream;
    keys
}

pub(super) fn admit(scripts: &Scripts, entry: &str, gates: &[&str]) -> (i64, Vec<Value>) {
    scripts.call_one(source("admit"), &ADMIT_KEYS, &[&[entry, GENERATION][..], gates].concat())
}

/// Gives back the places of these entries, and lets jobs out of these waiting lists. Returns how many left.
pub(super) fn drain(scripts: &Scripts, ended: &[&str], waitlists: &[&str]) -> i64 {
    let Drained { left, failed, .. } = drain_whole(scripts, ended, waitlists);
    assert_eq!(failed, "");
    left
}

/// The whole answer of `drain`.
pub(super) struct Drained {
    pub(super) left: i64,
    pub(super) more: bool,
    failed: String,
}

pub(super) fn drain_whole(scripts: &Scripts, ended: &[&str], waitlists: &[&str]) -> Drained {
    let ends = ended.len().to_string();
    let mut args = vec!["50", "524288", ends.as_str()];
    args.extend(ended.iter().flat_map(|entry| ["type:test", entry, ""]));
    args.extend(waitlists);
    let (left, rest) = scripts.call(source("drain"), &DRAIN_KEYS, &args);
    let failed = redis::from_redis_value(rest[2].clone()).unwrap();
    Drained { left, more: rest[1] == Value::Int(1), failed }
}

pub(super) fn limit(scripts: &Scripts, gate: &str, limits: &str) {
    scripts.server.cmd(&["HSET", GATES, &format!("r:{gate}"), limits]);
}

/// Adds a job to the waiting list of the type, which must pass these gates.
pub(super) fn wait_in_waitlist(scripts: &Scripts, id: &str, gates: &str) {
    let fields = ["type", "test", "id", id, "life", id, "lane", "low", "room_gates", gates];
    scripts.server.cmd(&[&["XADD", LIST, "*"][..], &fields].concat());
    scripts.server.cmd(&["HSET", LISTS, "type:test", "1"]);
}

pub(super) fn ids(scripts: &Scripts, stream: &str) -> Vec<String> {
    let range: Vec<(String, Vec<String>)> =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", stream, "-", "+"])).unwrap();
    let id = |fields: &[String]| fields.chunks(2).find(|pair| pair[0] == "id").map(|pair| pair[1].clone());
    range.iter().map(|(_, fields)| id(fields).unwrap_or_default()).collect()
}

#[test]
fn jobs_that_ask_together_get_the_places_that_are_left() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", r#"{"concurrency":2}"#);
    let entries = [0; 3].map(|_| scripts.delivered());
    let ask = || {
        let values = entries.each_ref().map(|entry| [entry.as_str(), GENERATION, "type:test"]);
        scripts.call_each(source("admit"), &ADMIT_KEYS, &values.each_ref().map(|values| &values[..]))
    };
    let refused = Value::Array(vec![Value::Int(2), Value::Int(1)]);
    let want = [Value::Int(1), Value::Int(1), refused];
    assert_eq!(ask(), want);
    assert_eq!(scripts.int(&["HLEN", HELD]), 2);
    let between = scripts.digest();
    assert_eq!(ask(), want, "the same answers");
    assert_eq!(scripts.digest(), between);
    let held = [&entries[0], &entries[1]].map(|entry| format!("normal {entry}"));
    assert_eq!(drain(&scripts, &held.each_ref().map(String::as_str), &[]), 0);
    assert_eq!(scripts.int(&["EXISTS", HELD]), 0);
}

#[test]
fn a_breaker_tries_another_job_if_the_one_it_tried_is_gone() {
    const BREAKER: &str = "sf:{q}:breaker:type:test";
    let scripts = Scripts::start();
    let rule = r#"{"breaker":{"ratio":0.5,"min":2,"window_ms":60000,"cooldown_ms":1000}}"#;
    limit(&scripts, "type:test", rule);
    scripts.server.cmd(&["HSET", BREAKER, "until_ms", "1", "cooldown_ms", "1000", "probe", "high 1-0"]);
    scripts.server.cmd(&["HSET", HELD, "high 1-0", "1"]);
    let entry = scripts.delivered();
    // Its worker may be about to report how it ended.
    assert_eq!(admit(&scripts, &entry, &["type:test"]).0, 2);
    assert_eq!(scripts.int(&["HEXISTS", BREAKER, "gone_ms"]), 1);
    scripts.server.cmd(&["HSET", BREAKER, "gone_ms", "1"]);
    assert_eq!(admit(&scripts, &entry, &["type:test"]).0, 1);
    let tried: String = redis::from_redis_value(scripts.server.cmd(&["HGET", BREAKER, "probe"])).unwrap();
    assert_eq!(tried, format!("normal {entry}"));
    assert_eq!((scripts.int(&["HLEN", HELD]), scripts.int(&["HEXISTS", BREAKER, "gone_ms"])), (1, 0));
    // While that one runs, no other is tried.
    assert_eq!(admit(&scripts, &scripts.delivered(), &["type:test"]).0, 2);
    assert_eq!(scripts.int(&["HEXISTS", BREAKER, "gone_ms"]), 0);
}

#[test]
fn a_job_is_parked_once_however_often_that_is_sent() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    assert_eq!(park(&scripts, &entry), Value::Int(1));
    let between = scripts.digest();
    assert_eq!(park(&scripts, &entry), Value::Int(1), "the same answer");
    assert_eq!(scripts.digest(), between);
    let left = [STREAM, LIST].map(|stream| scripts.int(&["XLEN", stream]));
    assert_eq!((left, scripts.int(&["HLEN", PLACES])), ([0, 1], 1));
}

#[test]
fn a_job_that_another_process_settled_is_not_parked() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
    let before = scripts.digest();
    assert_eq!(park(&scripts, &entry), Value::Int(0));
    assert_eq!(scripts.digest(), before);
}

#[test]
fn a_job_whose_cancellation_was_requested_is_not_parked() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.server.cmd(&["ZADD", "sf:{q}:cancels", "1", GENERATION]);
    assert_eq!(park(&scripts, &entry), Value::Int(3));
    assert_eq!(scripts.int(&["EXISTS", LIST]), 0);
}

#[test]
fn a_full_server_parks_jobs_and_lets_them_out() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    let entry = scripts.delivered();
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "100000"]);
    assert_eq!(park(&scripts, &entry), Value::Int(1));
    assert_eq!(drain(&scripts, &[], &["type:test"]), 1);
    assert_eq!(ids(&scripts, HIGH), ["j"]);
}

#[test]
fn a_waiting_list_of_another_type_leaves_the_job_with_its_worker() {
    let scripts = Scripts::start();
    let entry = scripts.delivered();
    scripts.server.cmd(&["SET", LIST, "x"]);
    let answer = park(&scripts, &entry);
    let Value::BulkString(why) = &answer else { panic!("{answer:?}") };
    let why = String::from_utf8_lossy(why);
    assert!(why.contains("WRONGTYPE") && why.ends_with("(the waiting list)"), "{why}");
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.int(&["EXISTS", PLACES])), (1, 0));
}

#[test]
fn a_gate_is_passed_once_and_its_place_ends_with_the_entry() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    let (first, second) = (scripts.delivered(), scripts.delivered());
    assert_eq!(admit(&scripts, &first, &["type:test"]).0, 1);
    let between = scripts.digest();
    assert_eq!(admit(&scripts, &first, &["type:test"]).0, 1, "asked again");
    assert_eq!(admit(&scripts, &second, &["type:free", "type:test"]), (2, vec![Value::Int(2)]));
    assert_eq!(scripts.digest(), between);
    // Its process died, and another one settled it.
    scripts.server.cmd(&["XACK", STREAM, "fleet", &first]);
    scripts.server.cmd(&["XDEL", STREAM, &first]);
    assert_eq!(admit(&scripts, &second, &["type:test"]).0, 1);
    assert_eq!(admit(&scripts, &first, &["type:test"]).0, 0, "stale");
    assert_eq!(scripts.int(&["HLEN", HELD]), 1);
}

#[test]
fn all_gates_let_a_job_pass_or_none_of_them_counts_it() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", r#"{"rate":{"n":1,"per_ms":60000,"burst":1}}"#);
    limit(&scripts, "key:h.t", ONE);
    scripts.server.cmd(&["HSET", GATES, "p:key:h.t=9", "1 0 ann\n"]);
    let entry = scripts.delivered();
    assert_eq!(admit(&scripts, &entry, &["type:test", "key:h.t=9"]), (2, vec![Value::Int(2)]));
    let held = [HELD, "sf:{q}:rate:type:test", "sf:{q}:held:key:h.t=9"];
    assert_eq!(held.map(|key| scripts.int(&["EXISTS", key])), [0; 3]);
    assert_eq!(admit(&scripts, &entry, &["type:test", "key:h.t=8"]).0, 1);
    assert_eq!(scripts.int(&["EXISTS", "sf:{q}:held:key:h.t=8"]), 1);
    let another = scripts.delivered();
    assert_eq!(admit(&scripts, &another, &["type:test"]), (2, vec![Value::Int(1)]), "one in a minute");
}

#[test]
fn a_rule_that_cannot_be_read_stops_its_own_jobs_only() {
    let scripts = Scripts::start();
    for broken in ["{", r#"{"concurrency":"many"}"#, r#"{"rate":{"n":0,"per_ms":1,"burst":1}}"#, "7"] {
        limit(&scripts, "type:test", broken);
        let entry = scripts.delivered();
        assert_eq!(admit(&scripts, &entry, &["type:test"]).0, 2, "{broken}");
        assert_eq!(admit(&scripts, &entry, &["type:free"]).0, 1, "{broken}");
    }
}

#[test]
fn jobs_leave_a_waiting_list_in_order_while_there_are_places() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    for id in ["a", "b"] {
        wait_in_waitlist(&scripts, id, "type:test");
    }
    assert_eq!(drain(&scripts, &[], &["type:test"]), 1);
    let between = scripts.digest();
    assert_eq!(drain(&scripts, &[], &["type:test"]), 0);
    assert_eq!((scripts.digest(), ids(&scripts, HIGH)), (between, vec!["a".to_owned()]));
    let held: Vec<String> = redis::from_redis_value(scripts.server.cmd(&["HKEYS", HELD])).unwrap();
    assert_eq!(drain(&scripts, &[&held[0]], &["type:test"]), 1);
    assert_eq!(ids(&scripts, HIGH), ["a", "b"]);
    assert_eq!(scripts.int(&["EXISTS", LISTS, LIST]), 0, "the waiting list is empty");
}

#[test]
fn an_opened_gate_gives_its_jobs_back_to_their_own_lane() {
    let scripts = Scripts::start();
    wait_in_waitlist(&scripts, "a", "type:test");
    assert_eq!(drain(&scripts, &[], &["type:test"]), 1);
    assert_eq!(ids(&scripts, LOW), ["a"]);
    let fields = format!("{:?}", scripts.server.cmd(&["XRANGE", LOW, "-", "+"]));
    assert!(!fields.contains("room_gates"), "{fields}");
}

#[test]
fn a_job_that_another_gate_refuses_holds_up_nobody() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", GATES, "p:key:h.t=9", "1 0 ann\n"]);
    wait_in_waitlist(&scripts, "a", "type:test\nkey:h.t=9");
    wait_in_waitlist(&scripts, "b", "type:test");
    assert_eq!(drain(&scripts, &[], &["type:test"]), 2);
    assert_eq!(
        (ids(&scripts, "sf:{q}:room:key:h.t=9"), ids(&scripts, LOW)),
        (vec!["a".into()], vec!["b".into()])
    );
    let place: String = redis::from_redis_value(scripts.server.cmd(&["HGET", PLACES, "a"])).unwrap();
    assert!(place.ends_with(" key:h.t=9"), "{place}");
}

#[test]
fn an_entry_that_is_not_a_job_does_not_block_its_waiting_list() {
    let scripts = Scripts::start();
    let many: Vec<String> = (0..4002).map(|nth| nth.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    scripts.server.cmd(&[&["XADD", LIST, "*"][..], &many].concat());
    scripts.server.cmd(&["XADD", LIST, "*", "lane", "low"]);
    scripts.server.cmd(&["XADD", LIST, "*", "neither", "id nor type"]);
    wait_in_waitlist(&scripts, "a", "type:test");
    assert_eq!(drain(&scripts, &[], &["type:test"]), 4);
    assert_eq!((ids(&scripts, LOW), ids(&scripts, STREAM)), (vec!["a".into()], vec![String::new()]));
    assert_eq!(scripts.int(&["XLEN", DEAD]), 2);
}

#[test]
fn large_jobs_of_a_full_gate_delay_no_other_waiting_list() {
    let scripts = Scripts::start();
    limit(&scripts, "type:test", ONE);
    let entry = scripts.delivered();
    assert_eq!(admit(&scripts, &entry, &["type:test"]).0, 1);
    let payload = "x".repeat(600_000);
    let large = [
        "type",
        "test",
        "id",
        "large",
        "life",
        "large",
        "room_gates",
        "type:test",
        "payload",
        payload.as_str(),
    ];
    scripts.server.cmd(&[&["XADD", LIST, "*"][..], &large].concat());
    scripts.server.cmd(&["XADD", "sf:{q}:room:type:free", "*", "type", "free", "id", "small"]);
    scripts.server.cmd(&["HSET", LISTS, "type:test", "1", "type:free", "1"]);
    let drained = drain_whole(&scripts, &[], &["type:test", "type:free"]);
    assert_eq!((drained.left, drained.more, drained.failed.as_str()), (1, false, ""));
    assert!(ids(&scripts, STREAM).contains(&"small".to_owned()));
}

#[test]
fn a_job_leaves_once_even_if_its_place_cannot_be_forgotten() {
    let scripts = Scripts::start();
    wait_in_waitlist(&scripts, "a", "type:test");
    scripts.server.cmd(&["SET", PLACES, "x"]);
    let drained = drain_whole(&scripts, &[], &["type:test"]);
    assert!(drained.left == 1 && drained.failed.contains("WRONGTYPE"), "{}", drained.failed);
    assert_eq!(drain_whole(&scripts, &[], &["type:test"]).left, 0);
    assert_eq!((ids(&scripts, LOW), scripts.int(&["EXISTS", LIST])), (vec!["a".to_owned()], 0));
}

#[test]
fn what_cannot_be_set_aside_does_not_block_its_waiting_list() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["SET", DEAD, "x"]);
    scripts.server.cmd(&["XADD", LIST, "*", "lane", "low"]);
    wait_in_waitlist(&scripts, "a", "type:test");
    let drained = drain_whole(&scripts, &[], &["type:test"]);
    assert!(drained.left == 1 && drained.failed.contains("WRONGTYPE"), "{}", drained.failed);
    assert_eq!((ids(&scripts, LOW), scripts.int(&["XLEN", LIST])), (vec!["a".to_owned()], 1));
}

#[test]
fn jobs_that_cannot_be_moved_block_nobody_behind_them() {
    let scripts = Scripts::start();
    scripts.server.cmd(&["SET", LOW, "x"]);
    let stuck: Vec<String> = (0..50).map(|nth| format!("stuck-{nth:02}")).collect();
    for id in &stuck {
        wait_in_waitlist(&scripts, id, "type:test");
    }
    scripts.server.cmd(&["XADD", LIST, "*", "id", "free", "type", "test", "lane", "normal"]);
    let passes = (1..=5).find(|_| drain_whole(&scripts, &[], &["type:test"]).left == 1);
    assert_eq!((passes, scripts.int(&["XLEN", LIST])), (Some(3), 50));
    assert!(ids(&scripts, STREAM).contains(&"free".to_owned()));
    scripts.server.cmd(&["DEL", LOW]);
    assert_eq!(drain(&scripts, &[], &["type:test"]), 50);
    let mut moved = ids(&scripts, LOW);
    moved.sort();
    assert_eq!((moved, scripts.int(&["XLEN", LIST]), scripts.int(&["EXISTS", PLACES])), (stuck, 0, 0));
}

#[test]
fn a_rate_that_was_raised_or_a_clock_that_went_back_stops_nobody() {
    let scripts = Scripts::start();
    let far = "99999999999999";
    limit(&scripts, "type:test", r#"{"rate":{"n":1,"per_ms":60000,"burst":2}}"#);
    scripts.server.cmd(&["SET", "sf:{q}:rate:type:test", far]);
    let (first, second) = (scripts.delivered(), scripts.delivered());
    assert_eq!(admit(&scripts, &first, &["type:test"]).0, 1);
    assert_eq!(admit(&scripts, &second, &["type:test"]).0, 2, "the burst is used up");
    assert!(scripts.int(&["PTTL", "sf:{q}:rate:type:test"]) <= 180_000);
    let breaker = r#"{"breaker":{"ratio":1,"min":1,"window_ms":1000,"cooldown_ms":1000}}"#;
    limit(&scripts, "type:other", breaker);
    let key = "sf:{q}:breaker:type:other";
    scripts.server.cmd(&["HSET", key, "until_ms", far, "cooldown_ms", "1000"]);
    assert_eq!(admit(&scripts, &second, &["type:other"]).0, 2);
    let until = scripts.int(&["HGET", key, "until_ms"]);
    assert!(until <= scripts.server.now_ms() as i64 + 1000, "it opens after its cooldown: {until}");
}

#[test]
fn one_script_checks_few_of_the_entries_that_hold_places() {
    const GATES_HELD: usize = 40;
    let scripts = Scripts::start();
    let names: Vec<String> = (0..GATES_HELD).map(|nth| format!("type:t{nth}")).collect();
    for name in &names {
        limit(&scripts, name, r#"{"concurrency":5}"#);
        let held = format!("sf:{{q}}:held:{name}");
        let ended: Vec<String> = (1..=5).map(|nth| format!("normal {nth}-0")).collect();
        for member in &ended {
            scripts.server.cmd(&["HSET", &held, member, "1"]);
        }
        scripts.server.cmd(&["HSET", LISTS, name, "1"]);
        scripts.server.cmd(&["XADD", &format!("sf:{{q}}:room:{name}"), "*", "type", "test"]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    drain(&scripts, &[], &names);
    let held = |name: &&str| scripts.int(&["HLEN", &format!("sf:{{q}}:held:{name}")]);
    let forgotten = names.iter().filter(|name| held(name) < 5).count();
    assert!((20..=24).contains(&forgotten), "places of {forgotten} gates were checked");
}

#[test]
fn a_script_reads_none_of_the_entries_that_hold_places() {
    let scripts = Scripts::start();
    let large = "x".repeat(120 * 1024);
    let wait = |_| -> String {
        let added = scripts.server.cmd(&["XADD", HIGH, "*", "type", "test", "payload", &large]);
        format!("high {}", redis::from_redis_value::<String>(added).unwrap())
    };
    let waiting: Vec<String> = (0..4).map(wait).collect();
    let names: Vec<String> = (0..20).map(|nth| format!("type:t{nth}")).collect();
    for name in &names {
        limit(&scripts, name, r#"{"concurrency":4}"#);
        for member in &waiting {
            scripts.server.cmd(&["HSET", &format!("sf:{{q}}:held:{name}"), member, "1"]);
        }
        scripts.server.cmd(&["HSET", LISTS, name, "1"]);
        scripts.server.cmd(&["XADD", &format!("sf:{{q}}:room:{name}"), "*", "type", "test"]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = scripts.server.calls("xrange");
    assert_eq!(drain(&scripts, &[], &names), 0);
    // Whether they exist, it learns without reading them.
    assert_eq!(scripts.server.calls("xrange"), before);
    let held = |name: &&str| scripts.int(&["HLEN", &format!("sf:{{q}}:held:{name}")]);
    assert!(names.iter().all(|name| held(name) == 4), "those that wait keep their places");
}

#[test]
fn nobody_leaves_a_waiting_list_of_a_closed_queue() {
    let scripts = Scripts::start();
    wait_in_waitlist(&scripts, "a", "type:test");
    scripts.server.cmd(&["HSET", GATES, "p:queue", "1 0 ann\n"]);
    assert_eq!(drain(&scripts, &[], &["type:test"]), 0);
    scripts.server.cmd(&["HSET", GATES, "p:queue", "1 2 ann\n"]);
    assert_eq!(drain(&scripts, &[], &["type:test"]), 1, "the pause is over");
}

#[test]
fn rules_are_changed_in_one_step_with_a_new_revision() {
    let scripts = Scripts::start();
    let put = |args: &[&str]| scripts.call(source("rule_put"), &[GATES], args);
    let revision = |answer: &(i64, Vec<Value>)| match answer.1[0] {
        Value::Int(revision) => revision,
        ref other => panic!("{other:?}"),
    };
    let first = put(&["3000", "8", "", "c:queue", ONE, "c:key:a", ONE, "p:queue", "0 ann\nwhy"]);
    assert_eq!(first.0, 3);
    let same = put(&["3000", "8", "c:key:", "c:queue", ONE, "c:key:a", ONE]);
    assert_eq!((same.0, revision(&same)), (0, revision(&first)), "nothing has changed");
    let second = put(&["3000", "8", "c:key:", "c:queue", "", "c:key:b", ONE]);
    assert_eq!(second.0, 3, "one is removed, one is stale, and one is new");
    assert!(revision(&second) > revision(&first));
    let rules = format!("{:?}", scripts.call(source("rules"), &[GATES], &[] as &[&str]));
    assert!(rules.contains("c:key:b") && !rules.contains("c:key:a") && rules.contains("p:queue"), "{rules}");
    assert_eq!(put(&["3", "8", "", "r:queue", ONE, "r:type:a", ONE]).0, -1, "too many");
    assert_eq!(put(&["0", "8", "", "p:queue", ""]).0, 1, "a gate can always be opened");
}

#[test]
fn gates_depend_on_few_fields_and_say_so() {
    let scripts = Scripts::start();
    let put = |args: &[&str]| scripts.call(source("rule_put"), &[GATES], args);
    for nth in 0..8 {
        assert_eq!(put(&["3000", "8", "", &format!("p:key:h.f{nth}=1"), "0 ann\n"]).0, 1);
    }
    let before = scripts.digest();
    assert_eq!(put(&["3000", "8", "", "p:key:h.f8=1", "0 ann\n"]), (-2, vec![Value::Int(9)]));
    assert_eq!(scripts.digest(), before);
    assert_eq!(put(&["3000", "8", "", "r:key:h.f7", ONE]).0, 1, "a known field");
    assert_eq!(put(&["3000", "8", "", "p:key:h.f0=1", "", "p:key:h.f8=1", "0 ann\n"]).0, 2);
}

#[test]
fn rules_that_are_over_or_replaced_are_not_counted() {
    let scripts = Scripts::start();
    let put = |args: &[&str]| scripts.call(source("rule_put"), &[GATES], args);
    scripts.server.cmd(&[
        "HSET",
        GATES,
        "p:type:a",
        "1 2 ann\nover",
        "p:type:b",
        "1 0 ann\n",
        "r:type:b",
        ONE,
    ]);
    assert_eq!(put(&["3", "8", "", "r:type:b", "{}"]).0, 1, "a rule is replaced");
    assert_eq!(scripts.int(&["HEXISTS", GATES, "p:type:a"]), 0);
    assert_eq!(put(&["3", "8", "", "r:type:c", ONE]), (-1, vec![Value::Int(3)]));
    assert_eq!(put(&["3", "8", "", "p:queue", "0 ann\n"]).0, 1, "the queue can always be closed");
}

#[test]
fn an_index_of_waiting_lists_that_was_deleted_is_made_again() {
    let scripts = Scripts::start();
    wait_in_waitlist(&scripts, "a", "type:test");
    scripts.server.cmd(&["HSET", PLACES, "a", "1-0 type:test", "b", "1-0 type:gone"]);
    scripts.server.cmd(&["DEL", LISTS]);
    let (_, rest) = scripts.call(source("waitlists"), &[GATES, LISTS, PLACES], &["0"]);
    assert_eq!(
        (rest.len(), &rest[1], &rest[3]),
        (4, &Value::BulkString(b"type:test".to_vec()), &Value::Int(1))
    );
    scripts.server.cmd(&["DEL", LISTS]);
    scripts.call(source("waitlists"), &[GATES, LISTS, PLACES], &["17"]);
    assert_eq!(scripts.int(&["EXISTS", LISTS]), 0, "only the first page looks");
}
