//! Success, failure, retry, burial and replay.

use std::time::Duration;

use serde_json::Value;
use streamfleet::JobError;
use streamfleet::job::State;

use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_job_that_succeeds_leaves_nothing() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let job = submit(&queue, "{}").await;
    until_async("the job to run", Duration::from_secs(10), async || handler.runs(&job) == 1).await;
    until_empty(&queue).await;
    assert_eq!(queue.status(&job).await.unwrap(), None);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_xadd_is_a_job() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "payload", "{}"]);
    until_async("the job to run", Duration::from_secs(10), async || handler.all_runs() == 1).await;
    until_empty(&queue).await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_twice_succeeds_at_the_third_attempt() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler =
        Acts::new(
            |context, _| {
                if context.attempt() < 3 { Err(JobError::retry("not yet")) } else { Ok(Value::from(42)) }
            },
        );
    let fleet = Running::start(&server.url(), quick(5), handler.clone());
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Done).await;
    let outcomes: Vec<_> = status.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["error", "error", "done"]);
    assert_eq!(status.result.as_deref(), Some("42"));
    assert_eq!(handler.runs(&job), 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_job_is_buried_and_can_be_replayed_with_xadd() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, _| match context.header("works") {
        Some(_) => Ok(Value::Null),
        None => Err(JobError::retry("no")),
    });
    let fleet = Running::start(&server.url(), quick(2), handler.clone());
    let job = submit(&queue, "{\"a\":1}").await;
    let status = until_state(&queue, &job, State::Dead).await;
    assert_eq!(handler.runs(&job), 2);
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (letter.text("dead_reason"), letter.text("payload")),
        ("exhausted".into(), "{\"a\":1}".into())
    );
    let mut xadd = vec!["XADD".to_owned(), "sf:{default}:jobs".to_owned(), "*".to_owned()];
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    xadd.extend(letter.fields.fields().flat_map(|(name, value)| [text(name), text(value)]));
    xadd.extend(["h.works".to_owned(), "yes".to_owned()]);
    server.cmd(&xadd.iter().map(String::as_str).collect::<Vec<_>>());
    until_state(&queue, &job, State::Done).await;
    assert_eq!(handler.runs(&job), 3);
    fleet.stop().await;
}
