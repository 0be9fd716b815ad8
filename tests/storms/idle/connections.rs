//! How many connections a process opens, as documented in docs/scale.md.

use std::time::Duration;

use streamfleet::Fleet;
use streamfleet::worker::QueueConfig;

use harness::alone::alone;
use harness::cluster::{queue_on, two_servers, url};
use harness::fleet::{Acts, Running, config};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);

/// Returns the number of connections to a server, without the one that asks.
fn connections(server: &RedisServer) -> usize {
    let info: String = redis::cmd("INFO").arg("clients").query(&mut server.client()).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:")).unwrap();
    line.trim().parse::<usize>().unwrap() - 1
}

/// Starts a worker of these queues, which leads all of them, and waits until it has this many connections to all servers
/// together, and at least this many to each.
async fn opens(url: &str, servers: &[RedisServer], slots: &[(&str, usize)], (all, each): (usize, usize)) {
    let mut config = config(url);
    let queue = |(name, concurrency): &(&str, usize)| {
        (name.parse().unwrap(), QueueConfig::default().concurrency(*concurrency))
    };
    config.worker.queues = slots.iter().map(queue).collect();
    let worker = Running::of(Fleet::builder(config).handler_for("test", Acts::well()).unwrap().build());
    let opened = async || {
        let open: Vec<_> = servers.iter().map(connections).collect();
        open.iter().sum::<usize>() == all && open.iter().all(|open| *open >= each)
    };
    until_async(&format!("{all} connections for {slots:?}"), SOON, opened).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_opens_as_many_connections_as_documented() {
    let _alone = alone();
    let cases: [(&[(&str, usize)], usize); 3] =
        [(&[("mail", 1)], 2 + 3), (&[("mail", 64)], 2 + 4), (&[("mail", 64), ("reports", 4)], 2 + 4 + 3)];
    for (slots, want) in cases {
        let server = [RedisServer::start()];
        opens(&server[0].url(), &server, slots, (want, want)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster_a_queue_has_connections_only_to_its_own_server() {
    let _alone = alone();
    let servers = two_servers();
    let url = url(servers[0].addr(), servers[1].addr());
    let names = [queue_on(&servers[0], true), queue_on(&servers[0], false)];
    let slots: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    // The worker sends its heartbeats to one of the two servers, over its own connection.
    opens(&url, &servers, &slots[..1], (5 + 1, 0)).await;
    opens(&url, &servers, &slots, (2 * 5 + 1, 5)).await;
}
