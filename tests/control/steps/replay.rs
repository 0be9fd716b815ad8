//! Replays of only the steps that have not succeeded, or of all steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::{JobId, State, StepState};

use harness::fleet::{Running, until_state};
use harness::steps::{Scene, Walks};

/// Returns a job that died of its step `render`, which succeeds once the switch is on.
async fn dead() -> (Scene, Walks, Running, JobId) {
    let scene = Scene::new().await;
    let mended: Arc<AtomicBool> = Arc::default();
    let handler = Walks::new(move |step, _| {
        let fails = step == "render" && !mended.load(Ordering::SeqCst);
        if step == "render" && fails {
            mended.store(true, Ordering::SeqCst);
            return Err(JobError::fatal("no template"));
        }
        Ok(Value::Null)
    });
    let fleet = scene.usual(&handler);
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "exhausted");
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 1, 1]);
    (scene, handler, fleet, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_runs_only_unfinished_steps_with_fresh_attempts() {
    let (scene, handler, fleet, job) = dead().await;
    let letter = scene.seen(&job).await.dead.unwrap();
    assert!(scene.queue.dead_letters().replay(letter, &job).await.unwrap().is_done());
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 2, 1]);
    assert_eq!(scene.step(&job, "render").await.attempts, 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_by_xadd_runs_only_the_steps_that_have_not_succeeded() {
    let (scene, handler, fleet, job) = dead().await;
    let letter = scene.queue.dead_letters().page(None, 1).await.unwrap().remove(0);
    let fields = letter.fields.fields().flat_map(|(name, value)| [name, value]);
    let head: [&[u8]; 3] = [b"XADD", b"sf:{default}:jobs", b"*"];
    scene.server.cmd(&head.into_iter().chain(fields).collect::<Vec<_>>());
    scene.server.cmd(&["XDEL", "sf:{default}:dead", &letter.entry.to_string()]);
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 2, 1]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_all_steps_starts_over() {
    let (scene, handler, fleet, job) = dead().await;
    let letter = scene.seen(&job).await.dead.unwrap();
    assert!(scene.queue.dead_letters().replay_all_steps(letter, &job).await.unwrap().is_done());
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [2, 2, 2]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_with_a_started_once_step_outlives_its_letter_by_a_week() {
    let (scene, _handler, fleet, job) = dead().await;
    let letter = scene.seen(&job).await.dead.unwrap();
    assert!(scene.queue.dead_letters().drop(letter, &job).await.unwrap());
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Done);
    let ttl = scene.server.cmd(&["PTTL", &format!("sf:{{default}}:steps:{job}")]);
    let redis::Value::Int(ttl) = ttl else { panic!("no time to live") };
    assert!((6 * 24 * 3_600_000..=7 * 24 * 3_600_000).contains(&ttl), "{ttl}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_deleted_by_hand_leaves_no_ledger_unless_a_once_step_has_begun() {
    for is_once in [true, false] {
        let (scene, _handler, fleet, job) = dead().await;
        fleet.stop().await;
        let (ledger, letter) = (format!("sf:{{default}}:steps:{job}"), scene.seen(&job).await.dead.unwrap());
        if !is_once {
            scene.server.cmd(&["HSET", &ledger, "charge:state", "pending"]);
        }
        scene.server.cmd(&["XDEL", "sf:{default}:dead", &letter.to_string()]);
        assert_eq!(scene.queue.dead_letters().forget_gone(None).await.unwrap().forgotten, 1);
        assert_eq!(scene.server.cmd(&["EXISTS", &ledger]), redis::Value::Int(i64::from(is_once)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_of_a_dead_job_is_kept_for_as_long_as_its_letter() {
    let (scene, _handler, fleet, job) = dead().await;
    let ttl = scene.server.cmd(&["PTTL", &format!("sf:{{default}}:steps:{job}")]);
    assert_eq!(ttl, redis::Value::Int(-1));
    assert_eq!(scene.state_of(&job, "render").await, StepState::Exhausted);
    fleet.stop().await;
}
