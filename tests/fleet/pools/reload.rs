//! New programs take the place of old ones while a worker works.

use std::fs;

use harness::pool::{PROGRAM, SOON, Stage};
use harness::process::{Launch, Worker, streamfleet};
use harness::wait::until;

/// Starts a worker without a terminal, as a service manager does.
fn start(stage: &Stage) -> Worker {
    let (program, url) = (streamfleet(), stage.server.url());
    let args = [
        "env",
        "--default-signal=HUP",
        program.to_str().unwrap(),
        "-c",
        "{config}",
        "--redis",
        &url,
        "worker",
    ];
    Launch::program("setsid", &args).config(&stage.toml).start()
}

#[test]
fn a_program_that_is_replaced_finishes_its_job_while_the_new_one_works() {
    let stage = Stage::acting("processes = 2\nstart = \"eager\"", "max_attempts = 1");
    let worker = start(&stage);
    until("two programs", SOON, || stage.alive().len() == 2);
    let old = stage.alive();
    stage.submit("long", "\"wait\"");
    stage.until_runs("long");
    worker.hang_up();
    let is_old = |pid: &String| old.contains(pid);
    until("two new programs beside one old one", SOON, || {
        let alive = stage.alive();
        (alive.len(), alive.iter().filter(|pid| is_old(pid)).count()) == (3, 1)
    });
    let next = stage.run("next", "null");
    assert_eq!(next["state"], "done", "{next}");
    assert!(!is_old(&next["result"].to_string()), "a new program ran it: {next}");
    stage.touch("gate");
    let long = stage.until_ended("long");
    assert!(long["state"] == "done" && is_old(&long["result"].to_string()), "{long}");
    until("the old program to end", SOON, || !stage.alive().iter().any(is_old));
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
}

#[test]
fn every_program_is_replaced_and_no_job_is_lost() {
    let stage = Stage::acting("processes = 3\nstart = \"eager\"", "max_attempts = 1");
    let worker = start(&stage);
    until("three programs", SOON, || stage.alive().len() == 3);
    let old = stage.alive();
    for nth in 0..300 {
        stage.submit(&nth.to_string(), "0.01");
    }
    worker.hang_up();
    until("three other programs", SOON, || {
        let alive = stage.alive();
        alive.len() == 3 && alive.iter().all(|pid| !old.contains(pid))
    });
    for nth in 0..300 {
        let id = nth.to_string();
        assert_eq!((stage.until_over(&id).as_str(), stage.runs(&id)), ("done", 1), "{id}");
    }
}

#[test]
fn programs_that_cannot_be_replaced_stay_until_they_can() {
    let stage = Stage::acting("processes = 2\nstart = \"eager\"", "");
    let worker = start(&stage);
    until("two programs", SOON, || stage.alive().len() == 2);
    let old = stage.alive();
    let program = stage.dir.path().join("worker.py");
    fs::write(&program, "import sys\nsys.exit('no such class')\n").unwrap();
    worker.hang_up();
    until("the log to say so", SOON, || worker.stderr().contains("the old programs go on"));
    assert!(worker.stderr().contains("no such class"), "{}", worker.stderr());
    assert_eq!(stage.run("still", "null")["state"], "done");
    assert_eq!(stage.alive(), old);
    fs::write(&program, PROGRAM).unwrap();
    worker.hang_up();
    until("two other programs", SOON, || {
        let alive = stage.alive();
        alive.len() == 2 && alive.iter().all(|pid| !old.contains(pid))
    });
}
