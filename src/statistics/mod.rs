//! What this process counts for charts, and how it reaches Redis.
//!
//! ```text
//!  Event ─► Counter (in memory) ─► Reporter, every 10 s ─► tally.lua ─► the leader's samples, statistics of types
//! ```
//!
//! Counting takes a few atomic additions per job and no memory that grows. A process that is killed takes what it has not
//! reported with it: the counts are for charts, not for accounts.

mod counter;
mod reporter;

use std::time::Duration;

pub(crate) use counter::Counter;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::broker::Queue;
use crate::event::Events;
use reporter::Reporter;

/// How long the last report gets when the process stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports what is counted about these queues until stopped, and then what is left.
pub(crate) fn start(
    counter: &Counter,
    queues: Vec<Queue>,
    events: &Events,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for queue in queues {
        let reporter = Reporter::new(queue, counter.clone(), events.clone());
        tasks.spawn(reporter.run(stop.clone()));
    }
    tasks
}
