//! A bounded channel to one recipient. A notification that finds it full is dropped and counted: the sender never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::notification::Notification;

/// The sending end.
pub(super) struct NotificationSender {
    notifications: mpsc::Sender<Arc<Notification>>,
    dropped: Arc<AtomicU64>,
}

/// The receiving end.
pub(super) struct NotificationReceiver {
    pub(super) notifications: mpsc::Receiver<Arc<Notification>>,
    dropped: Arc<AtomicU64>,
}

/// Creates a channel for at most `capacity` notifications.
pub(super) fn channel(capacity: usize) -> (NotificationSender, NotificationReceiver) {
    let (sender, receiver) = mpsc::channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    (
        NotificationSender { notifications: sender, dropped: Arc::clone(&dropped) },
        NotificationReceiver { notifications: receiver, dropped },
    )
}

impl NotificationSender {
    /// Passes a notification on if there is room.
    pub(super) fn offer(&self, notification: Arc<Notification>) {
        if self.notifications.try_send(notification).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl NotificationReceiver {
    /// Returns how many notifications were dropped since the last call.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Discards all waiting notifications, and returns how many there were.
    pub(super) fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        while self.notifications.try_recv().is_ok() {
            discarded += 1;
        }
        discarded
    }
}
