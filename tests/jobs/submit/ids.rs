//! A job that is resent under its own id is one job, whatever happened to the first one, and whatever failed in between.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use streamfleet::job::{JobId, State, Tracking};
use streamfleet::{Accepted, JobError, Producer, Queue, Submission, SubmitError};

use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::proxy::Mode;
use harness::redis_server::RedisServer;
use harness::scene::{Gate, LONG, SOON, STREAM, Scene, job};
use harness::wait::until_async;

const RECORD: &str = "sf:{default}:job:order-7";

pub(super) fn own(payload: &str) -> Submission {
    job(payload).id("order-7".parse().unwrap())
}

/// Resends the job under its id and with another payload. Returns the state in which the first one was found.
pub(super) async fn again(queue: &Queue) -> Option<State> {
    let submitted = Producer::new(queue.clone()).submit_or_find(own("again")).await.unwrap();
    assert_eq!(submitted.id.to_string(), "order-7");
    submitted.existing()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resent_job_is_answered_with_the_first_ones_id_and_state() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let id = scene.producer().await.submit(own("wait")).await.unwrap();
    assert_eq!(again(&scene.queue).await, Some(State::Waiting));
    let fleet = scene.fleet(LONG, handler.clone());
    handler.until_started(&id).await;
    assert_eq!(again(&scene.queue).await, Some(State::Running));
    handler.open();
    until_state(&scene.queue, &id, State::Done).await;
    assert_eq!(again(&scene.queue).await, Some(State::Done));
    scene.until_at_rest().await;
    assert_eq!(handler.of(&id).starts, 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_attempt_that_needs_no_script_to_begin_is_shown_and_cancelled() {
    let scene = Scene::new().await;
    let handler = Gate::closed();
    let fleet = scene.fleet(LONG, handler.clone());
    let id = scene.producer().await.submit(own("wait")).await.unwrap();
    handler.until_started(&id).await;
    let state = scene.server.cmd(&["HGET", RECORD, "state"]);
    assert_eq!(state, redis::Value::BulkString(b"waiting".to_vec()), "nothing has to be written yet");
    let status = scene.queue.status(&id).await.unwrap().unwrap();
    assert_eq!((status.state, status.worker.is_some()), (State::Running, true));
    let cancelled = scene.queue.cancel(&id, "a test", LONG).await.unwrap();
    assert_eq!(cancelled, streamfleet_engine::admin::Cancellation::Requested);
    let status = until_state(&scene.queue, &id, State::Cancelled).await;
    assert_eq!((status.attempts.len(), handler.of(&id).starts), (1, 1));
    scene.until_at_rest().await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resent_delayed_job_is_answered_and_stays_unchanged() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    producer.submit(own("first").delay(LONG)).await.unwrap();
    for other in [own("second"), own("second").delay(Duration::from_secs(1))] {
        assert_eq!(producer.submit_or_find(other).await.unwrap().existing(), Some(State::Scheduled));
    }
    let upcoming = queue.delayed().page(0, 10).await.unwrap();
    let (_, fields) = upcoming[0].fields.as_ref().unwrap();
    assert_eq!((upcoming.len(), fields.get(b"payload")), (1, Some(b"first".as_slice())));
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.delayed), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_resent_after_death_failure_or_cancellation_does_not_run() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|_, payload| match payload {
        b"is fatal" => Err(JobError::fatal("no")),
        _ => Err(JobError::retry_after(LONG, "later")),
    });
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let producer = Producer::new(queue.clone());
    let id = producer.submit(own("is fatal")).await.unwrap();
    until_state(&queue, &id, State::Dead).await;
    assert_eq!(again(&queue).await, Some(State::Dead));
    let status = queue.status(&id).await.unwrap().unwrap();
    assert!(queue.dead_letters().drop(status.dead.unwrap(), &id).await.unwrap());
    // Dropping a dead letter frees its id.
    assert_eq!(again(&queue).await, None);
    until_state(&queue, &id, State::Retrying).await;
    assert_eq!(again(&queue).await, Some(State::Retrying));
    let cancelled = queue.cancel(&id, "a test", Duration::from_secs(60)).await.unwrap();
    assert_eq!(cancelled, streamfleet_engine::admin::Cancellation::Done);
    assert_eq!(again(&queue).await, Some(State::Cancelled));
    until_empty(&queue).await;
    assert_eq!(handler.runs(&id), 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_a_done_job_is_accepted_again_only_after_its_window() {
    let scene = Scene::new().await;
    let handler = Acts::well();
    let mut config = scene.config(LONG);
    config.worker.retention = Duration::from_secs(1);
    let fleet = Running::start_with(config, quick(1), handler.clone());
    let producer = scene.producer().await;
    let id = producer.submit(own("{}").idempotent_for(Duration::from_secs(3600))).await.unwrap();
    until_state(&scene.queue, &id, State::Done).await;
    assert!(scene.int(&["PTTL", RECORD]) > 3_500_000, "the window must outlast the retention");
    let brief: JobId = "brief".parse().unwrap();
    producer.submit(job("{}").id(brief.clone()).idempotent_for(Duration::from_millis(1))).await.unwrap();
    until_async("the record to go", SOON, async || scene.queue.status(&brief).await.unwrap().is_none()).await;
    let submitted = producer.submit_or_find(job("{}").id(brief.clone())).await.unwrap();
    assert_eq!(submitted.existing(), None);
    scene.until_at_rest().await;
    assert_eq!((handler.runs(&id), handler.runs(&brief)), (1, 2));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_remembered_for_its_window_even_without_a_record() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let producer = Producer::new(queue.clone());
    let id = producer.submit(own("{}").tracking(Tracking::None)).await.unwrap();
    let brief: JobId = "brief".parse().unwrap();
    let submission = job("{}").tracking(Tracking::None).id(brief.clone());
    producer.submit(submission.idempotent_for(Duration::from_millis(1))).await.unwrap();
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    until_empty(&queue).await;
    assert_eq!(again(&queue).await, Some(State::Done));
    until_async("the other's record to go", SOON, async || queue.status(&brief).await.unwrap().is_none())
        .await;
    assert_eq!((handler.runs(&id), handler.runs(&brief)), (1, 1));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_remembered_as_long_as_its_job_lives_however_short_the_window() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    producer.submit(own("first").idempotent_for(Duration::from_millis(1))).await.unwrap();
    assert_eq!(server.cmd(&["PTTL", RECORD]), redis::Value::Int(-1));
    assert_eq!(again(&queue).await, Some(State::Waiting));
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_payloads_without_a_key_stay_two_jobs() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let producer = Producer::new(queue.clone());
    let now = [producer.submit(job("same")).await.unwrap(), producer.submit(job("same")).await.unwrap()];
    let soon = || job("same").delay(Duration::from_millis(1));
    let later = [producer.submit(soon()).await.unwrap(), producer.submit(soon()).await.unwrap()];
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    until_empty(&queue).await;
    assert_eq!(now.iter().chain(&later).map(ToString::to_string).collect::<BTreeSet<_>>().len(), 4);
    assert_eq!((handler.jobs(), handler.all_runs()), (4, 4));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_with_an_id_is_resent_when_its_reply_was_lost() {
    for (delay, key) in [(None, STREAM), (Some(LONG), "sf:{default}:delayed")] {
        let scene = Scene::new().await;
        let producer = scene.producer().await;
        // Loads the script, so that the lost reply is the one to the actual call.
        producer.submit(job("first").id("warm-up".parse().unwrap()).delay(LONG)).await.unwrap();
        scene.proxy.set(Mode::drop_reply_to("precious", 1));
        let submission = own("precious");
        let submission = delay.map_or(submission.clone(), |delay| submission.delay(delay));
        let sent = producer.submit_or_find(submission).await.unwrap();
        assert_eq!((sent.id.to_string(), scene.proxy.hits()), ("order-7".to_owned(), 1));
        // The call created the job, however often it was sent.
        assert_eq!(sent.accepted, Accepted::New);
        let count = if delay.is_some() { ["ZCARD", key] } else { ["XLEN", key] };
        assert_eq!(scene.int(&count), if delay.is_some() { 2 } else { 1 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_producers_with_one_id_make_one_job() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let producer = Producer::new(queue.clone());
        producers.spawn(async move { producer.submit_or_find(own("{}")).await.unwrap().existing() });
    }
    let answers = producers.join_all().await;
    assert_eq!(answers.iter().filter(|existing| existing.is_none()).count(), 1);
    assert_eq!(server.cmd(&["XLEN", STREAM]), redis::Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_sent_twice_is_stored_once_and_each_job_has_its_answer() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone());
    let jobs = || (0..700).map(|nth| job("{}").id(format!("row-{nth}").parse().unwrap()));
    let mut answers = Vec::new();
    producer.submit_or_find_all(jobs().take(400), |more| answers.extend(more)).await.unwrap();
    assert!(answers.iter().all(|answer| answer.existing().is_none()));
    answers.clear();
    producer.submit_or_find_all(jobs(), |more| answers.extend(more)).await.unwrap();
    let known = answers.iter().map(|answer| answer.existing().is_some());
    assert!(known.eq((0..700).map(|nth| nth < 400)), "answers must come in the order of the jobs");
    assert_eq!(answers[699].id.to_string(), "row-699");
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 700);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_looks_like_an_entry_id_is_refused_before_sending() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let first = submit(&queue, "{}").await;
    let refused = Producer::new(queue.clone()).submit(job("{}").id(first)).await;
    assert!(matches!(refused, Err(SubmitError::DerivedId { .. })), "{refused:?}");
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_job_that_is_replayed_runs() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let past = streamfleet::job::Timestamp::from_ms(1_000).unwrap();
    let id = Producer::new(queue.clone()).submit(own("{}").expires_at(past)).await.unwrap();
    let handler = Acts::new(|_, _| Ok(Value::Null));
    let fleet = Running::start(&server.url(), quick(1), handler.clone());
    let status = until_state(&queue, &id, State::Dead).await;
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.text("dead_reason").as_str(), handler.runs(&id)), ("expired", 0));
    queue.dead_letters().replay(letter.entry, &id).await.unwrap();
    until_state(&queue, &id, State::Done).await;
    assert_eq!(handler.runs(&id), 1);
    fleet.stop().await;
}
