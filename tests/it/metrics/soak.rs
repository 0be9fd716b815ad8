//! A worker that is offered jobs of ten thousand types, scraped all the while: neither its series nor its memory grow.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::scene::{Figures, SOON, Scraped};
use crate::harness::redis_server::RedisServer;
use crate::harness::wait::until;

/// For how many seconds, in place of the default.
const SECONDS: &str = "STREAMFLEET_TEST_SOAK_SECONDS";
const DEFAULT_SECONDS: u64 = 24;

/// Of so many types the worker has a handler …
const KNOWN: u64 = 10_000;
/// … and of so many it has none; each comes back every ten seconds.
const STRANGE: u64 = 500;

/// Jobs in one round trip, and rounds in a second.
const ROUND: u64 = 100;
const ROUNDS: u32 = 12;

/// The memory in RAM may be so much greater at the end than after the first quarter.
const GROWTH: f64 = 12.0 * 1024.0 * 1024.0;

fn config() -> String {
    let types = (0..KNOWN).map(|nth| format!("[types.t{nth}]\nhandler = \"noop\"\n"));
    types.collect()
}

/// Offers the next round of jobs.
fn offer(client: &mut redis::Connection, next: &mut u64) {
    let mut pipe = redis::pipe();
    for _ in 0..ROUND {
        let job_type = match *next % 50 {
            0 => format!("stranger{}", *next / 50 % STRANGE),
            _ => format!("t{}", *next % KNOWN),
        };
        pipe.cmd("XADD").arg(&["sf:{default}:jobs", "*", "type", &job_type]).ignore();
        // A step that has no factor in common with the number of types meets all of them.
        *next += 7919;
    }
    pipe.exec(client).unwrap();
}

fn names(figures: &Figures) -> BTreeSet<String> {
    figures.series().map(str::to_owned).collect()
}

#[test]
fn neither_series_nor_memory_grow_with_jobs_of_ten_thousand_types() {
    let seconds = std::env::var(SECONDS).map_or(DEFAULT_SECONDS, |text| text.parse().unwrap());
    let whole = Duration::from_secs(seconds);
    let server = RedisServer::start();
    let worker = Scraped::start(&server.url(), &config());
    let at_start = names(&worker.scrape());
    let (mut client, mut next) = (server.client(), 1);
    let (began, mut settled, mut scrapes) = (Instant::now(), None, 0);
    let mut last_scrape = Instant::now();
    while began.elapsed() < whole {
        let due = Instant::now() + Duration::from_secs(1) / ROUNDS;
        offer(&mut client, &mut next);
        if last_scrape.elapsed() >= Duration::from_secs(1) {
            (last_scrape, scrapes) = (Instant::now(), scrapes + 1);
            let figures = worker.scrape();
            assert_eq!(names(&figures).symmetric_difference(&at_start).collect::<Vec<_>>(), [""; 0]);
            if settled.is_none() && began.elapsed() > whole / 4 {
                settled = Some(figures.value("process_resident_memory_bytes"));
            }
        }
        until("the next round is due", SOON, || Instant::now() >= due);
    }
    let figures = worker.scrape();
    let (settled, end) = (settled.unwrap(), figures.value("process_resident_memory_bytes"));
    let of = |job_type: &str, outcome: &str| {
        figures.value(&format!(
            "jobs_finished_total{{queue=\"default\",job_type=\"{job_type}\",outcome=\"{outcome}\"}}"
        ))
    };
    let (other, strange, own) = (of("_other", "succeeded"), of("_unknown", "snoozed"), of("t1", "succeeded"));
    println!(
        "soak: {} s, {} jobs offered, {other} done in _other, {own} in t1, {strange} unknown put off; {scrapes} scrapes \
         of {} series; {:.1} MiB after the first quarter, {:.1} MiB at the end",
        seconds,
        (next - 1) / 7919,
        at_start.len(),
        settled / 1_048_576.0,
        end / 1_048_576.0,
    );
    assert!(other > 1000.0 && strange > 10.0 && own >= 1.0);
    assert!(end - settled < GROWTH, "memory grew from {settled} to {end} bytes");
}
