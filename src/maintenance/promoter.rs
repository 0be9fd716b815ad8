//! Moves due jobs from the delayed set to their lanes. It sleeps until the next job is due, and is nudged when an
//! earlier one arrives. (Redis ends blocking waits up to a tenth of a second late, so the process sleeps instead.)

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Context;
use crate::broker::{Error, Promoted};
use crate::event::QueueEvent;
use crate::nudges::Nudges;

/// The most jobs that one script moves. That takes Redis one to three milliseconds.
const BATCH: u32 = 400;

/// The number of scripts in flight while many small jobs are due, so that none waits for a round trip.
const AHEAD: usize = 2;

/// The longest sleep. Jobs that arrive meanwhile wake the promoter, so this only bounds the damage of a lost wake-up.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The pause after an error, on average.
const PAUSE: Duration = Duration::from_millis(500);

/// Promotes until stopped.
pub(super) async fn run(context: Context) {
    let nudged = Arc::new(Notify::new());
    let mut listening = JoinSet::new();
    let (notify, stop, nudges) =
        (Arc::clone(&nudged), context.stop.clone(), Nudges::Promoter(context.queue.clone()));
    let listen = async move { nudges.listen(&notify, &stop).await };
    listening.spawn(context.liveness.watch(format!("the promoter of {}", context.queue.name()), listen));
    let (mut chore, mut ahead) = (context.chore(PAUSE).jitter(0.5..1.5), 1);
    while chore.tick_or(nudged.notified()).await {
        let Some(promoted) = chore.note(promote(&context, ahead).await) else { continue };
        // Large jobs go one script at a time, so that others get their turn in between.
        ahead = if promoted.more && promoted.moved >= u64::from(BATCH) { AHEAD } else { 1 };
        let sleep = promoted.next_in.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        chore.next_in(if promoted.more { Duration::ZERO } else { sleep });
    }
    // A nudge carries nothing, so the blocked read may be dropped.
    listening.shutdown().await;
}

/// Runs this many scripts, sent together, and reports what they did. Returns the answer of the last one.
async fn promote(context: &Context, scripts: usize) -> Result<Promoted, Error> {
    let all = (0..scripts).map(|_| context.queue.promote(BATCH));
    let all = futures_util::future::join_all(all).await;
    for promoted in all.iter().flatten() {
        context.events.of_queue(context.queue.name(), QueueEvent::PromoterPolled);
        emit(context, *promoted);
    }
    let all: Result<Vec<Promoted>, Error> = all.into_iter().collect();
    all?.pop().ok_or_else(|| Error::contract("promote", "nothing, since nothing was sent"))
}

fn emit(context: &Context, promoted: Promoted) {
    if promoted.moved > 0 {
        let queue = context.queue.name();
        context.events.of_queue(queue, QueueEvent::Promoted { jobs: promoted.moved, late: promoted.late });
    }
}
