//! A writer of the history without a database: it reads the ends of jobs from the journal, and deletes them there.

use std::time::{Duration, Instant};

use anyhow::Result;
use streamfleet::Queue;

/// The most bytes of the journal: more than the jobs of a round leave.
pub(super) const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// How long the writer waits for further ends.
const PAUSE: Duration = Duration::from_millis(1);

/// Empties the journal while jobs run, and then what is left of it. Returns how long the jobs took, and the rest.
pub(super) async fn empty_while(
    queue: &Queue,
    took: impl Future<Output = Result<Duration>>,
) -> Result<Duration> {
    let took = tokio::select! {
        took = took => took?,
        failed = empty_forever(queue) => return failed,
    };
    let begun = Instant::now();
    while empty(queue).await? > 0 {}
    Ok(took + begun.elapsed())
}

async fn empty_forever(queue: &Queue) -> Result<Duration> {
    loop {
        if empty(queue).await? == 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Deletes the oldest ends, and returns how many.
async fn empty(queue: &Queue) -> Result<usize> {
    let ends = queue.read_journal(None).await?;
    queue.forget_ends(&ends).await?;
    Ok(ends.len())
}
