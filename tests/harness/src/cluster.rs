//! Redis Clusters: one of two servers, and one of three masters that have a replica each.

use std::net::SocketAddr;
use std::time::Duration;

use redis::{Value, from_redis_value};

use super::redis_server::{Aof, RedisServer};
use super::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// Starts two servers that share the slots. Each continues if the other one does not answer.
pub fn two_servers() -> [RedisServer; 2] {
    two_servers_with(&[])
}

/// Starts two servers that share the slots, with more arguments.
pub fn two_servers_with(more: &[&str]) -> [RedisServer; 2] {
    let go_on = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "120000"];
    let servers = [0, 1].map(|_| {
        let args = [&["--cluster-enabled", "yes"], &go_on[..], more].concat();
        RedisServer::builder().args(&args).start()
    });
    servers[0].cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    servers[1].cmd(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    servers[0].cmd(&["CLUSTER", "MEET", "127.0.0.1", &servers[1].port().to_string()]);
    for server in &servers {
        until("the servers to know each other", SOON, || {
            let slots: Vec<Value> = from_redis_value(server.cmd(&["CLUSTER", "SLOTS"])).unwrap();
            slots.len() == 2 && info_of_cluster(server).contains("cluster_state:ok")
        });
    }
    servers
}

/// Returns the name of a queue whose keys are on the first or the second of two servers.
pub fn queue_on(server: &RedisServer, first: bool) -> String {
    queue_in(server, if first { 0..8192 } else { 8192..16384 })
}

/// Returns the name of a queue whose slot is one of these.
fn queue_in(server: &RedisServer, slots: std::ops::Range<u16>) -> String {
    let names = (0..).map(|nth| format!("q{nth}"));
    names.into_iter().find(|name| slots.contains(&slot(server, name))).expect("there are enough names")
}

/// Returns the slot of a queue's keys.
pub fn slot(server: &RedisServer, queue: &str) -> u16 {
    from_redis_value(server.cmd(&["CLUSTER", "KEYSLOT", &format!("{{{queue}}}")])).unwrap()
}

/// Returns the address of a cluster with these known nodes.
pub fn url(first: SocketAddr, second: SocketAddr) -> String {
    format!("redis-cluster://{first}?node={second}")
}

/// Three masters that share the slots evenly, with a replica each.
pub struct Cluster {
    pub masters: Vec<RedisServer>,
    pub replicas: Vec<RedisServer>,
}

/// The timeout of nodes in milliseconds until all know each other: they tell each other news at intervals that depend on it.
const MEETING: &str = "2000";

/// The first slots of the three masters, and the end of the last range.
const BOUNDS: [u16; 4] = [0, 5461, 10_923, 16_384];

impl Cluster {
    /// Starts a cluster. A master counts as dead after this timeout. Slots without a master stop only their own queues.
    pub fn start(node_timeout: Duration) -> Self {
        let args = [
            ["--cluster-enabled", "yes"],
            ["--cluster-node-timeout", MEETING],
            ["--cluster-replica-no-failover", "yes"],
            ["--cluster-require-full-coverage", "no"],
            ["--repl-diskless-sync-delay", "0"],
            ["--repl-ping-replica-period", "1"],
        ]
        .concat();
        let server = |_| RedisServer::builder().aof(Aof::Always).args(&args).start();
        let cluster = Self { masters: (0..3).map(server).collect(), replicas: (0..3).map(server).collect() };
        cluster.join();
        let timeout = node_timeout.as_millis().to_string();
        for server in cluster.all() {
            server.cmd(&["CONFIG", "SET", "cluster-node-timeout", &timeout]);
            server.cmd(&["CONFIG", "SET", "cluster-replica-no-failover", "no"]);
        }
        cluster
    }

    fn join(&self) {
        for (nth, master) in self.masters.iter().enumerate() {
            let (first, last) = (BOUNDS[nth], BOUNDS[nth + 1] - 1);
            master.cmd(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            master.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &(nth + 1).to_string()]);
        }
        // Each meets each, so that none has to hear of another.
        let all: Vec<&RedisServer> = self.all().collect();
        for (nth, server) in all.iter().enumerate() {
            for other in &all[..nth] {
                server.cmd(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
            }
        }
        for (master, replica) in self.masters.iter().zip(&self.replicas) {
            let id = id(master);
            until("a replica to know its master", SOON, || {
                matches!(replica.try_cmd(&["CLUSTER", "REPLICATE", &id]), Ok(Value::Okay))
            });
        }
        for replica in &self.replicas {
            until("a replica to have all data of its master", SOON, || {
                info(replica, "replication").contains("master_link_status:up")
            });
        }
        for server in self.all() {
            until("every server to know all slots and replicas", SOON, || {
                let ok = info_of_cluster(server).contains("cluster_state:ok");
                let slots: Vec<Vec<Value>> = from_redis_value(server.cmd(&["CLUSTER", "SLOTS"])).unwrap();
                ok && slots.len() == 3 && slots.iter().all(|range| range.len() == 4)
            });
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &RedisServer> {
        self.masters.iter().chain(&self.replicas)
    }

    /// Returns the address with all masters.
    pub fn url(&self) -> String {
        let [first, second, third] = [0, 1, 2].map(|nth| self.masters[nth].addr());
        format!("redis-cluster://{first}?node={second}&node={third}")
    }

    /// Returns the names of three queues, one on each master.
    pub fn queues(&self) -> [String; 3] {
        [0, 1, 2].map(|nth| queue_in(&self.masters[0], BOUNDS[nth]..BOUNDS[nth + 1]))
    }

    /// Whether the first master's replica has taken over.
    pub fn has_taken_over(&self) -> bool {
        info(&self.replicas[0], "replication").contains("role:master")
    }

    /// Begins to move a queue's slot from the first master to the second. From now on keys may be on either.
    pub fn begin_move(&self, queue: &str) -> Move<'_> {
        let slot = slot(&self.masters[0], queue).to_string();
        let (from, to) = (&self.masters[0], &self.masters[1]);
        assert_eq!(to.cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]), Value::Okay);
        assert_eq!(from.cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]), Value::Okay);
        Move { cluster: self, slot }
    }
}

/// A slot on its way from the first master to the second.
pub struct Move<'a> {
    cluster: &'a Cluster,
    slot: String,
}

impl Move<'_> {
    /// Moves at most this many of the keys and returns how many it moved.
    pub fn keys(&self, most: usize) -> usize {
        let (from, to) = (&self.cluster.masters[0], &self.cluster.masters[1]);
        let keys = from.cmd(&["CLUSTER", "GETKEYSINSLOT", &self.slot, &most.to_string()]);
        let keys: Vec<String> = from_redis_value(keys).unwrap();
        for key in &keys {
            let port = to.port().to_string();
            let moved = from.cmd(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            assert!(matches!(moved, Value::Okay | Value::SimpleString(_)), "{key}: {moved:?}");
        }
        keys.len()
    }

    /// Moves the rest, and tells all masters.
    pub fn finish(self) {
        // Keys may still be created until the slot is no longer served.
        let to = id(&self.cluster.masters[1]);
        let target = &self.cluster.masters[1];
        while self.keys(100) > 0 {}
        for server in std::iter::once(target).chain(&self.cluster.masters) {
            let answer = server.cmd(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &to]);
            assert_eq!(answer, Value::Okay);
        }
    }
}

fn id(server: &RedisServer) -> String {
    from_redis_value(server.cmd(&["CLUSTER", "MYID"])).unwrap()
}

fn info(server: &RedisServer, section: &str) -> String {
    from_redis_value(server.cmd(&["INFO", section])).unwrap()
}

fn info_of_cluster(server: &RedisServer) -> String {
    from_redis_value(server.cmd(&["CLUSTER", "INFO"])).unwrap()
}
