//! Unique keys whose holders are large, or counted by very many batches: the scripts that replace or postpone them stay short.

use std::time::Duration;

use streamfleet::job::{BatchId, JobId, State};
use streamfleet::{Accepted, Producer, Submission, UniqueMode, UniqueScope};

use super::weight::heavy;
use harness::alone::alone;
use harness::fleet::{Acts, until_state};
use harness::scene::{LONG, Scene, job};
use harness::yardstick::{Verdict, Yardstick, in_one_of_three, log_from};

/// As many jobs as one round trip would have by their own weight.
const EACH: usize = 25;

fn locked(submission: Submission, key: &str, mode: UniqueMode) -> Submission {
    submission.unique(key.parse().unwrap(), UniqueScope::Running, mode)
}

fn broad() -> Submission {
    job("x".repeat(120_000))
}

/// Gives holders to many keys, and submits small jobs with these keys.
async fn displaced(holder: fn() -> Submission, delay: Option<Duration>, mode: UniqueMode) -> Verdict {
    let scene = Scene::new().await;
    // The queue is full, which the script finds out before it decides.
    let producer = Producer::new(scene.queue.clone()).max_depth(EACH as u64);
    let jobs = |submission: fn() -> Submission, mode: UniqueMode| {
        (0..EACH).map(move |nth| {
            let submission = locked(submission(), &format!("key-{nth}"), mode);
            delay.map_or(submission.clone(), |delay| submission.delay(delay))
        })
    };
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    producer.submit_all(jobs(holder, UniqueMode::Reject)).await.unwrap();
    let mut answers = Vec::new();
    producer.submit_or_find_all(jobs(|| job("{}"), mode), |more| answers.extend(more)).await.unwrap();
    let is_displaced = |accepted: &Accepted| match mode {
        UniqueMode::Reject => matches!(accepted, Accepted::Existing(_)),
        UniqueMode::Replace => matches!(accepted, Accepted::Replacing(_)),
        UniqueMode::Debounce => *accepted == Accepted::Debounced,
    };
    assert_eq!(answers.len(), EACH);
    assert!(answers.iter().all(|answer| is_displaced(&answer.accepted)), "{answers:?}");
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_holders_hold_redis_up_for_no_longer_than_small_ones() {
    let _alone = alone();
    let soon = Some(LONG);
    let cases = [
        (broad as fn() -> Submission, soon, UniqueMode::Debounce),
        (heavy, soon, UniqueMode::Debounce),
        (broad, soon, UniqueMode::Replace),
        (heavy, soon, UniqueMode::Replace),
        (heavy, None, UniqueMode::Replace),
        (heavy, None, UniqueMode::Reject),
    ];
    for (holder, delay, mode) in cases {
        in_one_of_three(async || displaced(holder, delay, mode).await).await;
    }
}

/// Submits batches that each wait for the holder of a key.
async fn wait_for_holder(producer: &Producer, batches: std::ops::Range<usize>) {
    for nth in batches {
        let batch: BatchId = format!("b-{nth}").parse().unwrap();
        let last = job("last").id(format!("last-{nth}").parse().unwrap());
        producer.submit_batch(&batch, last, [locked(job("{}"), "key", UniqueMode::Reject)]).await.unwrap();
    }
}

async fn awaited_by_many() -> Verdict {
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let submit = async |mode| {
        let submission = locked(job("{}").delay(LONG), "key", mode);
        producer.submit_or_find(submission).await.unwrap()
    };
    submit(UniqueMode::Reject).await;
    wait_for_holder(&producer, 0..99).await;
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    assert!(matches!(submit(UniqueMode::Replace).await.accepted, Accepted::Replacing(_)));
    let replacement = submit(UniqueMode::Replace).await;
    assert!(matches!(replacement.accepted, Accepted::Replacing(_)));
    wait_for_holder(&producer, 99..100).await;
    let kept_out = submit(UniqueMode::Replace).await;
    assert_eq!(
        (kept_out.id, kept_out.accepted),
        (replacement.id.clone(), Accepted::Existing(State::Scheduled))
    );
    producer.run_now(&replacement.id).await.unwrap();
    let fleet = scene.sound_fleet(LONG, Acts::well());
    for nth in 0..100 {
        until_state(&scene.queue, &format!("last-{nth}").parse().unwrap(), State::Done).await;
    }
    scene.until_at_rest().await;
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_as_many_batches_as_may_wait_for_it_is_replaced_in_time_or_not_at_all() {
    let _alone = alone();
    in_one_of_three(async || awaited_by_many().await).await;
}

/// Ends jobs, for each of which a hundred batches wait, which are followed by jobs of this many bytes.
async fn awaited_together(jobs: usize, bytes: usize) -> Verdict {
    const BATCHES: usize = 100;
    let scene = Scene::new().await;
    let producer = Producer::new(scene.queue.clone());
    let members = || (0..jobs).map(|nth| job("{}").id(format!("j-{nth}").parse().unwrap()));
    producer.submit_all(members()).await.unwrap();
    let last = |nth: usize| format!("last-{nth}").parse::<JobId>().unwrap();
    for nth in 0..BATCHES {
        let batch: BatchId = format!("b-{nth}").parse().unwrap();
        producer.submit_batch(&batch, job("x".repeat(bytes)).id(last(nth)), members()).await.unwrap();
    }
    log_from(&scene.server, "300");
    let yardstick = Yardstick::lay(&scene.server);
    let handler = Acts::well();
    let fleet = scene.sound_fleet(LONG, handler.clone());
    for nth in 0..BATCHES {
        until_state(&scene.queue, &last(nth), State::Done).await;
    }
    scene.until_at_rest().await;
    assert_eq!(handler.all_runs() as usize, jobs + BATCHES);
    fleet.stop().await;
    yardstick.judge(&scene.server)
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_which_many_batches_wait_end_in_calls_that_are_no_longer_than_others() {
    let _alone = alone();
    for (jobs, bytes) in [(100, 2), (1, 60_000), (20, 4000)] {
        in_one_of_three(async || awaited_together(jobs, bytes).await).await;
    }
}
