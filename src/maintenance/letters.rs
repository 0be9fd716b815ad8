//! Takes back what dead letters held that somebody deleted by hand: their places in their groups, the records of their jobs,
//! and the ids of these. The fleet has a list of its letters; a script checks each letter again, so two processes that do this
//! at once do no harm. Deletes the large fields of letters that are gone, once nobody can need them.

use std::time::Duration;

use super::Context;

/// The pause between two pages of the list, if no letter is known to be missing …
const EVERY: Duration = Duration::from_secs(30);

/// … and if some are.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks for such letters until stopped.
pub(super) async fn run(context: Context) {
    let (mut chore, mut from) = (context.chore(EVERY), None::<String>);
    while chore.tick().await {
        let dead = context.queue.dead_letters();
        let mut are_missing = false;
        if let Some(page) = chore.note(dead.forget_gone(from.as_deref()).await) {
            from = page.next;
            are_missing = from.is_some() && page.missing > page.forgotten;
        }
        if are_missing {
            chore.next_about(PAUSE);
        } else {
            chore.note(dead.discard_copied().await);
        }
    }
}
