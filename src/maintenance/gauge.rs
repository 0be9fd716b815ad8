//! Tells how long the queue is, by a timer: also while nothing moves in it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Duty;
use crate::event::Event;

/// Tells until stopped.
pub(super) async fn run(duty: Duty, stop: CancellationToken) {
    loop {
        match duty.queue.depths().await {
            Ok(depths) => duty.events.tell(&Event::QueueLength {
                queue: duty.queue.name(),
                waiting: depths.waiting(),
                running: depths.running(),
                delayed: depths.delayed,
                dead: depths.dead,
                oldest_waiting: depths.oldest_waiting(),
            }),
            Err(error) => duty.events.redis_error(error.kind(), &error),
        }
        tokio::select! {
            () = tokio::time::sleep(spread(duty.gauge_every, rand::random())) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Queues whose leaders began together are not asked about together for ever.
fn spread(every: Duration, roll: f64) -> Duration {
    every.mul_f64(0.9 + 0.2 * roll)
}
