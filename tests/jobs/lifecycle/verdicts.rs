//! A job that its handler drops.

use streamfleet::JobError;
use streamfleet::job::State;

use harness::fleet::{Acts, Running, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_dropped_by_its_handler_is_cancelled_with_the_reason() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|_, _| Err(JobError::drop_job("the order was withdrawn")));
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let job = submit(&queue, "{}").await;
    let status = until_state(&queue, &job, State::Cancelled).await;
    assert_eq!(status.error.as_deref(), Some("the order was withdrawn"));
    until_empty(&queue).await;
    assert_eq!((handler.runs(&job), queue.snapshot().await.unwrap().dead), (1, 0));
    fleet.stop().await;
}
