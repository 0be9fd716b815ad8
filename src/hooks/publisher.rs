//! Writes notifications to the `events` streams, in batches, at most a few times per second. It never insists: what
//! Redis does not take is dropped and counted, and after an error it pauses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::channel::NotificationReceiver;
use super::notification::Notification;
use crate::broker::{Broker, Error};
use crate::event::{Event, Events, Recipient};
use crate::job::QueueName;

/// How long notifications are collected before they are sent.
const GATHER: Duration = Duration::from_millis(250);

/// The most notifications in one batch, over all queues.
const BATCH: usize = 2000;

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
    /// Publishes until stopped, and then what is still waiting.
    pub(super) async fn run(self, mut receiver: NotificationReceiver, stop: CancellationToken) {
        let mut pause = PAUSES.0;
        let mut batch = Vec::new();
        loop {
            let open = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                count = receiver.notifications.recv_many(&mut batch, BATCH) => count > 0,
            };
            if !open {
                break;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(GATHER) => {}
            }
            if self.publish(&mut batch, &mut receiver).await {
                pause = PAUSES.0;
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())) => {}
            }
            pause = (2 * pause).min(PAUSES.1);
            // The time of an event is the time of its entry, so what is old by now would have the wrong time.
            self.note_dropped(receiver.discard());
        }
        // What is not taken in time is lost with the process, and not counted.
        drop(tokio::time::timeout(LAST_PUBLISH_TIMEOUT, self.publish(&mut batch, &mut receiver)).await);
    }

    /// Publishes what is waiting. Returns false if Redis did not take all of it.
    async fn publish(&self, batch: &mut Vec<Arc<Notification>>, receiver: &mut NotificationReceiver) -> bool {
        while batch.len() < BATCH {
            match receiver.notifications.try_recv() {
                Ok(notification) => batch.push(notification),
                Err(_) => break,
            }
        }
        self.note_dropped(receiver.dropped());
        let mut queues: BTreeMap<&QueueName, Vec<&Notification>> = BTreeMap::new();
        for notification in batch.iter() {
            queues.entry(notification.queue()).or_default().push(notification);
        }
        let scripts = queues.iter().flat_map(|(queue, notifications)| {
            notifications.chunks(SCRIPT).map(|notifications| (*queue, notifications))
        });
        let sent = join_all(scripts.map(|(queue, notifications)| self.send(queue, notifications))).await;
        batch.clear();
        sent.into_iter().all(|sent| sent.is_ok())
    }

    async fn send(&self, queue: &QueueName, notifications: &[&Notification]) -> Result<(), Error> {
        let events: Vec<_> = notifications.iter().map(|notification| notification.fields()).collect();
        let sent = self.broker.queue(queue.clone()).events().publish(self.max_length, &events).await;
        let notifications = notifications.len() as u64;
        match &sent {
            Ok(()) => self.events.emit(&Event::Published { events: notifications }),
            Err(error) => {
                self.events.redis_error(error.kind(), error);
                self.note_dropped(notifications);
            }
        }
        sent
    }

    fn note_dropped(&self, notifications: u64) {
        if notifications > 0 {
            self.events.emit(&Event::NotificationsDropped { recipient: Recipient::Stream, notifications });
        }
    }
}
