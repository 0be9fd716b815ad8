//! Workers that are frozen while their programs work: what a program answered in the meantime counts.

use std::time::{Duration, Instant};

use harness::pool::{SOON, Stage};
use harness::wait::{until, until_instant};

/// How many jobs run at once when the worker is frozen.
const JOBS: usize = 8;

const LEASE: Duration = Duration::from_secs(3);

#[test]
fn an_answer_that_came_while_the_worker_was_frozen_counts_once() {
    let stage = Stage::acting("processes = 8\nstart = \"eager\"", "max_attempts = 1");
    let worker = stage.start();
    until("all programs", SOON, || stage.alive().len() == JOBS);
    let ids: Vec<String> = (0..JOBS).map(|nth| format!("job-{nth}")).collect();
    ids.iter().for_each(|id| stage.submit(id, "0.5"));
    until("all jobs to run", SOON, || stage.lines("ran").len() == JOBS);
    let frozen = Instant::now();
    worker.freeze();
    until_instant(frozen + LEASE.mul_f64(0.92));
    worker.thaw();
    for id in &ids {
        assert_eq!((stage.until_over(id).as_str(), stage.runs(id)), ("done", 1), "{id}");
    }
}
