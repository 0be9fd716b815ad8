//! Jobs that wait in a pool after Redis has let them begin: before a late start, the worker asks again.

use std::fs;

use serde_json::Value;

use harness::cli::{json, sf};
use harness::pool::{SOON, Stage};
use harness::process::Worker;
use harness::wait::until;

/// How long before its expiry a job is submitted.
const LIFETIME: u64 = 6000;

/// How long after a pause jobs may still start, on a machine that is slow: the promise is one second.
const FOLLOWED: u64 = 3000;

/// A program with one job at a time that looks for lines that cancel jobs before it begins one. It is ready once there is a file
/// `open`, and notes when it begins each job.
const PROGRAM: &str = r#"
import json, os, select, sys, time
def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
def note(file, text):
    with open(file, "a") as notes: notes.write(f"{text}\n")
note("pids", os.getpid())
hello = json.loads(sys.stdin.buffer.raw.readline())
while not os.path.exists("open"): time.sleep(0.01)
say(type="ready", protocol=1, inflight=1, ahead=hello["ahead"])
waiting, buffer = [], b""
os.set_blocking(0, False)
def look(wait):
    global buffer
    select.select([0], [], [], None if wait else 0)
    while True:
        try: data = os.read(0, 65536)
        except BlockingIOError: break
        if not data: sys.exit(0)
        buffer += data
    *lines, buffer = buffer.split(b"\n")
    for line in map(json.loads, lines):
        if line["type"] == "job":
            waiting.append(line)
            note("given", line["id"])
        for job in [job for job in waiting if line["type"] == "cancel" and job["ref"] == line["ref"]]:
            waiting.remove(job)
            say(type="result", ref=job["ref"], outcome="snooze", delay_ms=1000, begun=False)
while True:
    look(not waiting)
    if not waiting: continue
    job = waiting.pop(0)
    note("ran", job["id"])
    note("times", int(time.time() * 1000))
    if job["payload"] == "wait":
        while not os.path.exists("gate"): time.sleep(0.01)
    elif job["payload"]: time.sleep(job["payload"])
    say(type="result", ref=job["ref"], outcome="done")
"#;

/// A pool of this program.
fn stage(pool: &str) -> Stage {
    let stage = Stage::acting(pool, "max_attempts = 1");
    fs::write(stage.dir.path().join("worker.py"), PROGRAM).unwrap();
    stage
}

/// Submits a job that expires soon. Returns when.
fn submit_short(stage: &Stage, id: &str) -> u64 {
    let expires = stage.server.now_ms() + LIFETIME;
    stage.submit_with(id, &["payload", "null", "expires_at_ms", &expires.to_string()]);
    expires
}

fn until_running(stage: &Stage, id: &str) {
    until("the job to begin, as Redis knows it", SOON, || {
        json(&stage.server, &["status", id])["state"] == "running"
    });
}

/// Waits until the time has passed, as Redis tells it.
fn until_past(stage: &Stage, ms: u64) {
    until("the time to pass", SOON, || stage.server.now_ms() > ms);
}

fn assert_expired(stage: &Stage, id: &str) {
    let status = stage.until_ended(id);
    assert_eq!((status["state"].as_str(), stage.runs(id)), (Some("dead"), 0), "{status}");
    assert_eq!(json(&stage.server, &["dead", "show", id])["reason"], "expired");
}

#[test]
fn a_job_that_expires_while_its_program_starts_never_runs() {
    let stage = stage("processes = 1");
    let _worker = stage.start();
    let expires = submit_short(&stage, "short");
    until_running(&stage, "short");
    until_past(&stage, expires);
    stage.touch("open");
    assert_expired(&stage, "short");
    assert_eq!(stage.run("next", "null")["state"], "done");
}

#[test]
fn a_job_that_expires_while_all_programs_are_busy_never_runs() {
    // The program works on fewer jobs than the pool has room for.
    let stage = stage("processes = 1\ninflight = 4");
    stage.touch("open");
    let _worker = stage.start();
    stage.submit("long", "\"wait\"");
    stage.until_runs("long");
    let expires = submit_short(&stage, "short");
    until_running(&stage, "short");
    until_past(&stage, expires);
    stage.touch("gate");
    assert_expired(&stage, "short");
    assert_eq!(stage.until_over("long"), "done");
}

#[test]
fn a_job_that_expires_ahead_in_a_program_never_runs() {
    let stage = stage("processes = 1\nahead = 8");
    stage.touch("open");
    let _worker = stage.start();
    stage.submit("long", "\"wait\"");
    stage.until_runs("long");
    let expires: Vec<u64> = (0..4).map(|nth| submit_short(&stage, &format!("short-{nth}"))).collect();
    stage.submit("plain", "null");
    (0..4).for_each(|nth| until_running(&stage, &format!("short-{nth}")));
    until_past(&stage, expires[3]);
    stage.touch("gate");
    (0..4).for_each(|nth| assert_expired(&stage, &format!("short-{nth}")));
    for id in ["long", "plain"] {
        assert_eq!((stage.until_over(id).as_str(), stage.runs(id)), ("done", 1), "{id}");
    }
}

/// A pool whose only program is busy, and a job of two steps with these fields that waits for it after Redis has let it begin.
fn stage_of_steps(more: &[&str]) -> (Stage, Worker) {
    let mut stage = stage("processes = 1");
    stage.toml.push_str(
        "[types.other.steps.charge]\nkind = \"once\"\nhandler = { pool = \"py\" }\n\
         [types.other.steps.mail]\nkind = \"auto\"\nhandler = { pool = \"py\" }\n",
    );
    stage.touch("open");
    let worker = stage.start();
    stage.submit("long", "\"wait\"");
    stage.until_runs("long");
    let job = ["XADD", "sf:{default}:jobs", "*", "type", "other", "id", "late", "payload", "null"];
    let expires = (stage.server.now_ms() + LIFETIME).to_string();
    let more: Vec<&str> =
        more.iter().map(|field| if *field == "soon" { expires.as_str() } else { *field }).collect();
    stage.server.cmd(&[&job[..], &more[..]].concat());
    until_running(&stage, "late");
    (stage, worker)
}

#[test]
fn a_job_whose_first_step_waits_past_its_expiry_never_runs() {
    let (stage, _worker) = stage_of_steps(&["expires_at_ms", "soon"]);
    until_past(&stage, stage.server.now_ms() + LIFETIME);
    stage.touch("gate");
    assert_expired(&stage, "late");
    assert_eq!(stage.until_over("long"), "done");
}

#[test]
fn a_pause_is_followed_by_a_job_whose_first_step_waits() {
    let (stage, _worker) = stage_of_steps(&[]);
    assert_eq!(sf(&stage.server, &["pause", "--type", "other", "--reason", "x"]).code, Some(0));
    until_past(&stage, stage.server.now_ms() + FOLLOWED);
    stage.touch("gate");
    assert_eq!(stage.until_over("long"), "done");
    assert_eq!(stage.run("next", "null")["state"], "done");
    assert_eq!(stage.runs("late"), 0);
    assert_eq!(sf(&stage.server, &["resume", "--type", "other"]).code, Some(0));
    assert_eq!((stage.until_over("late").as_str(), stage.runs("late")), ("done", 2));
}

#[test]
fn a_pause_is_followed_by_jobs_ahead_which_use_up_no_attempt() {
    const JOBS: usize = 2000;
    let mut stage = stage("processes = 1\nahead = 1000");
    stage.toml = stage.toml.replacen("concurrency = 64", "concurrency = 1001", 1);
    stage.touch("open");
    let mut jobs = redis::pipe();
    for nth in 0..JOBS {
        jobs.cmd("XADD").arg(&[
            "sf:{default}:jobs",
            "*",
            "type",
            "act",
            "id",
            &nth.to_string(),
            "payload",
            "0.005",
        ]);
    }
    stage.server.try_pipe(&jobs).unwrap();
    let _worker = stage.start();
    until("some jobs to have run", SOON, || stage.lines("times").len() >= 50);
    assert_eq!(sf(&stage.server, &["pause", "--type", "act", "--reason", "x"]).code, Some(0));
    let paused = stage.server.now_ms();
    until_past(&stage, paused + FOLLOWED);
    let started = |stage: &Stage| stage.lines("times").len();
    let begun = started(&stage);
    // As long again as all that the pool has room for would take.
    until_past(&stage, paused + FOLLOWED + 2000);
    assert_eq!(started(&stage), begun, "jobs started long after the pause");
    assert!(begun < JOBS, "{begun} jobs started");
    assert_eq!(sf(&stage.server, &["resume", "--type", "act"]).code, Some(0));
    until("all jobs to have run", SOON, || started(&stage) >= JOBS);
    for nth in [0, begun - 1, begun, begun + 1, JOBS - 1] {
        let status: Value = stage.until_ended(&nth.to_string());
        assert_eq!((status["state"].as_str(), stage.runs(&nth.to_string())), (Some("done"), 1), "{status}");
    }
    assert_eq!(started(&stage), JOBS, "each ran once");
}

#[test]
fn a_job_whose_time_is_up_before_its_program_begins_it_uses_up_no_attempt() {
    // A program with all its places taken: it begins no job before it has been asked to end the first one.
    const WEDGED: &str = r#"
import json, os, sys
def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
def note(file, text):
    with open(file, "a") as notes: notes.write(f"{text}\n")
json.loads(sys.stdin.readline())
say(type="ready", protocol=1)
for line in map(json.loads, sys.stdin):
    if line["type"] == "cancel":
        note("withdrawn", line["reason"])
        say(type="result", ref=line["ref"], outcome="snooze", delay_ms=1000, begun=False)
    elif line["type"] == "job" and os.path.exists("withdrawn"):
        note("ran", line["id"])
        say(type="result", ref=line["ref"], outcome="done")
"#;
    let stage = Stage::acting("processes = 1", "max_attempts = 1\ntimeout = \"1s\"");
    fs::write(stage.dir.path().join("worker.py"), WEDGED).unwrap();
    let _worker = stage.start();
    let status = stage.run("late", "null");
    assert_eq!((status["state"].as_str(), stage.runs("late")), (Some("done"), 1), "{status}");
    assert_eq!(stage.lines("withdrawn"), ["timeout"]);
}
