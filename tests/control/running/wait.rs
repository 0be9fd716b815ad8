//! Waiting for a job's end from Rust.

use std::time::{Duration, Instant};

use streamfleet::job::{Encoding, State};
use streamfleet::{JobError, Producer, Submission, WaitError};

use harness::fleet::{Acts, Running, queue, quick};
use harness::redis_server::RedisServer;

const SOON: Duration = Duration::from_secs(20);

fn submission(payload: &str) -> Submission {
    Submission::new("test").unwrap().payload(payload.to_owned(), Encoding::Raw).unwrap()
}

/// Returns its payload, or fails if the payload says so.
fn echo() -> Acts {
    Acts::new(|_, payload| match payload {
        b"fail" => Err(JobError::fatal("as told")),
        payload => Ok(String::from_utf8_lossy(payload).into_owned().into()),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_result_soon_after_the_end() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let fleet = Running::start(&server.url(), quick(3), echo());
    // The first job may arrive before the fleet has started.
    producer.submit_and_wait(submission("warm"), SOON).await.unwrap();
    let begun = Instant::now();
    let ended = producer.submit_and_wait(submission("hello"), SOON).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((ended.state, ended.value::<String>().unwrap().as_str()), (State::Done, "hello"));
    let ended = producer.submit_and_wait(submission("fail"), SOON).await.unwrap();
    assert_eq!((ended.state, ended.error.as_deref(), ended.result), (State::Dead, Some("as told"), None));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_times_out_reports_the_jobs_state() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let waited = producer.submit_and_wait(submission("x"), Duration::from_millis(50)).await;
    let Err(WaitError::TimedOut { job, state, .. }) = waited else { panic!("{waited:?}") };
    assert_eq!(state, Some(State::Waiting));
    let fleet = Running::start(&server.url(), quick(3), echo());
    let ended = producer.wait(&job, SOON).await.unwrap();
    assert_eq!((ended.job, ended.state), (job, State::Done));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_follows_a_job_submitted_earlier_under_the_same_id() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let fleet = Running::start(&server.url(), quick(3), echo());
    for payload in ["first", "second"] {
        let named = submission(payload).id("mine".parse().unwrap());
        let ended = producer.submit_and_wait(named, SOON).await.unwrap();
        assert_eq!(ended.value::<String>().unwrap(), "first");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_survives_a_redis_outage() {
    let server = RedisServer::start();
    let producer = Producer::new(queue(&server).await);
    let job = producer
        .submit(submission("x").tracking(streamfleet::job::Tracking::All).id("mine".parse().unwrap()))
        .await
        .unwrap();
    let waiting = tokio::task::spawn({
        let (producer, job) = (producer.clone(), job.clone());
        async move { producer.wait(&job, 2 * SOON).await }
    });
    server.stop_gracefully();
    server.restart();
    let fleet = Running::start(&server.url(), quick(3), echo());
    // Whether the first job survived the restart does not matter here: it is submitted once more.
    let another = Producer::new(queue(&server).await);
    another.submit(submission("x").id("mine".parse().unwrap())).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().state, State::Done);
    fleet.stop().await;
}
