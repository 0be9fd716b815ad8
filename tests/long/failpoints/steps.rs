//! Steps: whatever happens at a call, no step of the kind `once` runs twice, and the job either ends or waits for a person's
//! decision.

use std::time::{Duration, Instant};

use super::drill::Drill;
use harness::ledger::{Ledger, Record};
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(10);
const LEDGER: &str = "sf:{default}:steps:gift";

fn submit(server: &RedisServer) {
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "gift", "id", "gift", "payload", "render fail 1"]);
}

fn field(server: &RedisServer, key: &str, name: &str) -> String {
    redis::from_redis_value(server.cmd(&["HGET", key, name])).unwrap_or_default()
}

/// Waits until all is right: what a frozen worker reports after it resumes may bring its job back from the dead.
fn judge(server: &RedisServer, ledger: &Ledger) -> Result<(), String> {
    let asked = Instant::now();
    until("all to be right, or the time limit", 4 * SOON, || {
        let right = is_right(server, &ledger.read());
        (right.is_ok() || asked.elapsed() > 3 * SOON).then_some(right)
    })
}

/// Checks that `charge` began at most once. If it is known how it ended, the job and all its steps are done. Otherwise the job is
/// dead and waits for a decision, `render` is done, and `mail` has not begun.
fn is_right(server: &RedisServer, records: &[Record]) -> Result<(), String> {
    let starts = |step: &str| {
        let job = format!("gift/{step}");
        records.iter().filter(|record| matches!(record, Record::Start { run, .. } if run.job == job)).count()
    };
    let [charge, mail, render] =
        ["charge", "mail", "render"].map(|step| field(server, LEDGER, &format!("{step}:state")));
    let job = field(server, "sf:{default}:job:gift", "state");
    let reason: Vec<(String, Vec<String>)> =
        redis::from_redis_value(server.cmd(&["XRANGE", "sf:{default}:dead", "-", "+"])).unwrap();
    let reason = reason.iter().flat_map(|(_, fields)| fields).any(|field| field == "needs_decision");
    let is_right = match (job.as_str(), charge.as_str()) {
        ("done", "done") => {
            starts("charge") == 1
                && field(server, LEDGER, "charge:attempts") == "1"
                && (mail.as_str(), render.as_str()) == ("done", "done")
                && !reason
        }
        ("dead", "unknown") => {
            starts("charge") <= 1 && (starts("mail"), render.as_str()) == (0, "done") && reason
        }
        _ => false,
    };
    let ran = ["audit", "charge", "mail", "render"].map(starts);
    is_right.then_some(()).ok_or_else(|| {
        format!("{job}, needs decision: {reason}, charge {charge}, mail {mail}, render {render}, ran {ran:?}")
    })
}

#[test]
fn no_once_step_runs_twice_despite_any_fault() {
    let drill = Drill {
        scripts: &["begin", "steps", "step_begin", "step_end", "defer", "complete"],
        submit,
        is_done: |server| {
            jobs_left(server) == 0 && !field(server, "sf:{default}:job:gift", "state").is_empty()
        },
        judge,
    };
    drill.run("steps");
}
