//! What the process that does a queue's chores finds out about it, once per interval.

use std::time::Duration;

/// A queue's state at one moment, by the clock of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueState {
    /// Jobs that nobody has taken.
    pub waiting: u64,
    /// Jobs that a worker has.
    pub running: u64,
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// Those of them that are due within a minute.
    pub due_soon: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest waiting job has been in its stream.
    pub oldest_waiting: Option<Duration>,
    /// By how much the most overdue delayed job is overdue.
    pub overdue: Duration,
    /// The longest silence of an entry that a worker has.
    pub oldest_pending: Duration,
    /// The age of the oldest dead letter.
    pub oldest_dead: Duration,
    /// By how much the most overdue recurring job is overdue.
    pub cron_overdue: Duration,
    /// Entries ever added to each lane, in the order of [`Lane::ALL`](crate::job::Lane::ALL).
    pub added: [u64; 3],
    /// Members of the group that have read or renewed something lately.
    pub live: u64,
    /// Members that have not.
    pub stale: u64,
    /// What Redis says of its memory, where it says something.
    pub memory: Option<RedisMemory>,
    /// How long it took to find this out.
    pub took: Duration,
}

/// What Redis says of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RedisMemory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes allowed; 0 for no bound.
    pub max: u64,
    /// Whether it refuses what has no room, and deletes nothing for it.
    pub is_eviction_safe: bool,
}
