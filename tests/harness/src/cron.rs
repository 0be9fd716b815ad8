//! Recurring jobs, and their state in Redis.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::cron::{Entry, Missed, Schedule};
use streamfleet::job::{CronName, Timestamp};

use crate::redis_server::RedisServer;

/// The key of the states of recurring jobs.
pub const STATES: &str = "sf:{default}:cron:ticks";

/// Returns a recurring job of the type `test` in UTC.
pub fn entry(name: &str, expression: &str) -> Entry {
    Entry::new(name, Schedule::new(expression, "UTC").unwrap(), "test").unwrap()
}

/// Returns a recurring job with a tick each second, which submits all missed ticks.
pub fn each_second(name: &str) -> Entry {
    entry(name, "* * * * * *").when_missed(Missed::All)
}

pub fn named(name: &str) -> CronName {
    name.parse().unwrap()
}

/// Sets an entry back, as if no process had handled it since then.
pub async fn set_back(server: &RedisServer, queue: &Queue, name: &str, by: Duration) -> Timestamp {
    let now = queue.cron().table().await.unwrap().now;
    let then = now.as_ms() - u64::try_from(by.as_millis()).unwrap();
    let state: String = redis::from_redis_value(server.cmd(&["HGET", STATES, name])).unwrap();
    let rest = state.split_once(' ').unwrap().1;
    server.cmd(&["HSET", STATES, name, &format!("{then} {rest}")]);
    Timestamp::from_ms(then).unwrap()
}
