//! The progress of an audit. It also tells the load how many jobs are waiting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::bulk::Bulk;
use super::register::Register;
use super::report::grouped;
use super::worker::Program;
use harness::redis_server::RedisServer;
use harness::wait::pause_for;

const EVERY: Duration = Duration::from_secs(1);

/// Counts everything at one moment: a job that is being promoted is in one place or the other.
const LEFT: &str = "local left = redis.call('ZCARD', KEYS[4]) + redis.call('HLEN', KEYS[6])
    for at = 1, 3 do left = left + redis.call('XLEN', KEYS[at]) end
    return left";
const DEAD: &str = "return redis.call('XLEN', KEYS[5])";
/// How many jobs hold a place in the gate of a type.
const HELD: &str = "return redis.call('HLEN', KEYS[7])";

/// The progress of an audit.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub elapsed: Duration,
    submitted: u64,
    jobs: u64,
    /// How many jobs are waiting, running or delayed; `None` if Redis is away.
    left: Option<u64>,
    dead: Option<u64>,
    faults: usize,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elapsed, submitted, jobs, left, dead, faults } = self;
        let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
        let [submitted, jobs] = [submitted, jobs].map(|count| grouped(*count));
        let [left, dead] = [left, dead].map(|count| count.map_or_else(|| "?".to_owned(), grouped));
        write!(
            f,
            "{minutes:>3}:{seconds:02}  {submitted} of {jobs} submitted, {left} left, {dead} dead letters, {faults} faults"
        )
    }
}

/// What to watch.
pub(crate) struct Watched {
    pub server: Arc<RedisServer>,
    pub register: Arc<Register>,
    pub bulk: Arc<Bulk>,
    pub jobs: u64,
    pub waiting: Arc<AtomicU64>,
    pub struck: Arc<AtomicUsize>,
}

impl Watched {
    /// Reports every second until it is asked to stop.
    pub(crate) fn watch(&self, stop: &AtomicBool, mut tell: impl FnMut(&Progress)) {
        let started = Instant::now();
        let mut next = started;
        while !stop.load(Ordering::SeqCst) {
            pause_for(Duration::from_millis(100));
            self.check_gate();
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + EVERY;
            let left = self.left();
            self.waiting.store(left.unwrap_or(0), Ordering::SeqCst);
            tell(&Progress {
                elapsed: started.elapsed(),
                submitted: self.register.accepted() + self.bulk.submitted(),
                jobs: self.jobs,
                left,
                dead: self.count(DEAD),
                faults: self.struck.load(Ordering::SeqCst),
            });
        }
    }

    /// Returns how many jobs are waiting, running or delayed; `None` if Redis is away.
    pub(crate) fn left(&self) -> Option<u64> {
        self.count(LEFT)
    }

    /// Complains if more jobs hold places in a gate than it allows.
    fn check_gate(&self) {
        let held = self.count(HELD).unwrap_or(0);
        if held > u64::from(Program::MAX_GATED) {
            self.register.complain(format!("{held} jobs hold places in a gate for {}", Program::MAX_GATED));
        }
    }

    fn count(&self, script: &str) -> Option<u64> {
        let names = ["jobs", "jobs:high", "jobs:low", "delayed", "dead", "rooms:places", "held:type:gated"];
        let keys = names.map(|key| format!("sf:{{default}}:{key}"));
        let command: Vec<&str> =
            ["EVAL", script, "7"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        redis::from_redis_value(self.server.try_cmd(&command).ok()?).ok()
    }
}
