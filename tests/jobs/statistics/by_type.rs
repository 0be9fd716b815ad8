//! The script that adds what a worker has counted: once, within bounds, for the hour that the server's clock shows.

use streamfleet_engine::admin::TypeStats;

use super::{COUNTS, counted};
use harness::fleet::queue;
use harness::scripts::Scripts;
use harness::scripts::source;

const TEN_MINUTES: u64 = 600_000;
const HOUR: u64 = 3_600_000;

/// Figures of a type: done, failed, dead, then ten cells of waits and of runs.
fn packed(done: u8) -> Vec<u8> {
    let mut list = vec![0x95, done, 2, 1];
    for _ in 0..2 {
        list.push(0x8a);
        list.extend((20..30).flat_map(|cell| [cell, 7]));
    }
    list
}

fn key(window: &str, number: u64) -> String {
    format!("sf:{{default}}:types:{window}:{number}")
}

/// Sends a report for the hour of this time. Returns its status.
fn send(scripts: &Scripts, call: &str, at: u64, types: &[(String, Vec<u8>)]) -> i64 {
    let (minutes, hour) = (at / TEN_MINUTES, at / HOUR);
    let keys =
        [COUNTS.to_owned(), key("10m", minutes), key("1h", hour), format!("sf:{{default}}:receipt:{call}")];
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let numbers = [minutes, hour, 100, 5, 4, 3, 2, 0].map(|number| number.to_string().into_bytes());
    let types = types.iter().flat_map(|(name, packed)| [name.clone().into_bytes(), packed.clone()]);
    let args: Vec<Vec<u8>> = numbers.into_iter().chain(types).collect();
    scripts.call(source("tally"), &keys, &args).0
}

/// Sends a report for the present hour.
fn add(scripts: &Scripts, call: &str, types: &[(String, Vec<u8>)]) {
    // Only if an hour has just begun, the first one is refused.
    let added = (0..3).any(|_| send(scripts, call, scripts.server.now_ms(), types) == 1);
    assert!(added);
}

/// Returns the statistics of the last day and of the last hour.
async fn read(scripts: &Scripts) -> [TypeStats; 2] {
    let queue = queue(&scripts.server).await;
    let read =
        async |hours: u64| queue.type_stats(std::time::Duration::from_secs(hours * 3600)).await.unwrap();
    [read(24).await, read(1).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_sent_twice_counts_once() {
    let scripts = Scripts::start();
    let types = [("mail.send".to_owned(), packed(9))];
    add(&scripts, "first", &types);
    let between = scripts.digest();
    add(&scripts, "first", &types);
    assert_eq!(scripts.digest(), between);
    add(&scripts, "second", &types);
    assert_eq!(
        ["done", "failed", "retried", "died"].map(|name| counted(&scripts.server, name)),
        [10, 8, 6, 4]
    );
    for stats in read(&scripts).await {
        let [figures] = &stats.types[..] else { panic!("{stats:?}") };
        assert_eq!([figures.done, figures.failed, figures.dead], [18, 4, 2]);
        assert_eq!([figures.wait.count(), figures.run.count()], [140, 140]);
    }
}

#[test]
fn a_report_for_another_hour_or_other_ten_minutes_changes_nothing() {
    let scripts = Scripts::start();
    let now = scripts.server.now_ms();
    let between = scripts.digest();
    // Even if the next ten minutes or the next hour begins meanwhile.
    for at in [0, now - TEN_MINUTES, now + 2 * TEN_MINUTES, now - HOUR, now + 2 * HOUR] {
        assert_eq!(send(&scripts, "stale", at, &[("a".to_owned(), packed(1))]), 0, "{at}");
    }
    assert_eq!(scripts.digest(), between);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_types_take_as_much_waitlist_as_a_hundred_and_one() {
    let scripts = Scripts::start();
    let types: Vec<(String, Vec<u8>)> = (0..10_000).map(|nth| (format!("type-{nth}"), packed(1))).collect();
    for (nth, some) in types.chunks(25).enumerate() {
        add(&scripts, &format!("call-{nth}"), some);
    }
    let now = scripts.server.now_ms();
    for (window, length) in [("10m", TEN_MINUTES), ("1h", HOUR)] {
        let key = key(window, now / length);
        let bytes = scripts.server.cmd(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
        println!("{key}: {bytes:?} bytes");
        // Missing only if an hour has just begun.
        let bytes = redis::from_redis_value::<Option<i64>>(bytes).unwrap().unwrap_or(0);
        assert!(bytes <= 64 * 1024, "{bytes}");
    }
    let [day, _] = read(&scripts).await;
    assert!((101..=202).contains(&day.types.len()), "{}", day.types.len());
    assert_eq!(day.types.iter().map(|figures| figures.done).sum::<u64>(), 10_000);
    assert!(day.types.last().is_some_and(|others| others.job_type.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_spoiled_counts_as_nothing() {
    let scripts = Scripts::start();
    let now = scripts.server.now_ms();
    for at in [now / HOUR, now / HOUR + 1] {
        scripts.server.cmd(&["HSET", &key("1h", at), "mail.send", "no list", "A B", "x", "message", "y"]);
    }
    add(&scripts, "one", &[("mail.send".to_owned(), packed(9))]);
    let [day, _] = read(&scripts).await;
    let known: Vec<_> = day.types.iter().map(|figures| (figures.job_type.clone(), figures.done)).collect();
    assert_eq!(known, [(Some("mail.send".parse().unwrap()), 9)]);
}

#[test]
fn a_report_that_redis_refuses_counts_nothing_of_it() {
    let scripts = Scripts::start();
    let call = |scripts: &Scripts, call: &str| {
        let at = scripts.server.now_ms();
        let (minutes, hour) = ((at / TEN_MINUTES).to_string(), (at / HOUR).to_string());
        let keys =
            [key("10m", at / TEN_MINUTES), key("1h", at / HOUR), format!("sf:{{default}}:receipt:{call}")];
        let mut command = redis::cmd("EVAL");
        command.arg(source("tally")).arg(4).arg(COUNTS).arg(&keys);
        command.arg(&[&minutes, &hour, "100", "5", "4", "3", "2", "1"]).arg("a").arg(packed(1));
        format!("{:?}", command.query::<redis::Value>(&mut scripts.server.client()))
    };
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = call(&scripts, "full");
    assert!(refused.contains("OOM"), "{refused}");
    scripts.server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let now = scripts.server.now_ms();
    for spoiled in [COUNTS.to_owned(), key("10m", now / TEN_MINUTES), key("1h", now / HOUR)] {
        scripts.server.cmd(&["SET", &spoiled, "x"]);
        let refused = call(&scripts, "spoiled");
        // Unless other ten minutes have just begun.
        let is_later = now / TEN_MINUTES != scripts.server.now_ms() / TEN_MINUTES;
        assert!(is_later || refused.contains("WRONGTYPE"), "{spoiled}: {refused}");
        scripts.server.cmd(&["DEL", &spoiled]);
        assert!(is_later || scripts.int(&["EXISTS", COUNTS]) == 0, "{spoiled}");
    }
}
