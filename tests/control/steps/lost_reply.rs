//! Replies that get lost after Redis has recorded that a step began, or how it ended: the call is sent again, and the step
//! runs once.

use std::time::Duration;

use streamfleet::job::{State, StepState};
use streamfleet::{JobError, Producer, Submission};

use harness::fleet::{config, quick, until_state};
use harness::proxy::{Direction, Mode, Proxy};
use harness::scene::{SOON, STREAM};
use harness::scripts::source;
use harness::steps::{Scene, Walks, plan};
use harness::wait::until_async;

fn gift() -> Submission {
    Submission::new("gift").unwrap()
}

/// Runs a job for which every call of this script loses its first reply.
async fn losing(source: &str, times: usize, submission: Submission) {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.server.addr());
    let sha = harness::scripts::sha(&scene.server, source);
    proxy.set(Mode::drop_reply_to(&sha, times));
    let handler = Walks::well();
    let config = config(&scene.server.url_through(proxy.addr()));
    let fleet = Scene::fleet_with(config, quick(3), plan(&handler));
    let job = Producer::new(scene.queue.clone()).submit(submission).await.unwrap();
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(proxy.hits(), times);
    assert_eq!(["charge", "render", "mail"].map(|step| handler.runs(step)), [1, 1, 1]);
    let charge = scene.step(&job, "charge").await;
    assert_eq!((charge.state, charge.attempts, charge.errors.len()), (StepState::Done, 1, 0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_whose_begin_lost_its_reply_runs_once() {
    losing(source("step_begin"), 3, gift()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_once_step_whose_end_lost_its_reply_runs_once() {
    losing(source("step_end"), 3, gift()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_whose_reply_was_lost_is_repeated() {
    // Only the first entry of a job shows that there is no ledger.
    losing(source("steps"), 1, gift().delay(Duration::from_millis(1))).await;
}

/// The person who decides about the step reads what its handler knew.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_that_nobody_knows_is_sent_again() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.server.addr());
    let needle = harness::scripts::sha(&scene.server, source("step_end")).into_bytes();
    proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Requests });
    let handler = Walks::new(|_, _| Err(JobError::unknown("the bank did not answer")));
    let config = config(&scene.server.url_through(proxy.addr()));
    let fleet = Scene::fleet_with(config, quick(1), plan(&handler));
    let job = Producer::new(scene.queue.clone()).submit(gift()).await.unwrap();
    until_async("the end to be on its way", SOON, async || proxy.met() == 1).await;
    proxy.set(Mode::Rst);
    proxy.set(Mode::Pass);
    assert_eq!(scene.reason(&job).await, "needs_decision");
    let charge = scene.step(&job, "charge").await;
    let errors: Vec<&str> = charge.errors.iter().map(|error| &*error.text).collect();
    assert_eq!((charge.state, &errors[..]), (StepState::Unknown, &["the bank did not answer"][..]));
    fleet.stop().await;
}

/// Nobody needs to decide about a step that did nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_start_is_taken_back_if_the_entry_is_gone_when_it_is_sent_again() {
    let scene = Scene::new().await;
    let proxy = Proxy::start(scene.server.addr());
    let needle = harness::scripts::sha(&scene.server, source("step_begin")).into_bytes();
    proxy.set(Mode::Hold { needle, nth: 1, way: Direction::Replies });
    let handler = Walks::well();
    let config = config(&scene.server.url_through(proxy.addr()));
    let fleet = Scene::fleet_with(config, quick(3), plan(&handler));
    let job = Producer::new(scene.queue.clone()).submit(gift()).await.unwrap();
    scene.until_step(&job, "charge", StepState::Started).await;
    scene.server.cmd(&["XACK", STREAM, "fleet", &job.to_string()]);
    proxy.set(Mode::Rst);
    proxy.set(Mode::Pass);
    scene.until_step(&job, "charge", StepState::Pending).await;
    assert_eq!(handler.runs("charge"), 0);
    fleet.stop().await;
}
