//! Unique keys: one job at a time, according to scope and mode; a lock never outlives its job.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use streamfleet::job::{JobId, Lane, State};
use streamfleet::{Accepted, JobError, Producer, Submission, Submitted, UniqueMode, UniqueScope};
use streamfleet_engine::admin::Cancellation;

use harness::fleet::{Acts, Running, queue, quick, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::scene::{Gate, LONG, SOON, Scene, job};
use harness::wait::until_async;

const LOCK: &str = "sf:{default}:unique:ann";

fn unique(payload: &str, scope: UniqueScope, mode: UniqueMode) -> Submission {
    job(payload).unique("ann".parse().unwrap(), scope, mode)
}

async fn offer(producer: &Producer, submission: Submission) -> Submitted {
    producer.submit_or_find(submission).await.unwrap()
}

/// Returns true if another job of the key is accepted in this scope.
async fn is_free(producer: &Producer, scope: UniqueScope) -> bool {
    offer(producer, unique("other", scope, UniqueMode::Reject)).await.existing().is_none()
}

async fn payloads(scene: &Scene) -> Vec<String> {
    let upcoming = scene.queue.delayed().page(0, 10).await.unwrap();
    let payload = |fields: &streamfleet::job::Envelope| fields.get(b"payload").unwrap().to_vec();
    upcoming.iter().map(|job| String::from_utf8(payload(&job.fields.as_ref().unwrap().1)).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_job_of_a_key_is_answered_with_the_first() {
    let scene = Scene::new().await;
    let (producer, handler) = (scene.producer().await, Gate::closed());
    let first = offer(&producer, unique("wait", UniqueScope::Running, UniqueMode::Reject)).await;
    assert_eq!(first.accepted, Accepted::New);
    for mode in [UniqueMode::Reject, UniqueMode::Debounce] {
        let second = offer(&producer, unique("{}", UniqueScope::Running, mode)).await;
        assert_eq!((second.existing(), second.id), (Some(State::Waiting), first.id.clone()));
    }
    let fleet = scene.fleet(LONG, handler.clone());
    handler.until_started(&first.id).await;
    for mode in [UniqueMode::Reject, UniqueMode::Debounce, UniqueMode::Replace] {
        let second = offer(&producer, unique("{}", UniqueScope::Running, mode)).await;
        assert_eq!((second.existing(), second.id), (Some(State::Running), first.id.clone()));
    }
    handler.open();
    until_state(&scene.queue, &first.id, State::Done).await;
    assert_eq!(scene.int(&["EXISTS", LOCK]), 0);
    assert!(is_free(&producer, UniqueScope::Running).await);
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_unique_while_waiting_lets_others_in_when_it_starts() {
    let scene = Scene::new().await;
    let (producer, handler) = (scene.producer().await, Gate::closed());
    let first = offer(&producer, unique("wait", UniqueScope::Waiting, UniqueMode::Reject)).await.id;
    assert!(!is_free(&producer, UniqueScope::Waiting).await);
    let fleet = scene.fleet(LONG, handler.clone());
    handler.until_started(&first).await;
    assert!(is_free(&producer, UniqueScope::Waiting).await);
    handler.open();
    scene.until_at_rest().await;
    assert_eq!(scene.int(&["EXISTS", LOCK]), 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_keeps_a_running_lock_but_does_not_retake_a_waiting_lock() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    for (scope, free) in [(UniqueScope::Running, false), (UniqueScope::Waiting, true)] {
        let handler = Acts::new(|_, _| Err(JobError::retry_after(LONG, "later")));
        let fleet = Running::start(&server.url(), quick(3), handler);
        let first = offer(&producer, unique("{}", scope, UniqueMode::Reject)).await.id;
        let queue = queue(&server).await;
        until_state(&queue, &first, State::Retrying).await;
        fleet.stop().await;
        assert_eq!(is_free(&producer, scope).await, free, "{scope:?}");
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_cancelled_and_dropped_jobs_hold_no_lock() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    for scope in [UniqueScope::Running, UniqueScope::Window(LONG)] {
        let fleet = Running::start(&server.url(), quick(1), Acts::new(|_, _| Err(JobError::fatal("no"))));
        let dead = offer(&producer, unique("{}", scope, UniqueMode::Reject)).await.id;
        let letter = until_state(&queue, &dead, State::Dead).await.dead.unwrap();
        fleet.stop().await;
        let delayed = unique("{}", scope, UniqueMode::Reject).delay(LONG);
        let cancelled = offer(&producer, delayed.clone()).await;
        assert_eq!(cancelled.accepted, Accepted::New, "{scope:?}: a dead job holds the lock");
        assert_eq!(queue.cancel(&cancelled.id, "test", LONG).await.unwrap(), Cancellation::Done);
        assert_eq!(
            server.cmd(&["EXISTS", LOCK]),
            redis::Value::Int(i64::from(scope != UniqueScope::Running))
        );
        assert_eq!(offer(&producer, delayed.clone()).await.accepted, Accepted::New);
        assert!(queue.dead_letters().drop(letter, &dead).await.unwrap());
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_lock_counts_from_submission_and_outlasts_its_job() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    let mut config = scene.config(LONG);
    config.worker.retention = Duration::from_secs(1);
    let fleet = Running::start_with(config, quick(1), Acts::well());
    let window = UniqueScope::Window(Duration::from_secs(6));
    let first = offer(&producer, unique("{}", window, UniqueMode::Reject)).await.id;
    until_state(&scene.queue, &first, State::Done).await;
    let second = offer(&producer, unique("{}", window, UniqueMode::Replace)).await;
    assert_eq!((second.existing(), second.id), (Some(State::Done), first));
    until_async("the window to end", SOON, async || is_free(&producer, window).await).await;
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_or_is_delayed_is_replaced_wherever_it_is() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    let replacing = |delay: Option<Duration>, payload: &str| {
        let submission = unique(payload, UniqueScope::Running, UniqueMode::Replace).lane(Lane::Low);
        delay.map_or(submission.clone(), |delay| submission.delay(delay))
    };
    let first = offer(&producer, replacing(Some(LONG), "1")).await;
    // Due at once, but no leader promotes it: it is still in the delayed set.
    let second = offer(&producer, replacing(None, "2")).await;
    let third = offer(&producer, replacing(None, "3")).await;
    assert_eq!(first.accepted, Accepted::New);
    assert_eq!(second.accepted, Accepted::Replacing(first.id.clone()));
    assert_eq!(third.accepted, Accepted::Replacing(second.id.clone()));
    for gone in [&first.id, &second.id] {
        let status = scene.queue.status(gone).await.unwrap().unwrap();
        assert_eq!(status.state, State::Cancelled);
        assert!(status.error.unwrap().starts_with("replaced by "));
    }
    let handler = Acts::well();
    let fleet = scene.fleet(LONG, handler.clone());
    scene.until_at_rest().await;
    assert_eq!((handler.runs(&third.id), handler.all_runs()), (1, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_job_is_found_in_its_lane_and_replaced() {
    let scene = Scene::new().await;
    let (producer, handler) = (scene.producer().await, Gate::closed());
    // Other jobs occupy both slots, so that the promoted one waits.
    let mut config = scene.config(LONG);
    for queue in config.worker.queues.values_mut() {
        queue.concurrency = 1;
    }
    let busy = offer(&producer, job("wait").id("busy".parse().unwrap())).await.id;
    let fleet = Running::start_with(config, quick(1), handler.clone());
    handler.until_started(&busy).await;
    let soon = unique("{}", UniqueScope::Running, UniqueMode::Reject).delay(Duration::from_millis(1));
    let first = offer(&producer, soon).await.id;
    until_async("the job to be promoted", SOON, async || {
        scene.queue.snapshot().await.unwrap().waiting() == 1
    })
    .await;
    let second = offer(&producer, unique("{}", UniqueScope::Running, UniqueMode::Replace)).await;
    assert_eq!(second.accepted, Accepted::Replacing(first.clone()));
    handler.open();
    scene.until_at_rest().await;
    assert_eq!((handler.of(&first).starts, handler.of(&second.id).starts), (0, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debounced_job_keeps_its_id_and_gets_the_new_payload_and_time() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    let debounced = |payload: &str, delay: Duration| {
        unique(payload, UniqueScope::Waiting, UniqueMode::Debounce).delay(delay)
    };
    let first = offer(&producer, debounced("old", LONG)).await;
    let before = scene.queue.delayed().page(0, 1).await.unwrap()[0].due;
    let second = offer(&producer, debounced("new", 2 * LONG)).await;
    assert_eq!((first.accepted, second.accepted), (Accepted::New, Accepted::Debounced));
    assert_eq!(second.id, first.id);
    assert_eq!(payloads(&scene).await, ["new"]);
    let after = scene.queue.delayed().page(0, 1).await.unwrap()[0].due;
    assert!(after.since(before) > LONG / 2, "{before:?} {after:?}");
    // Without a delay it is due now.
    let third = offer(&producer, unique("last", UniqueScope::Waiting, UniqueMode::Debounce)).await;
    assert_eq!((third.id, third.accepted), (first.id.clone(), Accepted::Debounced));
    let handler = Acts::new(|_, payload| Ok(String::from_utf8_lossy(payload).into_owned().into()));
    let fleet = scene.fleet(LONG, handler.clone());
    let status = until_state(&scene.queue, &first.id, State::Done).await;
    assert_eq!((status.result.as_deref(), handler.all_runs()), (Some("\"last\""), 1));
    fleet.stop().await;
}

async fn by_fifty(mode: UniqueMode, delay: Duration) -> Vec<Submitted> {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let producer = Producer::new(queue.clone());
        let submission = unique("{}", UniqueScope::Running, mode).delay(delay);
        producers.spawn(async move { producer.submit_or_find(submission).await.unwrap() });
    }
    let answers = producers.join_all().await;
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!(snapshot.waiting() + snapshot.delayed, 1, "{mode:?}");
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_producers_with_one_key_leave_one_job_whatever_the_mode() {
    let count = |answers: &[Submitted], accepted: fn(&Accepted) -> bool| {
        answers.iter().filter(|answer| accepted(&answer.accepted)).count()
    };
    let is_new: fn(&Accepted) -> bool = |accepted| *accepted == Accepted::New;
    for mode in [UniqueMode::Reject, UniqueMode::Replace, UniqueMode::Debounce] {
        let answers = by_fifty(mode, LONG).await;
        assert_eq!(count(&answers, is_new), 1, "{mode:?}");
        let others: fn(&Accepted) -> bool = match mode {
            UniqueMode::Reject => |accepted| matches!(accepted, Accepted::Existing(State::Scheduled)),
            UniqueMode::Replace => |accepted| matches!(accepted, Accepted::Replacing(_)),
            UniqueMode::Debounce => |accepted| *accepted == Accepted::Debounced,
        };
        assert_eq!(count(&answers, others), 49, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unique_job_whose_reply_was_lost_is_one_job_and_holds_its_own_lock() {
    let scene = Scene::new().await;
    let producer = scene.producer().await;
    // Loads the script, so that the lost reply is the one to the actual call.
    let warm_up = job("{}").unique("bob".parse().unwrap(), UniqueScope::Running, UniqueMode::Reject);
    offer(&producer, warm_up.delay(LONG)).await;
    scene.proxy.set(harness::proxy::Mode::drop_reply_to("precious", 1));
    let first = offer(&producer, unique("precious", UniqueScope::Running, UniqueMode::Reject)).await;
    assert_eq!((first.accepted, scene.proxy.hits()), (Accepted::New, 1));
    assert_eq!(scene.queue.snapshot().await.unwrap().waiting(), 1);
    assert!(!is_free(&producer, UniqueScope::Running).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_job_runs_without_the_lock_and_leaves_anothers_alone() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let died = AtomicBool::new(false);
    let handler = Acts::new(move |context, _| {
        let dies = context.header("dies").is_some() && !died.swap(true, Ordering::SeqCst);
        if dies { Err(JobError::fatal("no")) } else { Ok(1.into()) }
    });
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let dies = unique("{}", UniqueScope::Running, UniqueMode::Reject).header("dies", "yes").unwrap();
    let first = offer(&producer, dies).await.id;
    let letter = until_state(&queue, &first, State::Dead).await.dead.unwrap();
    let other = unique("{}", UniqueScope::Running, UniqueMode::Reject).delay(LONG);
    let other: JobId = offer(&producer, other).await.id;
    queue.dead_letters().replay(letter, &first).await.unwrap();
    until_state(&queue, &first, State::Done).await;
    let holder: String = redis::from_redis_value(server.cmd(&["GET", LOCK])).unwrap();
    assert_eq!(holder, other.to_string());
    queue.cancel(&other, "test", LONG).await.unwrap();
    until_empty(&queue).await;
    fleet.stop().await;
}
