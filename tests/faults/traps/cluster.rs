//! A Redis Cluster: each queue's keys are on one server, and queues may be on different servers.

use std::time::Duration;

use streamfleet::Broker;
use streamfleet::worker::QueueConfig;

use harness::cluster::{queue_on, two_servers, url};
use harness::fleet::{Acts, Running, config, quick, submit, until_empty};
use harness::scene::SOON;
use harness::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn queues_on_every_server_of_a_cluster_are_served() {
    let [one, other] = two_servers();
    let names = [queue_on(&one, true), queue_on(&one, false)];
    let mut config = config(&url(one.addr(), other.addr()));
    config.worker.queues = names.iter().map(|name| (name.parse().unwrap(), QueueConfig::default())).collect();
    let broker = until_async("the cluster's state is known", SOON, async || {
        Broker::connect(config.redis.clone()).await.ok()
    })
    .await;
    let handler = Acts::new(|context, _| match context.attempt() {
        1 => Err(streamfleet::JobError::retry("once more")),
        _ => Ok(serde_json::Value::Null),
    });
    let fleet = Running::start_with(config, quick(3), handler.clone());
    for name in &names {
        let queue = broker.queue(name.parse().unwrap());
        let job = submit(&queue, "{}").await;
        until_async("two runs", SOON, async || handler.runs(&job) == 2).await;
        until_empty(&queue).await;
    }
    tokio::time::timeout(Duration::from_secs(20), fleet.stop()).await.unwrap();
}
