//! Takes back what dead letters held that somebody deleted by hand: their places in their groups, the records of their jobs,
//! and the ids of these. The fleet has a list of its letters; a script checks each letter again, so two processes that do this
//! at once do no harm. Deletes the large fields of letters that are gone, once nobody can need them.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Context;

/// The pause between two pages of the list, if no letter is known to be missing …
const EVERY: Duration = Duration::from_secs(30);

/// … and if some are.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks for such letters until stopped.
pub(super) async fn run(context: Context, stop: CancellationToken) {
    let mut from: Option<String> = None;
    loop {
        let mut pause = EVERY;
        let dead = context.queue.dead_letters();
        match dead.forget_gone(from.as_deref()).await {
            Ok(page) => {
                from = page.next;
                if from.is_some() && page.missing > page.forgotten {
                    pause = PAUSE;
                }
            }
            Err(error) => context.events.redis_error(error.kind(), &error),
        }
        if pause == EVERY
            && let Err(error) = dead.discard_copied().await
        {
            context.events.redis_error(error.kind(), &error);
        }
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(0.8 + 0.4 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
    }
}
