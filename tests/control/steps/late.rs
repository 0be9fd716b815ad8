//! Workers that are frozen in the middle of a `once` step and resume after it has become unknown: what they report then
//! counts, unless a person has already decided.

use std::time::Duration;

use streamfleet::job::{State, StepState, Verdict};

use super::halfway::Halfway;
use harness::fleet::{config, quick, until_state};
use harness::ledger::Record;
use harness::process::Worker;
use harness::proxy::{Direction, Mode, Proxy};
use harness::scene::STREAM;
use harness::scripts::{jobs_args, reply, source};
use harness::steps::{Scene, Walks, plan};
use harness::wait::until_async;

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
    assert_eq!(scene.reason(&zombie.job).await, "fatal");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_late_report_just_before_the_burial_leaves_no_job_dead() {
    let scene = Scene::new().await;
    scene.queue.join(Duration::from_secs(1)).await.unwrap();
    let job = scene.submit().await;
    let (id, ledger) = (job.to_string(), format!("sf:{{default}}:steps:{job}"));
    scene.server.cmd(&["XREADGROUP", "GROUP", "fleet", "ghost", "STREAMS", STREAM, ">"]);
    let (keys, as_ghost) = ([STREAM, &ledger], |values: &[&str]| jobs_args("ghost", "normal", &[values]));
    let begin =
        as_ghost(&[&id, &id, "1", "charge", "once", "charge once\nrender auto\nmail auto charge", "0"]);
    reply(&scene.server, source("step_begin"), &keys, &begin);
    // Another worker finds that nobody knows how the step ended, and is about to bury the job.
    let proxy = Proxy::start(scene.server.addr());
    let needle = b"needs_decision".to_vec();
    proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    let handler = Walks::well();
    let config = config(&scene.server.url_through(proxy.addr()));
    let fleet = Scene::fleet_with(config, quick(3), plan(&handler));
    until_async("the burial to be on its way", SOON, async || proxy.met() > 0).await;
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Unknown);
    let end = as_ghost(&["0-0", &id, "charge", "1", "done", "1", "", "", "", "", "", "", ""]);
    reply(&scene.server, source("step_end"), &keys, &end);
    proxy.set(Mode::Pass);
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [0, 1, 1]);
    assert_eq!(scene.queue.snapshot().await.unwrap().dead, 0);
    fleet.stop().await;
}
