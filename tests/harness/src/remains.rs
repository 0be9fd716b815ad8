//! What is left in Redis when a storm is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::checker::Facts;
use crate::redis_server::RedisServer;
use crate::rest::jobs_left;
use crate::wait::until;

const STREAMS: [&str; 3] = ["sf:{default}:jobs", "sf:{default}:jobs:high", "sf:{default}:jobs:low"];
const DEAD: &str = "sf:{default}:dead";
const GROUPS: &str = "sf:{default}:dead:groups";
const LIST: &str = "sf:{default}:dead:letters";
const COPIED: &str = "sf:{default}:dead:offloaded";
const DELAYED: &str = "sf:{default}:delayed";
const RECORD: &str = "sf:{default}:job:";
const WORKER: &str = "sf:worker:";

fn int(server: &RedisServer, command: &[&str]) -> u64 {
    redis::from_redis_value(server.cmd(command)).unwrap()
}

fn in_streams(server: &RedisServer) -> u64 {
    STREAMS.iter().map(|stream| int(server, &["XLEN", stream])).sum()
}

/// A killed worker's consumer is removed within this time, together with its receipts: by a check every 4 to 6 seconds, after
/// ten seconds without a heartbeat.
const REAPED: Duration = Duration::from_secs(30);

/// Waits until nothing is waiting, running or delayed, or until the deadline.
pub fn until_no_job_is_left(server: &RedisServer, deadline: Duration) {
    let started = Instant::now();
    until("no job to be left, or the deadline", 2 * deadline, || {
        jobs_left(server) == 0 || started.elapsed() > deadline
    });
}

/// Waits until all jobs have ended and their temporary records are gone. If that does not happen in time, the checker reports
/// what is left.
pub fn until_at_rest(server: &RedisServer, deadline: Duration) {
    until_no_job_is_left(server, deadline);
    let (started, deadline) = (Instant::now(), deadline.max(REAPED));
    until("records and receipts to expire, or the deadline", 2 * deadline, || {
        let dead = letters(server);
        keys(server).iter().all(|key| is_allowed(key, &dead)) || started.elapsed() > deadline
    });
}

/// Returns the facts for the checker.
pub fn facts(server: &RedisServer) -> Facts {
    let pending = |stream: &&str| -> u64 {
        let summary: Vec<redis::Value> =
            redis::from_redis_value(server.cmd(&["XPENDING", stream, "fleet"])).unwrap();
        redis::from_redis_value(summary[0].clone()).unwrap()
    };
    Facts {
        dead: letters(server),
        cancelled: BTreeSet::new(),
        entries: in_streams(server),
        pending: STREAMS.iter().map(pending).sum(),
        delayed: int(server, &["ZCARD", DELAYED]),
        keys: keys(server),
    }
}

/// Whether a key may be left: the streams, the fleet's shared state, live workers, dead letters and their records.
pub fn is_allowed(key: &str, dead: &BTreeMap<String, usize>) -> bool {
    let charts = ["sf:{default}:counts", "sf:{default}:samples"];
    let fleet =
        ["sf:{default}:control", "sf:{default}:leader", "sf:{default}:events", DEAD, GROUPS, LIST, COPIED];
    STREAMS.contains(&key)
        || fleet.contains(&key)
        // What workers have counted expires within a day.
        || charts.contains(&key)
        || key.starts_with("sf:{default}:types:")
        || key.starts_with(WORKER)
        // The receipts of a producer's calls expire within a minute.
        || key.starts_with("sf:{default}:receipt:")
        || key.strip_prefix(RECORD).is_some_and(|job| dead.contains_key(job))
}

/// Returns the workers' keys that never expire.
pub fn immortal_workers(server: &RedisServer) -> Vec<String> {
    let workers = keys(server).into_iter().filter(|key| key.starts_with(WORKER));
    let pttl = |key: &String| redis::from_redis_value::<i64>(server.cmd(&["PTTL", key])).unwrap();
    workers.filter(|key| pttl(key) == -1).collect()
}

fn keys(server: &RedisServer) -> Vec<String> {
    redis::from_redis_value(server.cmd(&["KEYS", "*"])).unwrap()
}

/// Returns the number of dead letters by job id.
fn letters(server: &RedisServer) -> BTreeMap<String, usize> {
    type Letters = Vec<(String, Vec<(String, String)>)>;
    let letters: Letters = redis::from_redis_value(server.cmd(&["XRANGE", DEAD, "-", "+"])).unwrap();
    let mut counts = BTreeMap::new();
    for (_entry, fields) in letters {
        let id = fields.into_iter().find(|(name, _)| name == "id").map(|(_, id)| id);
        *counts.entry(id.expect("a dead job has its id")).or_default() += 1;
    }
    counts
}
