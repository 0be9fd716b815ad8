//! Notifies hooks of a queue's length at regular intervals, even while nothing moves in it. The stream and the metrics
//! get the same from the queue's leader.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::channel::NotificationSender;
use super::notification::{Notification, QueueLength};
use crate::broker::{Depths, Queue};
use crate::event::Events;

/// Notifies the hooks behind these senders until stopped.
pub(super) async fn run(
    queue: Queue,
    every: Duration,
    hooks: Arc<[NotificationSender]>,
    events: Events,
    stop: CancellationToken,
) {
    loop {
        match queue.depths().await {
            Ok(depths) => {
                for unread in &depths.unread {
                    let error = unread.to_error("depths");
                    events.redis_error(error.kind(), &error);
                }
                let notification = Arc::new(Notification::QueueLength(length(&queue, &depths)));
                hooks.iter().for_each(|hook| hook.offer(Arc::clone(&notification)));
            }
            Err(error) => events.redis_error(error.kind(), &error),
        }
        tokio::select! {
            () = tokio::time::sleep(every.mul_f64(0.9 + 0.2 * rand::random::<f64>())) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn length(queue: &Queue, depths: &Depths) -> QueueLength {
    QueueLength {
        queue: queue.name().clone(),
        waiting: depths.waiting(),
        running: depths.running(),
        delayed: depths.delayed,
        dead: depths.dead,
        oldest_waiting: depths.oldest_waiting(),
    }
}
