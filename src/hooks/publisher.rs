//! Writes notifications to the `events` streams, in batches, at most a few times per second. It never insists: what
//! Redis does not take is dropped and counted, and after an error it pauses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::NotificationReceiver;
use super::notification::Notification;
use crate::batcher::{BatchLimits, finish};
use crate::broker::{Broker, Error};
use crate::event::{Event, Events, Recipient, ReportEvent};
use crate::job::{QueueName, jittered};

/// What is sent together, over all queues. A flood is published no more often.
const LIMITS: BatchLimits =
    BatchLimits { most: 2000, linger: Duration::from_millis(250), lingers_full: true };

/// The most events that one script appends.
const SCRIPT: usize = 500;

/// The first and the longest pause after errors.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long the last batch gets when the process stops.
const LAST_PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Publishes notifications.
pub(super) struct Publisher {
    pub(super) broker: Broker,
    pub(super) max_length: u64,
    pub(super) events: Events,
}

impl Publisher {
    /// Publishes until stopped, and then what is still waiting. What is not taken in time is lost with the process, and not counted.
    pub(super) async fn run(self, mut receiver: NotificationReceiver, stop: CancellationToken) {
        finish(self.publish_all(&mut receiver, &stop), (&stop, LAST_PUBLISH_TIMEOUT)).await;
    }

    async fn publish_all(&self, receiver: &mut NotificationReceiver, stop: &CancellationToken) {
        let mut pause = PAUSES.0;
        loop {
            let batch = receiver.batch(LIMITS, stop).await;
            self.note_dropped(receiver.dropped.take());
            if batch.is_empty() {
                return;
            }
            if self.publish(&batch).await {
                pause = PAUSES.0;
                continue;
            }
            let paused = tokio::time::sleep(jittered(pause, 0.5..1.5, rand::random()));
            if stop.run_until_cancelled(paused).await.is_none() {
                continue;
            }
            pause = (2 * pause).min(PAUSES.1);
            // The time of an event is the time of its entry, so what is old by now would have the wrong time.
            self.note_dropped(receiver.discard());
        }
    }

    /// Publishes a batch. Returns false if Redis did not take all of it.
    async fn publish(&self, batch: &[Arc<Notification>]) -> bool {
        let mut queues: BTreeMap<&QueueName, Vec<&Notification>> = BTreeMap::new();
        for notification in batch {
            queues.entry(notification.queue()).or_default().push(notification);
        }
        let scripts = queues.iter().flat_map(|(queue, notifications)| {
            notifications.chunks(SCRIPT).map(|notifications| (*queue, notifications))
        });
        let sent = join_all(scripts.map(|(queue, notifications)| self.send(queue, notifications))).await;
        sent.into_iter().all(|sent| sent.is_ok())
    }

    async fn send(&self, queue: &QueueName, notifications: &[&Notification]) -> Result<(), Error> {
        let events: Vec<_> = notifications.iter().map(|notification| notification.fields()).collect();
        let sent = self.broker.queue(queue.clone()).events().publish(self.max_length, &events).await;
        let notifications = notifications.len() as u64;
        match &sent {
            Ok(()) => self.events.emit(&Event::Report(ReportEvent::Published { events: notifications })),
            Err(error) => {
                self.events.redis_error(error.kind(), error);
                self.note_dropped(notifications);
            }
        }
        sent
    }

    fn note_dropped(&self, notifications: u64) {
        if notifications > 0 {
            self.events.emit(&Event::Report(ReportEvent::NotificationsDropped {
                recipient: Recipient::Stream,
                notifications,
            }));
        }
    }
}
