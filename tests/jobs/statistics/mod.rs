//! What happened in a queue lately: what workers count, the samples of the leader, the statistics of types.

mod by_type;
mod counts;
mod refused;
mod samples;

use streamfleet_engine::admin::Sample;

use harness::redis_server::RedisServer;

const COUNTS: &str = "sf:{default}:counts";
const SAMPLES: &str = "sf:{default}:samples";

/// Returns a count that waits for the next sample.
fn counted(server: &RedisServer, name: &str) -> u64 {
    redis::from_redis_value::<Option<u64>>(server.cmd(&["HGET", COUNTS, name])).unwrap().unwrap_or(0)
}

/// Returns the sum of a count over samples.
fn sum(samples: &[Sample], count: fn(&Sample) -> u64) -> u64 {
    samples.iter().map(count).sum()
}
