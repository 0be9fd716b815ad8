//! What Redis itself says about the jobs of a queue. Asking it is cheaper than starting a program, so tests that wait ask it.

use super::redis_server::RedisServer;

/// Counts everything at one moment: a job that is being promoted is in one place or the other.
const LEFT: &str = "local left = redis.call('ZCARD', KEYS[4]) + redis.call('HLEN', KEYS[5])
    for at = 1, 3 do left = left + redis.call('XLEN', KEYS[at]) end
    return left";

/// Returns how many jobs of the queue `default` are waiting, running or delayed.
pub fn jobs_left(server: &RedisServer) -> u64 {
    let keys = ["jobs", "jobs:high", "jobs:low", "delayed", "rooms:places"];
    let keys = keys.map(|key| format!("sf:{{default}}:{key}"));
    let [normal, high, low, delayed, places] = keys.each_ref().map(String::as_str);
    let count = ["EVAL", LEFT, "5", normal, high, low, delayed, places];
    redis::from_redis_value(server.cmd(&count)).unwrap()
}

/// Returns the state in the record of a job of the queue `default`, if it has one.
pub fn state_of(server: &RedisServer, job: &str) -> Option<String> {
    redis::from_redis_value(server.cmd(&["HGET", &format!("sf:{{default}}:job:{job}"), "state"])).unwrap()
}
