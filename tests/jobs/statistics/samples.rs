//! The script that takes samples: one a minute, however often and by however many leaders it is sent, for a day, in little memory.

use std::collections::BTreeMap;

use redis::Value;

use super::{COUNTS, SAMPLES};
use harness::scripts::Scripts;
use harness::scripts::{as_sent, source};

const MINUTE: u64 = 60_000;

/// Some minute.
const START: u64 = 30_000_000 * MINUTE;

/// About how many samples are kept.
const KEPT: &str = "1440";

/// Returns the script with a clock that shows its last argument.
fn script() -> String {
    let text = source("sample");
    assert_eq!(text.matches("\nlocal now = now_ms()").count(), 1);
    text.replace("\nlocal now = now_ms()", "\nlocal now = tonumber(ARGV[#ARGV])")
}

/// Sends the script at this time, with these counts of waiting, running, delayed and parked jobs, and with all moves. Returns whether a
/// sample was added.
fn take(scripts: &Scripts, at: u64, jobs: [u64; 4]) -> bool {
    let moved = scripts.server.cmd(&["HMGET", COUNTS, "moved_in", "moved_out"]);
    let (moved_in, moved_out): (Option<u64>, Option<u64>) = redis::from_redis_value(moved).unwrap();
    take_moved(scripts, at, jobs, [moved_in, moved_out].map(Option::unwrap_or_default))
}

/// Sends it with these moves.
fn take_moved(
    scripts: &Scripts,
    at: u64,
    [waiting, running, delayed, in_rooms]: [u64; 4],
    [moved_in, moved_out]: [u64; 2],
) -> bool {
    let numbers = [waiting, running, delayed, 3, in_rooms, moved_in, moved_out, 1500];
    let numbers = numbers.map(|number| number.to_string());
    let at = at.to_string();
    let args: Vec<&str> =
        std::iter::once(KEPT).chain(numbers.iter().map(String::as_str)).chain([&*at]).collect();
    let (status, rest) = scripts.call(&script(), &[SAMPLES, COUNTS], &args);
    assert_eq!(rest, [Value::Int(at.parse().unwrap())]);
    status == 1
}

/// Lets workers count.
fn count(scripts: &Scripts, counts: &[(&str, u64)]) {
    let fields = counts.iter().flat_map(|(name, count)| [(*name).to_owned(), count.to_string()]);
    let command: Vec<String> = ["HSET", COUNTS].map(str::to_owned).into_iter().chain(fields).collect();
    scripts.server.cmd(&command);
}

/// Returns all samples, with their ids.
fn samples(scripts: &Scripts) -> Vec<(String, BTreeMap<String, String>)> {
    redis::from_redis_value(scripts.server.cmd(&["XRANGE", SAMPLES, "-", "+"])).unwrap()
}

/// Returns these fields of the last sample.
fn last<const N: usize>(scripts: &Scripts, names: [&str; N]) -> [u64; N] {
    let (_, fields) = samples(scripts).pop().unwrap();
    names.map(|name| fields.get(name).map_or(0, |value| value.parse().unwrap()))
}

#[test]
fn a_minute_has_one_sample_although_it_is_sent_twice_or_by_two_leaders() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START, [0; 4]));
    count(&scripts, &[("done", 5)]);
    assert!(take(&scripts, START + MINUTE + 100, [0; 4]));
    let between = scripts.digest();
    assert!(!take(&scripts, START + MINUTE + 100, [0; 4]), "sent again");
    assert_eq!(scripts.digest(), between);
    count(&scripts, &[("done", 3)]);
    let between = scripts.digest();
    assert!(!take(&scripts, START + MINUTE + 30_000, [9; 4]), "another leader, late");
    assert!(!take(&scripts, START, [9; 4]), "another leader, very late");
    assert_eq!(scripts.digest(), between, "what was counted meanwhile belongs to the next sample");
    assert!(take(&scripts, START + 2 * MINUTE, [0; 4]));
    let done: Vec<_> =
        samples(&scripts).into_iter().map(|(id, fields)| (id, fields["done"].clone())).collect();
    let want = [(0, "0"), (1, "5"), (2, "3")]
        .map(|(nth, done)| (format!("{}-0", START + nth * MINUTE), done.to_owned()));
    assert_eq!(done, want);
}

#[test]
fn what_arrived_is_by_how_much_the_jobs_became_more_and_what_ended() {
    let scripts = Scripts::start();
    count(&scripts, &[("done", 1000)]);
    assert!(take(&scripts, START, [10, 2, 3, 4]));
    let names =
        ["waiting", "running", "delayed", "dead", "in_rooms", "oldest_ms", "span_ms", "done", "arrived"];
    // Nobody knows since when these were counted.
    assert_eq!(last(&scripts, names), [10, 2, 3, 3, 4, 1500, 0, 0, 0]);
    assert_eq!(scripts.int(&["EXISTS", COUNTS]), 0);
    count(&scripts, &[("done", 20), ("died", 2), ("cancelled", 1), ("failed", 9), ("retried", 7)]);
    assert!(take(&scripts, START + 3 * MINUTE, [5, 0, 3, 0]));
    let names = ["span_ms", "arrived", "done", "failed", "retried", "died", "cancelled"];
    assert_eq!(last(&scripts, names), [3 * MINUTE, 8 + 23 - 15, 20, 9, 7, 2, 1]);
}

#[test]
fn ends_that_workers_report_late_do_not_count_as_arrivals() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START, [100, 0, 0, 0]));
    assert!(take(&scripts, START + MINUTE, [0; 4]));
    assert_eq!(last(&scripts, ["arrived"]), [0]);
    count(&scripts, &[("done", 105)]);
    assert!(take(&scripts, START + 2 * MINUTE, [0; 4]));
    assert_eq!(last(&scripts, ["arrived", "done"]), [5, 105]);
    // Jobs that somebody deleted are forgotten after two minutes.
    assert!(take(&scripts, START + 3 * MINUTE, [1000, 0, 0, 0]));
    assert!(take(&scripts, START + 4 * MINUTE, [0; 4]));
    for (nth, want) in [(5, 0), (6, 0), (7, 10)] {
        count(&scripts, &[("done", 10)]);
        assert!(take(&scripts, START + nth * MINUTE, [0; 4]));
        assert_eq!(last(&scripts, ["arrived", "done"]), [want, 10]);
    }
}

#[test]
fn ends_that_are_reported_late_again_and_again_do_not_count_as_arrivals() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START, [1000, 0, 0, 0]));
    for (nth, done) in (1..).zip([90, 95, 105, 100, 110]) {
        count(&scripts, &[("done", done)]);
        assert!(take(&scripts, START + nth * MINUTE, [1000 - 100 * nth, 0, 0, 0]));
        assert_eq!(last(&scripts, ["arrived"]), [0], "in minute {nth}");
    }
}

#[test]
fn jobs_that_were_moved_neither_arrive_nor_end() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START, [100, 0, 0, 0]));
    count(&scripts, &[("done", 10), ("moved_out", 60)]);
    assert!(take(&scripts, START + MINUTE, [35, 0, 0, 0]));
    assert_eq!(last(&scripts, ["arrived", "done"]), [5, 10]);
    count(&scripts, &[("done", 10), ("moved_in", 500)]);
    assert!(take(&scripts, START + 2 * MINUTE, [525, 0, 0, 0]));
    assert_eq!(last(&scripts, ["arrived", "done"]), [0, 10]);
    count(&scripts, &[("done", 10)]);
    assert_eq!(last(&scripts, ["moved"]), [500]);
    assert!(take(&scripts, START + 3 * MINUTE + 2_500, [515, 0, 0, 0]));
    let names = ["arrived", "done", "moved", "off_ms"];
    assert_eq!(last(&scripts, names), [0, 10, 0, 2_500], "they are counted once");
}

#[test]
fn jobs_that_were_moved_after_the_figures_were_read_are_in_the_next_sample() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START, [3000, 0, 0, 0]));
    // All of them are moved away and back. Each time, some of them just after the figures were read.
    count(&scripts, &[("moved_out", 2000)]);
    assert!(take_moved(&scripts, START + MINUTE, [1095, 0, 0, 0], [0, 1905]));
    assert_eq!(last(&scripts, ["arrived"]), [0]);
    count(&scripts, &[("moved_out", 1095), ("moved_in", 1200)]);
    assert!(take_moved(&scripts, START + 2 * MINUTE, [1000, 0, 0, 0], [1000, 1095]));
    assert_eq!(last(&scripts, ["arrived", "owed"]), [0, 0]);
    assert_eq!(scripts.int(&["HINCRBY", COUNTS, "moved_in", "1800"]), 2000);
    count(&scripts, &[("done", 10)]);
    assert!(take(&scripts, START + 3 * MINUTE, [2990, 0, 0, 0]));
    assert_eq!(last(&scripts, ["arrived", "owed"]), [0, 0]);
    assert_eq!(scripts.int(&["EXISTS", COUNTS]), 0);
}

#[test]
fn samples_begin_again_if_the_clock_was_set_back_by_long() {
    let scripts = Scripts::start();
    assert!(take(&scripts, START + 100 * MINUTE, [0; 4]));
    assert!(!take(&scripts, START + 95 * MINUTE, [0; 4]), "the clock will be there soon");
    assert!(take(&scripts, START, [0; 4]));
    assert_eq!(samples(&scripts).len(), 1);
}

#[test]
fn the_samples_of_a_day_of_a_busy_queue_take_a_quarter_of_a_megabyte_at_most() {
    let scripts = Scripts::start();
    for nth in 0..1600 {
        let some = 1_000_000 + nth * 7919 % 1_000_003;
        let counts = ["done", "failed", "retried", "died", "cancelled"].map(|name| (name, some));
        count(&scripts, &counts);
        assert!(take(&scripts, START + nth * MINUTE, [some, some / 10, some / 3, some / 7]));
    }
    let (kept, bytes) =
        (scripts.int(&["XLEN", SAMPLES]), scripts.int(&["MEMORY", "USAGE", SAMPLES, "SAMPLES", "0"]));
    println!("{kept} samples take {bytes} bytes");
    assert!((1440..1600).contains(&kept), "{kept}");
    assert!(bytes <= 250_000, "{bytes}");
    let ttl = scripts.int(&["PTTL", SAMPLES]);
    assert!((86_000_000..=86_460_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_full_server_or_a_key_of_another_type_refuses_a_sample_and_nothing_is_lost() {
    let scripts = Scripts::start();
    let call = |scripts: &Scripts| {
        let sample = as_sent(source("sample"));
        let args = ["EVAL", &sample, "2", SAMPLES, COUNTS, KEPT];
        let figures = ["1", "2", "3", "4", "5", "0", "0", "", "7"];
        format!("{:?}", scripts.server.try_cmd(&[&args[..], &figures].concat()))
    };
    count(&scripts, &[("done", 5)]);
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = call(&scripts);
    assert!(refused.contains("OOM"), "{refused}");
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scripts.int(&["EXISTS", SAMPLES, COUNTS]), 1);
    for (spoiled, other) in [(SAMPLES, COUNTS), (COUNTS, SAMPLES)] {
        scripts.server.cmd(&["DEL", SAMPLES, COUNTS]);
        scripts.server.cmd(&["SET", spoiled, "x"]);
        let refused = call(&scripts);
        assert!(refused.contains("WRONGTYPE"), "{spoiled}: {refused}");
        assert_eq!(scripts.int(&["EXISTS", other]), 0);
    }
}
