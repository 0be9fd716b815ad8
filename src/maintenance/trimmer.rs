//! Drops dead letters that are older, or more, than the queue's limits allow: the oldest first, each by the script that
//! drops a letter by hand, which looks at the limits once more. So two processes that do it drop no letter that may stay,
//! and one that dies in the middle leaves no half of one.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::broker::{Error, Evicted};
use crate::event::Event;

/// How often it looks whether a letter has to go.
const EVERY: Duration = Duration::from_secs(30);

/// The pause between two lots.
const PAUSE: Duration = Duration::from_millis(250);

/// So many letters go at once, and are told of together.
const LOT: u64 = 1000;

/// So many letters are read at once. They are read whole, so few.
const PAGE: u64 = 20;

/// Trims until stopped; does nothing where all letters stay.
pub(super) async fn run(duty: Duty, stop: CancellationToken) {
    if duty.letters.keep_all() {
        return stop.cancelled().await;
    }
    loop {
        let mut letters = 0;
        let lot = lot(&duty, &mut letters, &stop).await;
        // Also what went before an error.
        if letters > 0 {
            duty.events.tell(&Event::Evicted { queue: duty.queue.name(), letters });
        }
        if let Err(error) = &lot {
            duty.events.redis_error(error.kind(), error);
        }
        let pause = if letters >= LOT && lot.is_ok() { PAUSE } else { EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(0.8 + 0.4 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Drops a lot of letters, counting them.
async fn lot(duty: &Duty, letters: &mut u64, stop: &CancellationToken) -> Result<(), Error> {
    // The first page is the oldest letter alone: usually it stays.
    let mut count = 1;
    loop {
        let page = duty.queue.dead_letters(None, count).await?;
        if page.is_empty() {
            return Ok(());
        }
        for letter in page {
            match duty.queue.evict(letter.entry, &letter.job(), duty.letters).await? {
                Evicted::Dropped => *letters += 1,
                // Somebody else was first, or has replayed it.
                Evicted::Gone => {}
                Evicted::Kept => return Ok(()),
            }
            if *letters >= LOT || stop.is_cancelled() {
                return Ok(());
            }
        }
        count = PAGE;
    }
}
