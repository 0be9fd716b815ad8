//! Programs that crash, hang or talk nonsense, and workers that end.

use std::fs;
use std::time::{Duration, Instant};

use harness::cli::{json, sf};
use harness::pool::{SOON, Stage};
use harness::wait::until;

/// How long a worker may take to stop: half as long as a job waits for a program.
const LONGEST_STOP: Duration = Duration::from_secs(5);

#[test]
fn a_program_that_fails_costs_its_job_one_attempt_and_nothing_else() {
    let stage = Stage::acting("processes = 1\ngrace = \"200ms\"", "max_attempts = 1\ntimeout = \"2s\"");
    let worker = stage.start();
    for (what, why) in [
        ("crash", "out of luck\\nthe program ended without an answer (exit status: 3)"),
        ("nonsense", "wrote nonsense"),
        ("flood", "longer than its timeout"),
        ("hang", "longer than its timeout"),
    ] {
        let status = stage.run(what, &format!("\"{what}\""));
        assert_eq!(status["state"], "dead", "{status}");
        assert!(status.to_string().contains(why), "{why}: {status}");
        assert_eq!(stage.run(&format!("after-{what}"), "null")["state"], "done");
    }
    assert!(worker.exit_status().is_none(), "the worker lives");
}

#[test]
fn a_hanging_job_holds_up_no_neighbor_in_its_program() {
    let stage = Stage::acting(
        "processes = 1\ninflight = 20\ngrace = \"300ms\"",
        "max_attempts = 1\ntimeout = \"2s\"",
    );
    let _worker = stage.start();
    stage.submit("hang", "\"hang\"");
    stage.until_runs("hang");
    for nth in 0..100 {
        stage.submit(&nth.to_string(), "0.01");
    }
    for nth in 0..100 {
        assert_eq!(stage.until_over(&nth.to_string()), "done");
    }
    assert_eq!(stage.until_over("hang"), "dead");
}

#[test]
fn a_job_that_aborts_its_program_again_and_again_kills_no_neighbor() {
    let policy = "max_attempts = 1\nmax_losses = 3\njitter = 0.0\nbackoff = { fixed = \"200ms\" }";
    let stage = Stage::acting("processes = 1\ninflight = 50", policy);
    let healthy: Vec<String> = (0..12).map(|nth| nth.to_string()).collect();
    healthy.iter().for_each(|id| stage.submit(id, "0.3"));
    stage.submit("abort", "\"abort\"");
    let _worker = stage.start();
    for id in &healthy {
        assert_eq!(stage.until_over(id), "done", "{id}");
    }
    let status = stage.until_ended("abort");
    assert_eq!(status["state"], "dead", "{status}");
    let why = "the program ended without an answer (signal: 6 (SIGABRT)";
    assert!(status.to_string().contains(why), "it ran alone at last: {status}");
}

#[test]
fn a_worker_does_not_wait_for_a_program_that_cannot_start() {
    let stage = Stage::acting("processes = 1", "");
    fs::write(stage.dir.path().join("worker.py"), "print('Welcome!', flush=True)\n").unwrap();
    let worker = stage.start();
    stage.submit("waits", "null");
    until("the job to wait for a program", SOON, || {
        json(&stage.server, &["status", "waits"])["state"] == "running"
    });
    let asked = Instant::now();
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert!(asked.elapsed() < LONGEST_STOP, "{:?}", asked.elapsed());
    let status = json(&stage.server, &["status", "waits"]);
    assert!(["waiting", "scheduled"].contains(&status["state"].as_str().unwrap()), "{status}");
    assert_eq!(stage.runs("waits"), 0);
}

#[test]
fn no_program_outlives_a_worker_that_is_killed() {
    let stage = Stage::acting("processes = 4\nstart = \"eager\"", "");
    let worker = stage.start();
    until("four programs", SOON, || stage.alive().len() == 4);
    stage.submit("hang", "\"hang\"");
    stage.until_runs("hang");
    worker.kill9();
    until("the programs to be gone", SOON, || stage.alive().is_empty());
}

#[test]
fn a_worker_that_stops_lets_running_jobs_end_and_leaves_no_program() {
    let stage = Stage::acting("processes = 2\nstart = \"eager\"", "max_attempts = 1");
    let worker = stage.start();
    stage.submit("wait", "\"wait\"");
    stage.until_runs("wait");
    worker.term();
    until("the worker to stop taking jobs", SOON, || worker.stderr().contains("stopping"));
    stage.touch("gate");
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!((stage.until_ended("wait")["state"].as_str(), stage.runs("wait")), (Some("done"), 1));
    assert_eq!(stage.alive(), Vec::<String>::new());
}

#[test]
fn jobs_of_a_pool_whose_program_is_broken_wait_and_spend_no_attempt() {
    let stage = Stage::acting("processes = 2", "max_attempts = 1\ntimeout = \"1s\"");
    let program = stage.dir.path().join("worker.py");
    fs::write(&program, "import sys\nsys.exit(7)\n").unwrap();
    let worker = stage.start();
    stage.submit("patient", "null");
    until("a start to fail", SOON, || worker.stderr().contains("ended before it was ready"));
    fs::write(&program, harness::pool::PROGRAM).unwrap();
    let status = stage.until_ended("patient");
    assert_eq!((status["state"].as_str(), stage.runs("patient")), (Some("done"), 1), "{status}");
}

#[test]
fn a_cancelled_job_is_cut_short_and_the_next_one_runs() {
    let stage = Stage::acting("processes = 1\ngrace = \"200ms\"", "timeout = \"10m\"");
    let _worker = stage.start();
    stage.submit("hang", "\"hang\"");
    stage.until_runs("hang");
    let cancelled = sf(&stage.server, &["cancel", "hang"]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(stage.until_ended("hang")["state"], "cancelled");
    assert_eq!(stage.run("next", "null")["state"], "done");
}

#[test]
fn a_crash_uses_up_an_attempt_of_the_job_that_had_begun_and_of_no_other() {
    let stage = Stage::acting("processes = 1\nahead = 8", "max_attempts = 1");
    let _worker = stage.start();
    assert_eq!(stage.run("first", "null")["state"], "done");
    for nth in 0..20 {
        stage.submit(&format!("before-{nth}"), "null");
    }
    stage.submit("crash", "\"crash\"");
    for nth in 0..20 {
        stage.submit(&format!("after-{nth}"), "null");
    }
    assert_eq!(stage.until_ended("crash")["state"], "dead");
    for nth in 0..20 {
        for when in ["before", "after"] {
            let id = format!("{when}-{nth}");
            assert_eq!((stage.until_over(&id).as_str(), stage.runs(&id)), ("done", 1), "{id}");
        }
    }
}

#[test]
fn a_once_step_whose_neighbor_hangs_never_runs_twice() {
    let types = "[types.act]\nhandler = { pool = \"py\" }\ntimeout = \"1s\"\nmax_attempts = 1\n\
        [types.other.steps.charge]\nkind = \"once\"\nhandler = { pool = \"py\" }";
    let stage = Stage::new("processes = 1\ninflight = 2\ngrace = \"200ms\"", types);
    let _worker = stage.start();
    let pay = ["XADD", "sf:{default}:jobs", "*", "type", "other", "id", "pay", "payload", "\"wait\""];
    stage.server.cmd(&pay);
    stage.until_runs("pay");
    assert_eq!(stage.run("hang", "\"hang\"")["state"], "dead");
    // A second run would succeed.
    stage.touch("gate");
    let status = stage.until_ended("pay");
    assert_eq!((status["state"].as_str(), stage.runs("pay")), (Some("dead"), 1), "{status}");
    assert_eq!(json(&stage.server, &["dead", "show", "pay"])["reason"], "needs_decision");
    let charge = &json(&stage.server, &["steps", "pay"])["steps"][0];
    assert_eq!(charge["state"], "unknown", "{charge}");
}

#[test]
fn a_once_step_that_no_program_has_taken_runs_on_the_next_worker() {
    let types = "[types.act.steps.charge]\nkind = \"once\"\nhandler = { pool = \"py\" }";
    let mut stage = Stage::new("processes = 1\ngrace = \"200ms\"", types);
    stage.toml = stage.toml.replacen("[worker]", "[worker]\ndrain_timeout = \"0s\"", 1);
    let worker = stage.start();
    let charge = |id: &str| json(&stage.server, &["steps", id])["steps"][0]["state"].clone();
    let until_started = |id: &str| {
        until("the step to be started", SOON, || {
            let ledger = format!("sf:{{default}}:steps:{id}");
            stage.server.cmd(&["HGET", &ledger, "charge:state"])
                == redis::Value::BulkString(b"started".into())
        });
    };
    stage.submit("first", "\"wait\"");
    stage.until_runs("first");
    for waiting in ["second", "third"] {
        stage.submit(waiting, "\"wait\"");
        until_started(waiting);
    }
    assert_eq!(sf(&stage.server, &["cancel", "third"]).code, Some(0));
    assert_eq!(stage.until_ended("third")["state"], "cancelled");
    assert_eq!(charge("third"), "pending", "nothing of it was done");
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(0));
    assert_eq!((charge("first"), charge("second")), ("unknown".into(), "pending".into()));
    stage.touch("gate");
    let _next = stage.start();
    let status = stage.until_ended("second");
    assert_eq!((status["state"].as_str(), stage.runs("second")), (Some("done"), 1), "{status}");
    assert_eq!(stage.runs("third"), 0);
}

#[test]
fn a_job_whose_program_cannot_start_says_so_until_one_can() {
    let stage = Stage::acting("processes = 1", "max_attempts = 1");
    let _worker = stage.start();
    let path = stage.dir.path().join("worker.py");
    let good = fs::read(&path).unwrap();
    assert_eq!(stage.run("before", "null")["state"], "done");
    fs::write(&path, "import sys\nsys.exit('DB_HOST is not set')\n").unwrap();
    // Ends the programs that serve.
    stage.submit("crash", "\"crash\"");
    stage.submit("waits", "null");
    let status = until("the job to say why it does not run", SOON, || {
        let status = json(&stage.server, &["status", "waits"]);
        status["pool_down"].is_object().then_some(status)
    });
    assert!(["running", "waiting", "scheduled"].contains(&status["state"].as_str().unwrap()), "{status}");
    let down = &status["pool_down"];
    assert!(down["error"].as_str().unwrap().contains("DB_HOST is not set"), "{status}");
    assert_eq!(down["pool"], "py", "{status}");
    let shown = sf(&stage.server, &["status", "waits"]).stdout;
    assert!(shown.contains("no program of the pool py can start on "), "{shown}");
    let queue = json(&stage.server, &["queues"])["items"][0].take();
    assert_eq!(queue["cause"]["kind"], "pool_down", "{queue}");
    assert!(queue["cause"]["text"].as_str().unwrap().contains("DB_HOST is not set"), "{queue}");
    let worker = json(&stage.server, &["workers"])["items"][0].take();
    assert_eq!(worker["pools_down"][0]["pool"], "py", "{worker}");
    fs::write(&path, good).unwrap();
    assert_eq!(stage.until_over("waits"), "done");
    until("the worker to report that its pool works", SOON, || {
        let value = stage.server.cmd(&["KEYS", "sf:worker:*"]);
        let keys: Vec<String> = redis::from_redis_value(value).unwrap();
        let told: String =
            redis::from_redis_value(stage.server.cmd(&["HGET", &keys[0], "pools_down"])).unwrap();
        told.is_empty()
    });
}
