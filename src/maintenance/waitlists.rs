//! Lets waiting jobs out of waiting lists. A worker whose job ends does so at once for the gates of that job. The leader does it for
//! all others: when a rate allows more, somebody has opened a gate or changed a limit, or the process that held places died.

use std::time::Duration;

use super::Context;
use crate::broker::{Error, MAX_WAITLISTS};
use crate::event::QueueEvent;
use crate::job::{FairShare, Parking};

/// The pause between two passes while jobs wait, unless a rate allows the next job sooner …
const EVERY: Duration = Duration::from_millis(250);

/// … but no shorter than this.
const LEAST: Duration = Duration::from_millis(5);

/// The pause while no job waits.
const IDLE: Duration = Duration::from_secs(1);

/// The most pages of a hundred waiting lists of one pass. The next pass continues from there.
const PAGES: usize = 20;

/// The most scripts in a row for the same waiting lists, so that those with very many jobs do not hold up the others.
const SCRIPTS: usize = 100;

/// Lets jobs out until stopped.
pub(super) async fn run(context: Context) {
    let (mut chore, mut cursor) = (context.chore(IDLE).jitter(0.5..1.5), "0".to_owned());
    while chore.tick().await {
        match chore.note(pass(&context, &mut cursor).await) {
            Some(pause) => chore.next_in(pause),
            None => cursor = "0".to_owned(),
        }
    }
}

/// Looks at the waiting lists from the cursor on. Returns when to do so again.
async fn pass(context: &Context, cursor: &mut String) -> Result<Duration, Error> {
    let mut again = IDLE;
    for _ in 0..PAGES {
        let page = context.queue.gates().waitlists_page(cursor).await?;
        // What waits for a worker that knows its type waits for no gate.
        let waitlists =
            page.waitlists.into_iter().filter(|waitlist| Parking::unknown_type(&waitlist.name).is_none());
        let names = waitlists.map(|waitlist| waitlist.name);
        let (fair, gates): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with(FairShare::WAITLIST));
        for waitlists in gates.chunks(MAX_WAITLISTS) {
            again = again.min(drain(context, waitlists).await?);
        }
        for waitlists in fair.chunks(MAX_WAITLISTS) {
            again = again.min(empty_unshared(context, waitlists).await?);
        }
        let is_last = page.next.is_none();
        *cursor = page.next.unwrap_or_else(|| "0".to_owned());
        if is_last || context.stop.is_cancelled() {
            break;
        }
    }
    Ok(again)
}

/// Lets out of these waiting lists all that their gates let pass now. Returns when they may let pass more.
async fn drain(context: &Context, waitlists: &[String]) -> Result<Duration, Error> {
    // Each waiting list comes first now and then: the first one may have more jobs than one script lets out, and may keep
    // it from all others if Redis refuses to move many of them.
    let mut waitlists = waitlists.to_vec();
    let first = rand::random_range(0..waitlists.len());
    waitlists.rotate_left(first);
    for _ in 0..SCRIPTS {
        let drained = context.queue.drain(&[], &waitlists).await?;
        if drained.left > 0 {
            context.events.of_queue(context.queue.name(), QueueEvent::LeftWaitlists { jobs: drained.left });
        }
        if let Some(error) = &drained.failed {
            context.events.redis_error(error.kind(), error);
        }
        if !drained.more || drained.left == 0 || context.stop.is_cancelled() {
            return Ok(drained.next_in.unwrap_or(EVERY).clamp(LEAST, EVERY));
        }
        waitlists.rotate_left(1);
    }
    Ok(LEAST)
}

/// Lets jobs out of these waiting lists if the queue is not shared any more. If it is, workers let them out in turn. Returns when to do
/// so again.
async fn empty_unshared(context: &Context, waitlists: &[String]) -> Result<Duration, Error> {
    for _ in 0..SCRIPTS {
        let shared = match context.queue.share(None, waitlists).await {
            // A ring of another type keeps no gate from letting jobs out.
            Err(error) if !error.is_transient() => {
                context.events.redis_error(error.kind(), &error);
                return Ok(IDLE);
            }
            shared => shared?,
        };
        if shared.left > 0 {
            context.events.of_queue(context.queue.name(), QueueEvent::LeftWaitlists { jobs: shared.left });
        }
        if let Some(error) = &shared.failed {
            context.events.redis_error(error.kind(), error);
        }
        if !shared.more || shared.left == 0 || context.stop.is_cancelled() {
            return Ok(IDLE);
        }
    }
    Ok(LEAST)
}
