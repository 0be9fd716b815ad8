//! Calls standby workers if jobs wait that nobody has taken. Workers that wait on the streams do so themselves when
//! they find more than they can take. This is for jobs that they miss, because they died or are all busy.

use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use super::leader_view::LeaderView;

/// The longest time that an unnoticed job waits.
const EVERY: Duration = Duration::from_secs(1);

/// Calls until stopped.
pub(super) async fn run(context: Context, view: watch::Receiver<LeaderView>) {
    let mut chore = context.chore(EVERY).jitter(0.8..1.0).later();
    while chore.tick().await {
        // In a small fleet, every worker waits on the streams.
        let is_large = view.borrow().pacing.is_large();
        if is_large {
            chore.note(context.queue.call(0).await);
        }
    }
}
