//! TLS on a cluster and behind a sentinel: to every server, including one that a failover makes the primary.

use std::time::Duration;

use redis::Value;
use streamfleet::{Broker, Producer, Queue, Submission};

use super::{redis as address, tls};
use harness::certificates::{Authority, Valid};
use harness::fleet::{Acts, Running, config, quick};
use harness::redis_server::{RedisServer, free_port};
use harness::sentinel::{SERVICE, Sentinel};
use harness::tls_server::{TlsServer, arguments, speaks_tls};
use harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(60);

/// A fleet over TLS, with a client certificate.
struct Scene {
    fleet: Running,
    handler: Acts,
    queue: Queue,
}

impl Scene {
    async fn start(url: &str, authority: &Authority) -> Self {
        let client = authority.issue("client", &["worker"], Valid::Now);
        let mut config = config("");
        config.redis = address(url, tls(authority, Some(&client)));
        let broker =
            until_async("a connection", SOON, async || Broker::connect(config.redis.clone()).await.ok())
                .await;
        let handler = Acts::well();
        let fleet = Running::start_with(config, quick(3), handler.clone());
        Self { fleet, handler, queue: broker.queue("default".parse().unwrap()) }
    }

    /// Submits jobs until one of them has run: a failover may refuse or lose what is submitted during it.
    async fn works(&self) {
        let producer = Producer::new(self.queue.clone());
        let mut submitted = Vec::new();
        until_async("a job to run", SOON, async || {
            submitted.extend(producer.submit(Submission::new("test").unwrap()).await.ok());
            submitted.iter().any(|job| self.handler.runs(job) > 0)
        })
        .await;
    }
}

fn text(value: Value) -> String {
    redis::from_redis_value(value).unwrap()
}

/// Returns true if the server's INFO has this line. A server that changes its role and disconnects its clients yields false.
fn info(server: &RedisServer, line: &str) -> bool {
    let reply = server.try_cmd(&["INFO", "replication"]);
    reply.is_ok_and(|reply| text(reply).lines().any(|found| found.trim_end() == line))
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_on_a_cluster_and_after_its_failover() {
    if !speaks_tls() {
        return;
    }
    let authority = Authority::new("test");
    let certified = authority.server();
    let clustered = [
        "--cluster-enabled",
        "yes",
        "--tls-cluster",
        "yes",
        "--tls-replication",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let [master, replica] = [0, 1].map(|_| TlsServer::start_with(&certified, &authority, "yes", &clustered));
    master.server.cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    replica.server.cmd(&["CLUSTER", "MEET", "127.0.0.1", &master.port.to_string()]);
    let id = text(master.server.cmd(&["CLUSTER", "MYID"]));
    until("the replica to be one", SOON, || {
        // It does not know the master yet, or is already its replica.
        drop(replica.server.try_cmd(&["CLUSTER", "REPLICATE", id.trim()]));
        info(&replica.server, "role:slave")
    });
    until("the replica to follow", SOON, || info(&replica.server, "master_link_status:up"));
    let url = format!("rediss-cluster://127.0.0.1:{}?node=127.0.0.1:{}", master.port, replica.port);
    let scene = Scene::start(&url, &authority).await;
    scene.works().await;
    replica.server.cmd(&["CLUSTER", "FAILOVER"]);
    until("the replica to be the master", SOON, || info(&replica.server, "role:master"));
    scene.works().await;
    master.server.kill9();
    scene.works().await;
    scene.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_behind_a_sentinel_and_after_its_failover() {
    if !speaks_tls() {
        return;
    }
    let authority = Authority::new("test");
    let certified = authority.server();
    let quick =
        ["--tls-replication", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    let primary = TlsServer::start_with(&certified, &authority, "yes", &quick);
    let follow = format!("127.0.0.1 {}", primary.port);
    let replica = [&quick[..], &["--replicaof", &follow]].concat();
    let replica = TlsServer::start_with(&certified, &authority, "yes", &replica);
    until("the replica to follow", SOON, || info(&replica.server, "master_link_status:up"));
    // The sentinel speaks TLS with all servers, and plain TCP on a port for the test.
    let port = free_port();
    let tls = arguments(port, &certified, &authority.file(), "yes");
    let tls = tls.chunks_exact(2).map(|pair| format!("{} {}", pair[0].trim_start_matches('-'), pair[1]));
    let tls: Vec<_> = tls.chain(["tls-replication yes".to_owned()]).collect();
    let sentinel = Sentinel::start(primary.port, None, &tls);
    // Otherwise it would choose a replica that it cannot talk to yet.
    until("the sentinel to talk to the replica", SOON, || {
        sentinel.replica_fact("master-link-status") == "ok"
    });
    let url = format!("rediss-sentinel://127.0.0.1:{port}/0?sentinelServiceName={SERVICE}");
    let scene = Scene::start(&url, &authority).await;
    scene.works().await;
    sentinel.fail_over();
    until("the replica to be the primary", SOON, || info(&replica.server, "role:master"));
    scene.works().await;
    scene.fleet.stop().await;
}
