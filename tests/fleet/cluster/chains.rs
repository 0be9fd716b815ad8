//! Chains between queues on different servers: a chain goes on when the server of its next queue is back, and no job is submitted twice.

use std::collections::BTreeMap;
use std::time::Duration;

use streamfleet::job::ChainedJob;
use streamfleet::{Broker, Producer, Submission};

use super::account::{Notes, config, worker};
use harness::cluster::Cluster;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(5);
const CHAINS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn chains_wait_for_the_server_of_their_next_queue_and_each_job_is_accepted_once() {
    let cluster = Cluster::start(Duration::from_secs(60));
    let (names, notes) = (cluster.queues(), Notes::default());
    let broker = Broker::connect(config(&cluster, &names, LEASE).redis).await.unwrap();
    let fleets = [worker(&cluster, &names, LEASE, &notes), worker(&cluster, &names, LEASE, &notes)];
    for name in &names {
        let warm = Submission::new("test").unwrap().id(format!("{name}-warm").parse().unwrap());
        Producer::new(broker.queue(name.parse().unwrap())).submit(warm).await.unwrap();
    }
    until_async("all queues to be served", SOON, async || names.iter().all(|name| notes.has_served(name)))
        .await;
    // The server of the first queue is away: what ends in the second one must wait.
    cluster.masters[0].freeze();
    let test = "test".parse().unwrap();
    let next =
        |nth: usize| ChainedJob::new(&test, Some(nth.to_string())).unwrap().queue(&names[0].parse().unwrap());
    let producer = Producer::new(broker.queue(names[1].parse().unwrap()));
    for _ in 0..CHAINS {
        let job = Submission::new("test").unwrap().then(&[next(0)]).unwrap();
        producer.submit(job).await.unwrap();
    }
    let ran = |queue: &str| -> BTreeMap<String, usize> { notes.with_prefix(queue) };
    let source = broker.queue(names[1].parse().unwrap());
    // Only a job that a worker has read is running or delayed.
    until_async("the hand-overs to be tried", SOON, async || {
        let snapshot = source.snapshot().await;
        snapshot
            .is_ok_and(|now| now.delayed > 0 && now.waiting() + now.running() + now.delayed == CHAINS as u64)
    })
    .await;
    assert!(ran(&format!("{}.", names[1])).is_empty());
    cluster.masters[0].thaw();
    until_async("the chains to end", SOON, async || {
        let snapshot = source.snapshot().await;
        let at_rest =
            snapshot.is_ok_and(|snapshot| snapshot.waiting() + snapshot.running() + snapshot.delayed == 0);
        at_rest && ran(&format!("{}.", names[1])).len() >= CHAINS
    })
    .await;
    for fleet in fleets {
        fleet.stop().await;
    }
    let ran = ran(&format!("{}.", names[1]));
    assert_eq!((ran.len(), ran.values().sum::<usize>()), (CHAINS, CHAINS), "{ran:?}");
}
