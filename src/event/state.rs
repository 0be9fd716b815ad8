//! What a queue's leader learns about it, once per interval.

use std::time::Duration;

/// A queue's state at one moment, by the clock of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct QueueState {
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// Delayed jobs that are due within a minute.
    pub due_soon: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest waiting job has been in its stream.
    pub oldest_waiting: Option<Duration>,
    /// By how much the most overdue delayed job is overdue.
    pub overdue: Duration,
    /// The longest silence of an entry that a worker holds.
    pub oldest_pending: Duration,
    /// The age of the oldest dead letter.
    pub oldest_dead: Duration,
    /// By how much the most overdue recurring job is overdue.
    pub cron_overdue: Duration,
    /// Entries ever added to each lane, in the order of [`Lane::ALL`](crate::job::Lane::ALL).
    pub added: [u64; 3],
    /// Members of the group that have recently read or renewed something.
    pub live: u64,
    /// Members that have not.
    pub stale: u64,
    /// What Redis reports about its memory, if it does.
    pub memory: Option<RedisMemory>,
    /// How long the survey took.
    pub took: Duration,
}

/// What Redis reports about its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RedisMemory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes allowed; 0 for no limit.
    pub max: u64,
    /// Whether Redis refuses what does not fit, and deletes nothing to make room.
    pub is_eviction_safe: bool,
}
