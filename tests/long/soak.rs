//! A worker that is offered jobs of ten thousand types and scraped all the time: neither its series nor its memory grow.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use harness::metrics::{Figures, SOON, Scraped};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// How many seconds it lasts, instead of the default.
const SECONDS: &str = "STREAMFLEET_TEST_SOAK_SECONDS";
const DEFAULT_SECONDS: u64 = 36;

/// The number of types that the worker has a handler for.
const KNOWN: u64 = 10_000;
/// The number of types without a handler: a job of each is offered at the start, and returns every ten seconds.
const STRANGE: u64 = 500;

/// Jobs per round trip, and rounds per second.
const ROUND: u64 = 100;
const ROUNDS: u32 = 12;

/// By how many bytes the mean of the resident memory in the last quarter may exceed that in the second. One reading says little:
/// the text of a scrape takes megabytes, and readings of a worker that leaks nothing are up to 15 MiB apart.
const GROWTH: f64 = 12.0 * 1024.0 * 1024.0;

fn config() -> String {
    let types = (0..KNOWN).map(|nth| format!("[types.t{nth}]\nhandler = \"noop\"\n"));
    types.collect()
}

/// Offers the next round of jobs.
fn offer(client: &mut redis::Connection, next: &mut u64) {
    let mut pipe = redis::pipe();
    for _ in 0..ROUND {
        // A stride that is coprime to the number of types reaches all of them. The first is t1, which has a series of its own.
        let job_type = match next.checked_sub(STRANGE) {
            Some(known) => format!("t{}", (known * 7919 + 1) % KNOWN),
            None => format!("stranger{next}"),
        };
        pipe.cmd("XADD").arg(&["sf:{default}:jobs", "*", "type", &job_type]).ignore();
        *next += 1;
    }
    pipe.exec(client).unwrap();
}

fn names(figures: &Figures) -> BTreeSet<String> {
    figures.series().map(str::to_owned).collect()
}

fn mean(readings: &[f64]) -> f64 {
    readings.iter().sum::<f64>() / readings.len() as f64
}

#[test]
fn ten_thousand_job_types_grow_neither_series_nor_memory() {
    let seconds = std::env::var(SECONDS).map_or(DEFAULT_SECONDS, |text| text.parse::<u64>().unwrap().max(8));
    let whole = Duration::from_secs(seconds);
    let server = RedisServer::start();
    let worker = Scraped::start(&server.url(), &config());
    let at_start = names(&worker.scrape());
    let (mut client, mut next) = (server.client(), 0);
    let (began, mut memory) = (Instant::now(), Vec::new());
    let mut last_scrape = Instant::now();
    while began.elapsed() < whole {
        let due = Instant::now() + Duration::from_secs(1) / ROUNDS;
        offer(&mut client, &mut next);
        if last_scrape.elapsed() >= Duration::from_secs(1) {
            last_scrape = Instant::now();
            let figures = worker.scrape();
            assert_eq!(names(&figures).symmetric_difference(&at_start).collect::<Vec<_>>(), [""; 0]);
            memory.push(figures.value("process_resident_memory_bytes"));
        }
        until("the next round is due", SOON, || Instant::now() >= due);
    }
    let figures = worker.scrape();
    let quarters =
        [0, 1, 2, 3].map(|nth| mean(&memory[memory.len() * nth / 4..memory.len() * (nth + 1) / 4]));
    let of = |job_type: &str, outcome: &str| {
        figures.value(&format!(
            "jobs_finished_total{{queue=\"default\",job_type=\"{job_type}\",outcome=\"{outcome}\"}}"
        ))
    };
    let strange = figures.value("jobs_parked_total{queue=\"default\"}");
    let (other, own) = (of("_other", "succeeded"), of("t1", "succeeded"));
    let scrapes = memory.len();
    let mib = quarters.map(|bytes| format!("{:.1}", bytes / 1_048_576.0)).join(", ");
    println!(
        "soak: {seconds} s, {next} jobs offered, {other} done in _other, {own} in t1, {strange} unknown moved to rooms; {scrapes} \
         scrapes of {} series; mean MiB in RAM per quarter: {mib}",
        at_start.len(),
    );
    assert!(other > 1000.0 && strange >= STRANGE as f64 && own >= 1.0);
    let [_, settled, _, end] = quarters;
    assert!(end - settled < GROWTH, "memory grew from {settled} to {end} bytes");
}
