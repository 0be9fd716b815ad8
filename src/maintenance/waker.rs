//! Calls workers that stand by where jobs wait that nobody has taken. Those who wait on the streams do so themselves when
//! they find more than they can take; this is for what they miss, because they died or are all busy.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Duty;
use super::leader::LeaderView;

/// A job that nobody noticed waits so long at most.
const EVERY: Duration = Duration::from_secs(1);

/// Calls until stopped.
pub(super) async fn run(duty: Duty, told: watch::Receiver<LeaderView>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.8 + 0.2 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
        // In a small fleet everybody waits on the streams.
        let is_large = told.borrow().pacing.is_large();
        if is_large && let Err(error) = duty.queue.call(0).await {
            duty.events.redis_error(error.kind(), &error);
        }
    }
}
