//! Pools in workers that also run types without a bound.

use super::{SOON, Stage};
use crate::harness::wait::until;

/// How many jobs of each type there are.
const JOBS: usize = 1000;

/// Submits jobs of the pool and of the other type in turn.
fn submit_both(stage: &Stage) {
    let mut pipe = redis::pipe();
    for nth in 0..2 * JOBS {
        let job_type = if nth % 2 == 0 { "act" } else { "plain" };
        pipe.cmd("XADD").arg(&["sf:{default}:jobs", "*", "type", job_type, "payload", "null"]);
    }
    stage.server.try_pipe(&pipe).unwrap();
}

fn until_all_have_ended(stage: &Stage) {
    let waiting =
        || -> usize { redis::from_redis_value(stage.server.cmd(&["XLEN", "sf:{default}:jobs"])).unwrap() };
    let delayed = || -> usize {
        redis::from_redis_value(stage.server.cmd(&["ZCARD", "sf:{default}:delayed"])).unwrap()
    };
    until("all jobs to end", SOON, || waiting() == 0 && delayed() == 0);
}

#[test]
fn short_jobs_of_a_pool_are_not_put_off_because_another_type_has_no_bound() {
    let types = "[types.act]\nhandler = { pool = \"py\" }\n[types.plain]\nhandler = \"noop\"";
    for prefetch in [0, 100] {
        let mut stage = Stage::new("processes = 2", types);
        stage.toml = stage.toml.replace("[worker]\n", &format!("[worker]\nprefetch = {prefetch}\n"));
        let _worker = stage.start();
        assert_eq!(stage.run("first", "null")["state"], "done");
        let before = stage.server.calls("zadd");
        submit_both(&stage);
        until_all_have_ended(&stage);
        // Only what is put off goes to a sorted set.
        assert_eq!(stage.server.calls("zadd") - before, 0, "with a prefetch of {prefetch}");
        assert_eq!(stage.lines("ran").len(), JOBS + 1);
    }
}

#[test]
fn jobs_behind_long_ones_of_a_pool_are_not_held_up() {
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
