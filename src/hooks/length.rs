//! Notifies hooks of a queue's length at regular intervals, even while nothing moves in it. The stream and the metrics
//! get the same from the queue's leader.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::NotificationSender;
use super::notification::{Notification, QueueLength};
use crate::broker::{Extras, Queue, QueueSnapshot};
use crate::chore::Chore;
use crate::event::Events;

/// Notifies the hooks behind these senders until stopped.
pub(super) async fn run(
    queue: Queue,
    every: Duration,
    hooks: Arc<[NotificationSender]>,
    events: Events,
    stop: CancellationToken,
) {
    let extras = Extras { oldest: true, ..Extras::default() };
    let mut chore = Chore::every(every, &events, &stop).jitter(0.9..1.1);
    while chore.tick().await {
        let Some(snapshot) = chore.note(queue.snapshot_with(extras).await) else { continue };
        for unread in &snapshot.unread {
            let error = unread.to_error("snapshot");
            events.redis_error(error.kind(), &error);
        }
        let notification = Arc::new(Notification::QueueLength(length(&queue, &snapshot)));
        hooks.iter().for_each(|hook| hook.offer(Arc::clone(&notification)));
    }
}

fn length(queue: &Queue, snapshot: &QueueSnapshot) -> QueueLength {
    QueueLength {
        queue: queue.name().clone(),
        waiting: snapshot.waiting(),
        running: snapshot.running(),
        delayed: snapshot.delayed,
        dead: snapshot.dead,
        oldest_waiting: snapshot.oldest_waiting(),
    }
}
