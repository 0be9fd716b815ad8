//! The script that shares a queue between the values of a field: sent twice, to a full server, and with entries that are no jobs.

use redis::Value;

use super::scripts::{DEAD, GATES, HIGH, LISTS, LOW, PLACES, STREAM};
use harness::scene::SOON;
use harness::scripts::Scripts;
use harness::scripts::{sha, source};
use harness::wait::until;

const FAIR: &str = "sf:{q}:fair";
const RING: &str = "sf:{q}:fair:normal";
pub(super) const KEYS: [&str; 11] =
    [GATES, LISTS, PLACES, DEAD, FAIR, HIGH, STREAM, LOW, "sf:{q}:fair:high", RING, "sf:{q}:fair:low"];

/// Entries with their fields.
type Entries = Vec<(String, Vec<String>)>;

/// What one call did.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    held_back: i64,
    left: i64,
    more: bool,
    has_waitlists: bool,
    failed: String,
}

/// The arguments of a call that has seen nothing in a lane.
const NOTHING_SEEN: [&str; 4] = ["", "", "0", "0"];

/// The arguments of a call that has seen nothing in any lane.
pub(super) fn nothing_seen<'a>() -> impl Iterator<Item = &'a str> {
    let nothing: [&'a str; 4] = NOTHING_SEEN;
    [nothing; 3].into_iter().flatten()
}

/// What a caller sees in a lane behind a mark: this many entries, of which the script may read the small ones.
fn look(scripts: &Scripts, stream: &str, mark: &str, most: usize) -> Vec<String> {
    if mark.is_empty() {
        return NOTHING_SEEN.map(str::to_owned).to_vec();
    }
    let (after, count) = (format!("({}", mark.split(' ').next().unwrap()), (most + 1).to_string());
    let range = scripts.server.cmd(&["XRANGE", stream, &after, "+", "COUNT", &count]);
    let mut entries: Vec<(String, Vec<Vec<u8>>)> = redis::from_redis_value(range).unwrap();
    let has_more = entries.len() > most;
    entries.truncate(most);
    let is_small = |fields: &[Vec<u8>]| fields.iter().map(Vec::len).sum::<usize>() <= 131_072;
    let small = entries.iter().filter(|(_, fields)| is_small(fields));
    let runs: Vec<String> = small.flat_map(|(id, _)| [id.clone(), id.clone()]).collect();
    let head = [mark.to_owned(), entries.last().map(|(id, _)| id.clone()).unwrap_or_default()];
    let tail = [u8::from(has_more).to_string(), runs.len().to_string()];
    head.into_iter().chain(tail).chain(runs).collect()
}

/// Calls the script with what was seen of each lane. Returns also the marks.
fn share_seen(scripts: &Scripts, window: &str, seen: &[String], names: &[&str]) -> (Done, [String; 3]) {
    let names = names.iter().map(|name| (*name).to_owned());
    let args: Vec<String> =
        [window, "100", "524288"].map(str::to_owned).into_iter().chain(seen.to_vec()).chain(names).collect();
    let (held_back, rest) = scripts.call(source("share"), &KEYS, &args);
    let number = |nth: usize| redis::from_redis_value::<i64>(rest[nth].clone()).unwrap();
    let text = |nth: usize| redis::from_redis_value::<String>(rest[nth].clone()).unwrap();
    let done = Done {
        held_back,
        left: number(0),
        more: number(1) == 1,
        has_waitlists: number(2) == 1,
        failed: text(3),
    };
    (done, [text(4), text(5), text(6)])
}

/// Shares once, as a worker does.
fn share_names(scripts: &Scripts, window: &str, names: &[&str]) -> Done {
    let nothing: Vec<String> = nothing_seen().map(str::to_owned).collect();
    let (first, marks) = share_seen(scripts, window, &nothing, names);
    if marks.iter().all(String::is_empty) {
        return first;
    }
    let lanes = [HIGH, STREAM, LOW].into_iter().zip(&marks);
    let seen: Vec<_> = lanes.flat_map(|(stream, mark)| look(scripts, stream, mark, 100)).collect();
    let (next, _) = share_seen(scripts, window, &seen, names);
    Done { held_back: first.held_back + next.held_back, left: first.left + next.left, ..next }
}

fn share(scripts: &Scripts, window: &str) -> Done {
    share_names(scripts, window, &[])
}

/// Shares until nothing more moves.
fn share_all(scripts: &Scripts, window: &str) {
    while share(scripts, window).more {}
}

/// Shares the queue by `h.t`, with these weights as JSON.
fn shared(weights: &str) -> Scripts {
    let scripts = Scripts::start();
    scripts.server.cmd(&["HSET", GATES, "f:fair", &format!(r#"{{"by":"h.t","weights":{weights}}}"#)]);
    scripts
}

fn add(scripts: &Scripts, tenant: &str, jobs: usize) {
    let add = "for nth = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'h.t', ARGV[2]) end return 0";
    scripts.server.cmd(&["EVAL", add, "1", STREAM, &jobs.to_string(), tenant]);
}

/// Reads all that waits in the lane, ends it, and returns its tenants in order.
fn run_all(scripts: &Scripts) -> String {
    let read = ["XREADGROUP", "GROUP", "fleet", "me", "COUNT", "1000", "STREAMS", STREAM, ">"];
    let read: Option<Vec<(String, Entries)>> = redis::from_redis_value(scripts.server.cmd(&read)).unwrap();
    let entries = read.into_iter().flatten().flat_map(|(_, entries)| entries);
    let tenant = |fields: &[String]| {
        fields.chunks(2).find(|pair| pair[0] == "h.t").map_or("-".to_owned(), |pair| pair[1].clone())
    };
    entries
        .map(|(entry, fields)| {
            scripts.server.cmd(&["XACK", STREAM, "fleet", &entry]);
            scripts.server.cmd(&["XDEL", STREAM, &entry]);
            tenant(&fields)
        })
        .collect()
}

#[test]
fn a_queue_without_a_flood_is_left_alone() {
    let scripts = shared("{}");
    add(&scripts, "a", 8);
    let before = scripts.digest();
    let nothing = Done { held_back: 0, left: 0, more: false, has_waitlists: false, failed: String::new() };
    assert_eq!(share(&scripts, "8"), nothing);
    assert_eq!(scripts.digest(), before);
    scripts.server.cmd(&["HDEL", GATES, "f:fair"]);
    add(&scripts, "a", 500);
    assert_eq!(share(&scripts, "8"), nothing, "the queue is not shared");
}

#[test]
fn a_copy_of_a_letter_keeps_its_large_fields_while_it_waits_for_its_turn() {
    let scripts = shared("{}");
    add(&scripts, "a", 4);
    for token in ["5-1-00ff 7", "x"] {
        scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "h.t", "a", "offloaded", token]);
    }
    share_all(&scripts, "4");
    let kept = scripts.server.cmd(&["ZRANGE", "sf:{q}:dead:offloaded", "0", "-1", "WITHSCORES"]);
    assert_eq!(redis::from_redis_value::<Vec<String>>(kept).unwrap(), ["5-1-00ff", "inf"]);
}

#[test]
fn jobs_that_share_an_id_have_a_place_each() {
    let scripts = shared("{}");
    for _ in 0..10 {
        scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j", "h.t", "a"]);
    }
    share_all(&scripts, "4");
    for waiting in [6, 2] {
        assert_eq!(scripts.int(&["HLEN", PLACES]), waiting);
        assert_eq!(run_all(&scripts), "aaaa");
        share_all(&scripts, "4");
    }
    assert_eq!((run_all(&scripts).as_str(), scripts.int(&["EXISTS", PLACES])), ("aa", 0));
}

#[test]
fn a_flood_delays_another_value_by_no_more_than_the_window() {
    let scripts = shared("{}");
    add(&scripts, "a", 500);
    add(&scripts, "b", 2);
    share_all(&scripts, "4");
    assert_eq!(scripts.int(&["XLEN", STREAM]), 4);
    assert_eq!(scripts.int(&["HLEN", PLACES]), 498);
    let (mut ran, mut rounds) = (run_all(&scripts), 0);
    while ran.matches('b').count() < 2 {
        share_all(&scripts, "4");
        ran += &run_all(&scripts);
        rounds += 1;
        assert!(rounds < 3, "{ran}");
    }
    // A value without a waiting list need not wait for a turn.
    add(&scripts, "c", 1);
    share_all(&scripts, "4");
    assert!(run_all(&scripts).contains('c'));
    while scripts.int(&["HLEN", PLACES]) > 0 {
        share_all(&scripts, "100");
        ran += &run_all(&scripts);
    }
    assert_eq!(ran.matches('a').count(), 500 - 3, "{}", ran.len());
    share_all(&scripts, "100");
    let left = [LISTS, PLACES, FAIR, RING, "sf:{q}:room:fair:normal:=a"];
    assert_eq!(left.map(|key| scripts.int(&["EXISTS", key])), [0; 5]);
}

#[test]
fn values_have_turns_as_their_weights_say() {
    let scripts = shared(r#"{"a":3}"#);
    add(&scripts, "a", 400);
    add(&scripts, "b", 400);
    share_all(&scripts, "8");
    let mut ran = run_all(&scripts);
    for _ in 0..20 {
        share_all(&scripts, "8");
        ran += &run_all(&scripts);
    }
    let [a, b] = ['a', 'b'].map(|tenant| ran[8..].matches(tenant).count());
    assert_eq!((a, b), (120, 40), "{ran}");
}

#[test]
fn a_sorted_job_keeps_its_identity() {
    let scripts = shared("{}");
    let add = |fields: &[&str]| -> String {
        redis::from_redis_value(
            scripts.server.cmd(&[&["XADD", STREAM, "*", "type", "test"], fields].concat()),
        )
        .unwrap()
    };
    let plain = add(&["h.t", "a"]);
    add(&["h.t", "a", "id", "own", "life", "5-5", "created_ms", "5"]);
    scripts.server.cmd(&["HSET", "sf:{q}:job:own", "life", "5-5", "entry", "9-9"]);
    assert_eq!(share(&scripts, "0").held_back, 2);
    let place: String = redis::from_redis_value(scripts.server.cmd(&["HGET", PLACES, &plain])).unwrap();
    assert!(place.ends_with(" fair:normal:=a"), "{place}");
    let of_record = scripts.server.cmd(&["HGET", "sf:{q}:job:own", "entry"]);
    assert_ne!(of_record, Value::BulkString(b"9-9".to_vec()));
    share_all(&scripts, "2");
    let entries: Entries =
        redis::from_redis_value(scripts.server.cmd(&["XRANGE", STREAM, "-", "+"])).unwrap();
    let created = plain.split_once('-').unwrap().0;
    let want = ["type", "test", "h.t", "a", "id", &plain, "life", &plain, "created_ms", created];
    assert_eq!(entries[0].1, want);
    assert_eq!(entries[1].1, ["type", "test", "h.t", "a", "id", "own", "life", "5-5", "created_ms", "5"]);
    let of_record: String =
        redis::from_redis_value(scripts.server.cmd(&["HGET", "sf:{q}:job:own", "entry"])).unwrap();
    assert_eq!(of_record, entries[1].0);
}

#[test]
fn what_only_a_worker_can_judge_stays_in_the_lane() {
    let scripts = shared("{}");
    let large = "x".repeat(200_000);
    for fields in [["no", "type"], ["lane", "low"], ["created_ms", "5"], ["payload", large.as_str()]] {
        let job_type = if fields[0] == "no" { "kind" } else { "type" };
        let generation = if fields[0] == "lane" { "life" } else { "other" };
        scripts.server.cmd(&["XADD", STREAM, "*", job_type, "test", generation, "5-5", fields[0], fields[1]]);
    }
    share_all(&scripts, "0");
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.int(&["EXISTS", PLACES])), (4, 0));
    // They are looked at once.
    assert_eq!(scripts.int(&["HLEN", FAIR]), 1);
}

#[test]
fn a_producer_that_writes_the_field_lane_waits_for_its_turn_too() {
    let scripts = shared("{}");
    for lane in ["normal", "high", "none"] {
        scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "h.t", "a", "lane", lane]);
    }
    scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "h.t", "a", "lane", "normal", "life", "5-5"]);
    assert_eq!(share(&scripts, "0").held_back, 4);
    // In the lane `high`, an entry of the fleet holds places in gates.
    let high = ["XADD", HIGH, "*", "type", "test", "h.t", "a", "lane", "high"];
    scripts.server.cmd(&high);
    scripts.server.cmd(&[&high[..], &["life", "6-6"]].concat());
    share_all(&scripts, "0");
    assert_eq!(scripts.int(&["XLEN", HIGH]), 1);
}

#[test]
fn very_many_values_share_some_waiting_lists() {
    let scripts = shared("{}");
    let add =
        "for nth = 1, 1100 do redis.call('XADD', KEYS[1], '*', 'type', 'test', 'h.t', nth) end return 0";
    scripts.server.cmd(&["EVAL", add, "1", STREAM]);
    share_all(&scripts, "0");
    let waitlists = scripts.int(&["LLEN", RING]);
    assert!((1001..=1016).contains(&waitlists), "{waitlists}");
    assert_eq!((scripts.int(&["HLEN", LISTS]), scripts.int(&["HLEN", PLACES])), (waitlists, 1100));
    scripts.server.cmd(&["HDEL", GATES, "f:fair"]);
    share_all(&scripts, "");
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.int(&["EXISTS", RING, LISTS])), (1100, 0));
}

#[test]
fn values_that_no_name_can_have_share_a_waiting_list() {
    let scripts = shared("{}");
    let long = vec![b'x'; 129];
    let values: [&[u8]; 7] =
        ["zo\u{eb}".as_bytes(), b"a\nb", b"\xff", b"\xc2\x85", b"\xed\xa0\x80", &long, b""];
    for value in values {
        let add = [b"XADD".as_slice(), STREAM.as_bytes(), b"*", b"type", b"test", b"h.t", value];
        scripts.server.cmd(&add);
    }
    assert_eq!(share(&scripts, "0").held_back, 7);
    let length = |kind: &str| scripts.int(&["XLEN", &format!("sf:{{q}}:room:fair:normal:{kind}")]);
    assert_eq!(["=zo\u{eb}", "?", ""].map(length), [1, 5, 1]);
}

#[test]
fn a_full_server_shares_jobs_too() {
    let scripts = shared("{}");
    add(&scripts, "a", 50);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "100000"]);
    assert_eq!(share(&scripts, "4").held_back, 49);
    assert_eq!((scripts.int(&["XLEN", STREAM]), scripts.int(&["HLEN", PLACES])), (4, 46));
}

#[test]
fn a_ring_that_was_lost_is_made_again() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    share_all(&scripts, "4");
    scripts.server.cmd(&["DEL", RING, FAIR]);
    assert_eq!(run_all(&scripts), "aaaa");
    assert_eq!(share(&scripts, "4").left, 0);
    assert!(share_names(&scripts, "", &["fair:normal:=a", "fair:normal:=gone"]).has_waitlists);
    assert_eq!(share(&scripts, "4").left, 4);
    assert_eq!(scripts.int(&["LLEN", RING]), 1);
}

#[test]
fn a_waiting_list_that_its_ring_has_lost_gets_its_turns_again() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    share_all(&scripts, "4");
    scripts.server.cmd(&["DEL", RING]);
    add(&scripts, "b", 20);
    share_all(&scripts, "4");
    let names = ["fair:normal:=gone", "fair:normal:=a", "fair:normal:=b"];
    until("the ring to have both waiting lists", SOON, || {
        share_names(&scripts, "", &names);
        scripts.int(&["LLEN", RING]) > 1
    });
    for _ in 0..30 {
        share_names(&scripts, "", &names);
    }
    assert_eq!(scripts.int(&["LLEN", RING]), 2);
    let mut ran = String::new();
    for _ in 0..20 {
        ran += &run_all(&scripts);
        share_all(&scripts, "4");
    }
    assert_eq!((ran.matches('a').count(), ran.matches('b').count()), (20, 20), "{ran}");
}

#[test]
fn a_login_that_may_not_delete_entries_moves_none() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    let (sha, count) = (sha(&scripts.server, source("share")), KEYS.len().to_string());
    let before = scripts.digest();
    scripts.server.cmd(&["ACL", "SETUSER", "harness", "-xdel"]);
    let head = ["EVALSHA", &sha, &count];
    let command: Vec<&str> =
        head.into_iter().chain(KEYS).chain(["4", "100", "524288"]).chain(nothing_seen()).collect();
    let refused = scripts.server.try_cmd(&command);
    assert!(matches!(refused, Ok(Value::ServerError(_))), "{refused:?}");
    // Otherwise each call would move the same jobs once more.
    assert_eq!(scripts.digest(), before);
}

#[test]
fn a_job_with_several_ids_leaves_no_trace_in_the_places() {
    let scripts = shared("{}");
    scripts.server.cmd(&["XADD", STREAM, "*", "type", "test", "h.t", "a", "id", "one", "id", "two"]);
    assert_eq!(share(&scripts, "0").held_back, 1);
    let ids: Vec<String> = redis::from_redis_value(scripts.server.cmd(&["HKEYS", PLACES])).unwrap();
    assert_eq!(ids, ["two"], "workers read the last one");
    assert_eq!(share(&scripts, "2").left, 1);
    assert_eq!(scripts.int(&["EXISTS", PLACES]), 0);
}

#[test]
fn a_waiting_list_of_another_type_delays_no_other() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    add(&scripts, "b", 20);
    scripts.server.cmd(&["SET", "sf:{q}:room:fair:normal:=a", "x"]);
    let done = share(&scripts, "4");
    assert!(done.failed.contains("WRONGTYPE"), "{done:?}");
    assert_eq!(scripts.int(&["XLEN", "sf:{q}:room:fair:normal:=b"]) + scripts.int(&["XLEN", STREAM]), 40);
}

#[test]
fn an_entry_of_a_waiting_list_that_is_no_job_blocks_nothing() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    share_all(&scripts, "4");
    let waitlist = "sf:{q}:room:fair:normal:=a";
    scripts.server.cmd(&["XADD", waitlist, "*", "lane", "low"]);
    add(&scripts, "a", 1);
    let mut ran = String::new();
    for _ in 0..10 {
        ran += &run_all(&scripts);
        share_all(&scripts, "4");
    }
    assert_eq!((ran.len(), scripts.int(&["XLEN", DEAD])), (21, 1), "{ran}");
}

#[test]
fn nothing_moves_while_the_queue_is_paused() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    scripts.server.cmd(&["HSET", GATES, "p:queue", "1 0 ann\n"]);
    let before = scripts.digest();
    assert_eq!(share(&scripts, "4").held_back, 0);
    assert_eq!(scripts.digest(), before);
}

#[test]
fn jobs_that_wait_for_the_gate_of_the_queue_count_towards_the_window() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    for _ in 0..3 {
        scripts.server.cmd(&["XADD", "sf:{q}:room:queue", "*", "type", "test"]);
    }
    share_all(&scripts, "4");
    assert_eq!(scripts.int(&["XLEN", STREAM]), 1);
    scripts.server.cmd(&["DEL", "sf:{q}:room:queue"]);
    share_all(&scripts, "4");
    assert_eq!(scripts.int(&["XLEN", STREAM]), 4);
}

#[test]
fn a_note_that_names_no_entry_does_not_stop_the_sorting() {
    let scripts = shared("{}");
    add(&scripts, "a", 50);
    scripts.server.cmd(&["HSET", FAIR, "normal", "x"]);
    let done = share(&scripts, "8");
    assert!(done.failed.is_empty() && done.held_back > 30, "{done:?}");
}

#[test]
fn a_script_reads_no_entry_that_its_caller_has_not_seen() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    let (_, marks) = share_seen(&scripts, "4", &nothing_seen().map(str::to_owned).collect::<Vec<_>>(), &[]);
    assert_eq!(marks, ["", "0-0 ", ""].map(str::to_owned));
    let seen: Vec<String> = [HIGH, STREAM, LOW]
        .into_iter()
        .zip(&marks)
        .flat_map(|(stream, mark)| look(&scripts, stream, mark, 100))
        .collect();
    // What comes meanwhile is sorted later, although others are let out behind it.
    add(&scripts, "b", 3);
    assert_eq!(share_seen(&scripts, "4", &seen, &[]).0.held_back, 19);
    run_all(&scripts);
    // What another worker has sorted meanwhile is not sorted again.
    let (again, marks) = share_seen(&scripts, "4", &seen, &[]);
    assert_eq!((again.held_back, again.left, again.more), (0, 0, true));
    assert!(!marks[1].is_empty(), "{marks:?}");
    share_all(&scripts, "4");
    let mut ran = String::new();
    while scripts.int(&["XLEN", STREAM]) > 0 {
        ran += &run_all(&scripts);
        share_all(&scripts, "4");
    }
    assert_eq!(ran.len(), 19, "{ran}");
}

#[test]
fn jobs_that_come_while_others_are_let_out_wait_for_their_turns() {
    let scripts = shared("{}");
    add(&scripts, "a", 30);
    share_all(&scripts, "4");
    run_all(&scripts);
    let nothing: Vec<String> = nothing_seen().map(str::to_owned).collect();
    let (_, marks) = share_seen(&scripts, "4", &nothing, &[]);
    let seen: Vec<String> = [HIGH, STREAM, LOW]
        .into_iter()
        .zip(&marks)
        .flat_map(|(stream, mark)| look(&scripts, stream, mark, 100))
        .collect();
    add(&scripts, "a", 20);
    // They have the places of the window, and are before those that are let out next.
    assert_eq!(share_seen(&scripts, "24", &seen, &[]).0.left, 4);
    share_all(&scripts, "4");
    assert!(scripts.int(&["XLEN", STREAM]) <= 8, "{}", scripts.int(&["XLEN", STREAM]));
}

#[test]
fn jobs_that_were_let_out_and_cancelled_keep_no_others_in_their_waiting_lists() {
    let scripts = shared("{}");
    add(&scripts, "a", 20);
    share_all(&scripts, "4");
    run_all(&scripts);
    share_all(&scripts, "4");
    assert_eq!(scripts.int(&["XLEN", STREAM]), 4);
    scripts.server.cmd(&["XTRIM", STREAM, "MAXLEN", "0"]);
    share_all(&scripts, "4");
    assert_eq!(run_all(&scripts), "aaaa");
}
