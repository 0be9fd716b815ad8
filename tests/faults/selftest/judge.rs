//! The judge detects bugs: workers with a known bug are caught by the name of the promise that they break.

use std::time::Duration;

use harness::checker::{Case, Report, Rules};
use harness::clock::monotonic_ns;
use harness::history::History;
use harness::ledger::{Ledger, Record};
use harness::program::{Program, Sabotage};
use harness::redis_server::RedisServer;
use harness::remains::{facts, is_allowed, until_at_rest};
use harness::wait::until;
use harness::weather::{Cause, Event, Weather};

const SOON: Duration = Duration::from_secs(20);
const SETTLED: Duration = Duration::from_millis(500);
const STREAM: &str = "sf:{default}:jobs";

/// Judges a worker with a bug, and its sound successor after the worker was killed in the middle of the last job.
fn judge(sabotage: Option<Sabotage>) -> Report {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let program = Program { sabotage, ..Program::new(&server.url(), dir.path()) };
    let worker = program.launch().start();
    let writer = ledger.writer("producer");
    let jobs = ["ok", "fail 1", "sleep 2000"].map(|payload| {
        let id = server.cmd(&["XADD", STREAM, "*", "type", "test", "payload", payload]);
        let id = redis::from_redis_value::<String>(id).unwrap();
        writer.submitted(&id);
        id
    });
    // A job that is acknowledged early does not run for long: the heartbeat notices that its entry is missing.
    let at_once = sabotage == Some(Sabotage::AcknowledgesBeforeRunning);
    let settled = if at_once { Duration::ZERO } else { 2 * SETTLED };
    until("the worker to be in the middle of the last job, and all else settled", SOON, || {
        is_in_the_middle(&ledger.read(), &jobs[2], settled)
    });
    let from = monotonic_ns();
    worker.kill9();
    let kill = Event { cause: Cause::Kill, pid: Some(worker.pid()), from, until: monotonic_ns() };
    let _successor = Program { sabotage: None, ..program }.launch().start();
    until_at_rest(&server, Duration::from_secs(10));
    let (facts, history) = (facts(&server), History::new(ledger.read()));
    let rules = Rules {
        max_attempts: 4,
        max_losses: 3,
        timeout: None,
        settled_within: SETTLED,
        recovered_within: Duration::from_secs(6),
        is_allowed_key: &|key| is_allowed(key, &facts.dead),
    };
    let weather = Weather::new(&[kill]);
    Case { history: &history, facts: &facts, weather: &weather, rules: &rules }.check()
}

/// Whether a run of this job is under way, and the last end of any other is so long ago that the kill does not excuse its
/// outcome.
fn is_in_the_middle(records: &[Record], job: &str, settled: Duration) -> bool {
    let (mut under_way, mut last_end) = (false, 0);
    for record in records {
        match record {
            Record::Start { run, .. } => under_way |= run.job == job,
            Record::End { run, .. } if run.job == job => return false,
            Record::End { t, .. } => last_end = last_end.max(*t),
            Record::Submit { .. } | Record::Unknown { .. } => {}
        }
    }
    under_way && last_end > 0 && Duration::from_nanos(monotonic_ns().saturating_sub(last_end)) >= settled
}

#[test]
fn a_sound_worker_breaks_no_promise() {
    judge(None).assert_clean();
}

#[test]
fn acknowledging_before_running_is_detected_as_loss() {
    let report = judge(Some(Sabotage::AcknowledgesBeforeRunning));
    assert!(report.broken().contains(&"no_loss"), "{report}");
}

#[test]
fn dropping_failures_is_detected_as_loss() {
    let report = judge(Some(Sabotage::DropsFailures));
    assert!(report.broken().contains(&"no_loss"), "{report}");
}

#[test]
fn submitting_a_finished_job_again_is_detected() {
    let report = judge(Some(Sabotage::RunsTwice));
    assert!(report.broken().iter().any(|broken| ["calm_once", "bounded"].contains(broken)), "{report}");
}

#[test]
fn burying_and_retrying_a_job_is_detected_as_two_ends() {
    let report = judge(Some(Sabotage::BuriesAndRetries));
    assert!(report.broken().contains(&"one_place"), "{report}");
}
