//! Workers that are frozen in the middle of a `once` step and resume after it has become unknown: what they report then
//! counts, unless a person has already decided.

use std::time::Duration;

use streamfleet::job::{State, StepState, Verdict};

use super::halfway::Halfway;
use crate::harness::fleet::until_state;
use crate::harness::ledger::Record;
use crate::harness::process::Worker;
use crate::harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);

/// Returns a worker that is frozen in the middle of `charge`, and another one, which has buried the job.
async fn frozen(more: &str) -> (Halfway, Worker) {
    let zombie = Halfway::of("charge", more).await;
    zombie.worker.freeze();
    let helper = zombie.another();
    assert_eq!(zombie.scene.reason(&zombie.job).await, "needs_decision");
    assert_eq!(zombie.scene.state_of(&zombie.job, "charge").await, StepState::Unknown);
    (zombie, helper)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_late_report_counts_and_its_job_continues() {
    let (zombie, _helper) = frozen("").await;
    zombie.let_end();
    until_state(&zombie.scene.queue, &zombie.job, State::Done).await;
    let charge = zombie.scene.step(&zombie.job, "charge").await;
    assert_eq!((charge.state, charge.attempts), (StepState::Done, 1));
    assert_eq!((zombie.starts("charge"), zombie.starts("mail")), (1, 1));
    assert_eq!(zombie.scene.queue.snapshot().await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_report_after_a_decision_changes_nothing() {
    let (zombie, _helper) = frozen("").await;
    let scene = &zombie.scene;
    scene.decide(&zombie.job, "charge", Verdict::GiveUp).await.unwrap();
    let before = scene.seen(&zombie.job).await.ledger;
    zombie.let_end();
    let ended = |record: &Record| matches!(record, Record::End { run, .. } if run.job == "j/charge");
    until_async("charge to end", SOON, async || zombie.records().iter().any(ended)).await;
    // It reports before it stops.
    zombie.worker.term();
    zombie.worker.wait_exit(SOON);
    assert_eq!(scene.seen(&zombie.job).await.ledger, before);
    assert_eq!(scene.reason(&zombie.job).await, "needs_decision");
    assert_eq!(zombie.starts("mail"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zombies_late_report_renews_no_attempts_of_exhausted_steps() {
    let (zombie, _helper) = frozen("; render fatal").await;
    zombie.let_end();
    zombie.scene.until_step(&zombie.job, "charge", StepState::Done).await;
    zombie.worker.term();
    zombie.worker.wait_exit(SOON);
    assert_eq!(zombie.scene.reason(&zombie.job).await, "needs_decision");
    assert_eq!((zombie.starts("render"), zombie.starts("mail")), (1, 0));
}
