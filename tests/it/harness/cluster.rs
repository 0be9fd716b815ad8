//! A Redis Cluster of two servers.

use std::net::SocketAddr;
use std::time::Duration;

use super::redis_server::RedisServer;
use super::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// Two servers that share the slots, and go on where the other one does not answer.
pub(crate) fn two_servers() -> [RedisServer; 2] {
    let go_on = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "120000"];
    let servers = [0, 1].map(|_| {
        let args = [&["--cluster-enabled", "yes"], &go_on[..]].concat();
        RedisServer::builder().args(&args).start()
    });
    servers[0].cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    servers[1].cmd(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    servers[0].cmd(&["CLUSTER", "MEET", "127.0.0.1", &servers[1].port().to_string()]);
    for server in &servers {
        until("the servers know each other", SOON, || {
            let slots: Vec<redis::Value> =
                redis::from_redis_value(server.cmd(&["CLUSTER", "SLOTS"])).unwrap();
            let info: String = redis::from_redis_value(server.cmd(&["CLUSTER", "INFO"])).unwrap();
            slots.len() == 2 && info.contains("cluster_state:ok")
        });
    }
    servers
}

/// A name of a queue whose keys are on the first of two servers, or on the second.
pub(crate) fn queue_on(server: &RedisServer, first: bool) -> String {
    let names = (0..).map(|nth| format!("q{nth}"));
    let slot = |name: &str| -> u64 {
        redis::from_redis_value(server.cmd(&["CLUSTER", "KEYSLOT", &format!("{{{name}}}")])).unwrap()
    };
    names.into_iter().find(|name| (slot(name) < 8192) == first).expect("there are names enough")
}

/// The address of a cluster of which these are known.
pub(crate) fn url(first: SocketAddr, second: SocketAddr) -> String {
    format!("redis-cluster://{first}?node={second}")
}
