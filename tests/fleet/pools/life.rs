//! When programs start, when they are replaced, and what ends with them.

use serde_json::Value;

use harness::pool::{SOON, Stage, is_alive};
use harness::wait::until;

/// Runs jobs until another program than this one has run one.
fn until_replaced(stage: &Stage, first: &Value) {
    let mut jobs = 0..;
    until("another program to run a job", SOON, || {
        let status = stage.run(&format!("again-{}", jobs.next().unwrap()), "null");
        assert_eq!(status["state"], "done", "{status}");
        status["result"] != *first
    });
}

#[test]
fn a_pool_on_demand_begins_with_one_program_and_starts_more_for_more_jobs() {
    let stage = Stage::acting("processes = 3", "");
    let _worker = stage.start();
    for nth in 0..5 {
        assert_eq!(stage.run(&nth.to_string(), "null")["state"], "done");
    }
    assert_eq!(stage.lines("pids").len(), 1, "one program is enough for one job at a time");
    for nth in 0..10 {
        stage.submit(&format!("wait-{nth}"), "\"wait\"");
    }
    until("three programs", SOON, || stage.alive().len() == 3);
    stage.touch("gate");
    for nth in 0..10 {
        assert_eq!(stage.until_over(&format!("wait-{nth}")), "done");
    }
    assert_eq!(stage.lines("pids").len(), 3);
}

#[test]
fn an_eager_pool_starts_all_programs_before_there_is_a_job() {
    let stage = Stage::acting("processes = 3\nstart = \"eager\"", "");
    let _worker = stage.start();
    until("three programs", SOON, || stage.alive().len() == 3);
}

#[test]
fn a_program_without_jobs_ends_and_another_one_starts_for_the_next_job() {
    let stage = Stage::acting("processes = 2\nidle = \"1s\"", "");
    let _worker = stage.start();
    let first = stage.run("first", "null")["result"].clone();
    until("no program to be left", SOON, || stage.alive().is_empty());
    let next = stage.run("next", "null");
    assert_eq!(next["state"], "done", "{next}");
    assert_ne!(next["result"], first);
}

#[test]
fn a_program_with_too_much_memory_is_replaced_after_its_job() {
    let stage = Stage::acting("processes = 1\nmax_memory = \"100MiB\"", "max_attempts = 1");
    let _worker = stage.start();
    let first = stage.run("first", "null")["result"].clone();
    let grown = stage.run("grow", "\"grow\"");
    assert_eq!((grown["state"].as_str(), &grown["result"]), (Some("done"), &first), "{grown}");
    until_replaced(&stage, &first);
}

#[test]
fn a_program_is_replaced_after_its_lifetime_but_not_during_a_job() {
    let stage = Stage::acting("processes = 1\nmax_lifetime = \"1s\"", "max_attempts = 1");
    let _worker = stage.start();
    let long = stage.run("long", "1.5");
    assert_eq!((long["state"].as_str(), stage.runs("long")), (Some("done"), 1), "{long}");
    let first = Value::from(stage.lines("pids")[0].parse::<u64>().unwrap());
    until_replaced(&stage, &first);
}

#[test]
fn a_program_that_hangs_ends_with_its_children() {
    let stage = Stage::acting("processes = 1\ngrace = \"3s\"", "max_attempts = 1\ntimeout = \"5s\"");
    let _worker = stage.start();
    stage.submit("hang", "\"hang-with-children\"");
    until("two children", SOON, || stage.lines("children").len() == 2);
    let status = stage.until_ended("hang");
    assert_eq!(status["state"], "dead", "{status}");
    until("the children to be gone", SOON, || !stage.lines("children").iter().any(|pid| is_alive(pid)));
    assert_eq!(stage.lines("terms").len(), 1, "one of them was asked to end");
    assert_eq!(stage.run("next", "null")["state"], "done");
}

#[test]
fn jobs_that_no_program_has_room_for_stay_in_redis_for_other_workers() {
    let stage = Stage::acting("processes = 2\nstart = \"eager\"", "");
    let _first = stage.start();
    for nth in 0..20 {
        stage.submit(&nth.to_string(), "\"wait\"");
    }
    let pending = || -> usize {
        let (pending, _, _, _): (usize, redis::Value, redis::Value, redis::Value) =
            redis::from_redis_value(stage.server.cmd(&["XPENDING", "sf:{default}:jobs", "fleet"])).unwrap();
        pending
    };
    until("two jobs to run", SOON, || stage.lines("ran").len() == 2);
    assert_eq!(pending(), 2);
    let _second = stage.start();
    until("two more jobs to run", SOON, || stage.lines("ran").len() == 4);
    assert_eq!(pending(), 4);
    stage.touch("gate");
    for nth in 0..20 {
        assert_eq!(stage.until_over(&nth.to_string()), "done");
    }
}
