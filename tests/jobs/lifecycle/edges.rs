//! Jobs at the limits of what is allowed, and damaged queues.

use std::time::Duration;

use streamfleet::job::State;
use streamfleet::{JobError, Producer, Submission};

use harness::fleet::{Acts, Running, queue, quick, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_the_most_fields_allowed_is_retried_normally() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|_, _| Err(JobError::retry("no")));
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    let mut xadd = vec!["XADD".to_owned(), "sf:{default}:jobs".to_owned(), "*".to_owned()];
    xadd.extend(["type", "test", "id", "wide"].map(str::to_owned));
    xadd.extend((0..998).flat_map(|nth| [format!("field-{nth}"), nth.to_string()]));
    server.cmd(&xadd.iter().map(String::as_str).collect::<Vec<_>>());
    let job = "wide".parse().unwrap();
    let status = until_state(&queue, &job, State::Dead).await;
    assert_eq!(handler.runs(&job), 3);
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    assert_eq!((letter.text("dead_reason"), letter.text("field-997")), ("exhausted".into(), "997".into()));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_lane_does_not_duplicate_jobs_of_another_lane() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::well();
    let fleet = Running::start(&server.url(), quick(3), handler.clone());
    until_async("a leader", Duration::from_secs(10), async || {
        server.cmd(&["EXISTS", "sf:{default}:leader"]) == redis::Value::Int(1)
    })
    .await;
    server.cmd(&["DEL", "sf:{default}:jobs:low"]);
    server.cmd(&["SET", "sf:{default}:jobs:low", "not a stream"]);
    let producer = Producer::new(queue.clone());
    let due = |lane| Submission::new("test").unwrap().lane(lane).delay(Duration::from_millis(50));
    let normal = producer.submit(due(streamfleet::job::Lane::Normal)).await.unwrap();
    let low = producer.submit(due(streamfleet::job::Lane::Low)).await.unwrap();
    // The promoter moves one job, and postpones the other because its lane does not accept it.
    until_async("the normal job to be moved", Duration::from_secs(10), async || {
        server.cmd(&["ZCARD", "sf:{default}:delayed"]) == redis::Value::Int(1)
    })
    .await;
    server.cmd(&["DEL", "sf:{default}:jobs:low"]);
    until_async("the low job to run", Duration::from_secs(40), async || handler.runs(&low) > 0).await;
    until_empty(&queue).await;
    assert_eq!((handler.runs(&normal), handler.runs(&low)), (1, 1));
    fleet.stop().await;
}
