//! Full queues and oversized payloads: such calls are refused whole with a clear error, and nothing is ever trimmed.

use streamfleet::{Producer, SubmitError};

use super::ids::again;
use harness::fleet::{Acts, Running, config, queue, quick, submit};
use harness::redis_server::RedisServer;
use harness::scene::{LONG, SOON, job};
use harness::wait::until_async;

fn is_full<T: std::fmt::Debug>(answer: Result<T, SubmitError>) -> bool {
    matches!(answer, Err(SubmitError::Full { depth: 3, limit: 3 }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_new_jobs_whole_and_loses_none() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone()).max_depth(3);
    producer.submit(super::ids::own("{}")).await.unwrap();
    producer.submit(job("{}").lane(streamfleet::job::Lane::High)).await.unwrap();
    let refused = producer.submit_all([job("{}"), job("{}")]).await;
    assert!(matches!(refused, Err(SubmitError::Full { depth: 2, limit: 3 })), "{refused:?}");
    producer.submit(job("{}").delay(LONG)).await.unwrap();
    assert!(is_full(producer.submit(job("{}")).await));
    assert!(is_full(producer.submit(job("{}").delay(LONG)).await));
    assert!(is_full(producer.submit(job("{}").id("new".parse().unwrap())).await));
    // A known job needs no room.
    assert!(producer.submit_or_find(super::ids::own("{}")).await.unwrap().existing().is_some());
    let snapshot = queue.snapshot().await.unwrap();
    assert_eq!((snapshot.waiting(), snapshot.delayed), (2, 1));
    assert_eq!(again(&queue).await, Some(streamfleet::job::State::Waiting), "another producer has no limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_depth_limit_applies_to_every_producer() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let start = |max_depth| {
        let mut config = config(&server.url());
        for queue in config.worker.queues.values_mut() {
            queue.max_depth = max_depth;
        }
        Running::start_with(config, quick(1), Acts::well())
    };
    let agreed = async |want: Option<&str>| {
        until_async("the workers to agree on the limit", SOON, async || {
            let command = redis::cmd("HGET").arg(&["sf:{default}:control", "max_depth"]).to_owned();
            let found: Option<String> = command.query(&mut server.client()).unwrap();
            found.as_deref() == want
        })
        .await;
    };
    let fleet = start(Some(3));
    agreed(Some("3")).await;
    fleet.stop().await;
    for _ in 0..3 {
        submit(&queue, "{}").await;
    }
    let producer = Producer::new(queue.clone());
    assert!(is_full(producer.submit(job("{}")).await));
    assert!(is_full(producer.clone().max_depth(10).submit(job("{}")).await), "the lower limit applies");
    let fleet = start(None);
    agreed(None).await;
    producer.submit(job("{}")).await.unwrap();
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_over_the_producers_limit_is_refused_before_sending() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let producer = Producer::new(queue.clone()).max_payload(10);
    producer.submit(job("0123456789")).await.unwrap();
    let refused = producer.submit_all([job("fits"), job("0123456789a")]).await;
    assert!(matches!(refused, Err(SubmitError::TooLarge { bytes: 11, limit: 10 })), "{refused:?}");
    assert_eq!(queue.snapshot().await.unwrap().waiting(), 1);
}
