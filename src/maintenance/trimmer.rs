//! Drops dead letters beyond the queue's limits of age and number, the oldest first. Each one is dropped by the script
//! that also drops letters by hand, which checks the limits again. So two processes that trim at once drop no letter
//! that may stay, and one that dies in the middle leaves no letter half dropped.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Context;
use crate::broker::{Error, Evicted};
use crate::event::Event;

/// How often the trimmer checks whether a letter has to go.
const EVERY: Duration = Duration::from_secs(30);

/// The pause between two lots.
const PAUSE: Duration = Duration::from_millis(250);

/// The number of letters that are dropped in one go, and reported together.
const BATCH: u64 = 1000;

/// The number of letters that are read at once. It is small because they are read whole.
const PAGE: u64 = 20;

/// Trims until stopped; does nothing if all letters are kept.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    if context.letters.keep_all() {
        return stop.cancelled().await;
    }
    loop {
        let mut letters = 0;
        let batch = batch(&context, &mut letters, &stop).await;
        // Includes what was dropped before an error.
        if letters > 0 {
            context.events.emit(&Event::Evicted { queue: context.queue.name(), letters });
        }
        if let Err(error) = &batch {
            context.events.redis_error(error.kind(), error);
        }
        let pause = if letters >= BATCH && batch.is_ok() { PAUSE } else { EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(0.8 + 0.4 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Drops a lot of letters, and counts them.
async fn batch(context: &Context, letters: &mut u64, stop: &CancellationToken) -> Result<(), Error> {
    // The first page is the oldest letter alone, because it usually stays.
    let mut count = 1;
    loop {
        let page = context.queue.dead_letters().page(None, count).await?;
        if page.is_empty() {
            return Ok(());
        }
        for letter in page {
            match context.queue.dead_letters().evict(letter.entry, &letter.job(), context.letters).await? {
                Evicted::Dropped => *letters += 1,
                // Somebody else was first, or has replayed it.
                Evicted::Gone => {}
                Evicted::Kept => return Ok(()),
            }
            if *letters >= BATCH || stop.is_cancelled() {
                return Ok(());
            }
        }
        count = PAGE;
    }
}
