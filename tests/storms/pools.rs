//! Pools in workers that also run types without a bound.

use std::time::{Duration, Instant};

use harness::alone::alone;
use harness::pool::{SOON, Stage};
use harness::rest::jobs_left;
use harness::wait::until;

/// How many jobs of each type there are at first, and at least.
const JOBS: usize = 1000;
const LEAST_JOBS: usize = 100;

/// The reader waits this long for short jobs of a pool. What takes longer may be put off.
const PATIENCE: Duration = Duration::from_secs(1);

/// Within this time, every machine has a moment in which so few jobs end within the reader's patience.
const CALM: Duration = Duration::from_secs(180);

/// Submits this many jobs of the pool and of the other type, in turn.
fn submit_both(stage: &Stage, jobs: usize) {
    let mut pipe = redis::pipe();
    for nth in 0..2 * jobs {
        let job_type = if nth % 2 == 0 { "act" } else { "plain" };
        pipe.cmd("XADD").arg(&["sf:{default}:jobs", "*", "type", job_type, "payload", "null"]);
    }
    stage.server.try_pipe(&pipe).unwrap();
}

fn until_all_have_ended(stage: &Stage) {
    until("all jobs to end", SOON, || jobs_left(&stage.server) == 0);
}

#[test]
fn short_jobs_of_a_pool_are_not_put_off_because_another_type_has_no_bound() {
    let _alone = alone();
    let types = "[types.act]\nhandler = { pool = \"py\" }\n[types.plain]\nhandler = \"noop\"";
    for prefetch in [0, 100] {
        let mut stage = Stage::new("processes = 2", types);
        stage.toml = stage.toml.replace("[worker]\n", &format!("[worker]\nprefetch = {prefetch}\n"));
        let _worker = stage.start();
        assert_eq!(stage.run("first", "null")["state"], "done");
        let (mut jobs, mut ran, deadline) = (JOBS, 1, Instant::now() + CALM);
        // On a busy machine, a flood may outlast the patience of the reader. Then a smaller one shows the same, or one at a calmer moment.
        loop {
            let (before, begun) = (stage.server.calls("zadd"), Instant::now());
            submit_both(&stage, jobs);
            until_all_have_ended(&stage);
            let took = begun.elapsed();
            ran += jobs;
            assert_eq!(stage.lines("ran").len(), ran);
            if took < PATIENCE {
                // Only what is put off goes to a sorted set.
                assert_eq!(
                    stage.server.calls("zadd") - before,
                    0,
                    "{jobs} jobs, with a prefetch of {prefetch}"
                );
                break;
            }
            jobs = (jobs / 2).max(LEAST_JOBS);
            assert!(Instant::now() < deadline, "this machine runs no {jobs} jobs within {PATIENCE:?}");
        }
    }
}

#[test]
fn jobs_behind_long_ones_of_a_pool_are_not_held_up() {
    let _alone = alone();
    let types = "[types.act]\nhandler = { pool = \"py\" }\n[types.plain]\nhandler = \"noop\"";
    let stage = Stage::new("processes = 2\nstart = \"eager\"", types);
    let _worker = stage.start();
    let mut pipe = redis::pipe();
    for nth in 0..200 {
        pipe.cmd("XADD").arg(&[
            "sf:{default}:jobs",
            "*",
            "type",
            "act",
            "id",
            &format!("act-{nth}"),
            "payload",
            "\"wait\"",
        ]);
    }
    pipe.cmd("XADD").arg(&["sf:{default}:jobs", "*", "type", "plain", "id", "behind", "payload", "null"]);
    stage.server.try_pipe(&pipe).unwrap();
    assert_eq!(stage.until_ended("behind")["state"], "done");
    assert!(stage.lines("ran").len() <= 2, "the others wait for a program");
    std::fs::write(stage.dir.path().join("gate"), "").unwrap();
    until_all_have_ended(&stage);
    assert_eq!(stage.lines("ran").len(), 200);
}
