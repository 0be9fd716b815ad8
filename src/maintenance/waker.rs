//! Calls standby workers if jobs wait that nobody has taken. Workers that wait on the streams do so themselves when
//! they find more than they can take. This is for jobs that they miss, because they died or are all busy.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::leader_view::LeaderView;

/// The longest time that an unnoticed job waits.
const EVERY: Duration = Duration::from_secs(1);

/// Calls until stopped.
pub(super) async fn run(context: Context, view: watch::Receiver<LeaderView>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.8 + 0.2 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
        // In a small fleet, every worker waits on the streams.
        let is_large = view.borrow().pacing.is_large();
        if is_large && let Err(error) = context.queue.call(0).await {
            context.events.redis_error(error.kind(), &error);
        }
    }
}
