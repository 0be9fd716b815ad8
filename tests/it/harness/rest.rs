//! Counts the jobs that a queue has left.

use super::redis_server::RedisServer;

/// Counts everything at one moment: a job that is being promoted is in one place or the other.
const LEFT: &str = "local left = redis.call('ZCARD', KEYS[4])
    for at = 1, 3 do left = left + redis.call('XLEN', KEYS[at]) end
    return left";

/// Returns how many jobs of the queue `default` are waiting, running or delayed.
pub(crate) fn jobs_left(server: &RedisServer) -> u64 {
    let keys = ["jobs", "jobs:high", "jobs:low", "delayed"].map(|key| format!("sf:{{default}}:{key}"));
    let [normal, high, low, delayed] = keys.each_ref().map(String::as_str);
    redis::from_redis_value(server.cmd(&["EVAL", LEFT, "4", normal, high, low, delayed])).unwrap()
}
