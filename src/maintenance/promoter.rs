//! Moves due jobs from the delayed set to their lanes. It sleeps until the next one is due, and is woken when an earlier
//! one arrives.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::broker::{Error, Link, Promoted, Role};
use crate::event::Event;

/// The most jobs that one script moves: it runs for well under a millisecond per hundred.
const BATCH: u32 = 500;

/// The longest sleep. Jobs that arrive meanwhile wake us, so this only bounds the damage of a lost wake-up.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// After an error.
const PAUSE: Duration = Duration::from_millis(500);

/// Promotes until stopped.
pub(super) async fn run(duty: Duty, stop: CancellationToken) {
    let mut waker = None;
    while !stop.is_cancelled() {
        let passed = pass(&duty, &mut waker, &stop).await;
        if let Err(error) = passed {
            duty.events.tell(&Event::RedisError { kind: error.kind(), error: &error.to_string() });
            tokio::select! {
                () = tokio::time::sleep(PAUSE.mul_f64(0.5 + rand::random::<f64>())) => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

async fn pass(duty: &Duty, waker: &mut Option<Link>, stop: &CancellationToken) -> Result<(), Error> {
    let promoted = duty.queue.promote(BATCH).await?;
    tell(duty, promoted);
    if promoted.moved >= u64::from(BATCH) {
        return Ok(());
    }
    let sleep = promoted.next_in.map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP));
    // Blocking commands round short waits up, so those are slept through here.
    if sleep < Duration::from_millis(20) {
        tokio::time::sleep(sleep).await;
        return Ok(());
    }
    let link = match waker {
        Some(link) => link.clone(),
        None => waker.insert(duty.broker.open(Role::Blocking).await?).clone(),
    };
    let asked = Instant::now();
    let nudged = duty.queue.await_nudge(&link, sleep);
    let mut nudged = std::pin::pin!(nudged);
    loop {
        tokio::select! {
            biased;
            result = &mut nudged => return result.map(drop),
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(Duration::from_secs(2)) => {
                if asked.elapsed() > sleep + Duration::from_secs(3) {
                    // A nudge carries nothing, so a dropped one costs only the sleep it would have ended.
                    *waker = None;
                    return Ok(());
                }
            }
        }
    }
}

fn tell(duty: &Duty, promoted: Promoted) {
    if promoted.moved > 0 {
        let queue = duty.queue.name();
        duty.events.tell(&Event::Promoted { queue, jobs: promoted.moved, late: promoted.late });
    }
}
