//! Notifications about jobs: for [`Hook`]s in this process, and for everybody else through the stream `events`. Nothing
//! here can change what happens to a job, or delay one.
//!
//! ```text
//!  Event ─► Dispatch ──► NotificationSender ─► Invoker ─► a thread ─► Hook
//!                   └──► NotificationSender ─► Publisher ─► sf:{q}:events
//! ```
//!
//! An [`Event`](crate::event::Event) that concerns a recipient becomes a `Notification` and goes to a sender, the end
//! of a bounded queue. If the queue is full, the notification is dropped and counted. At the other end, one task
//! per hook makes the calls, with a time limit, and one task publishes in batches. If nobody listens, there are no
//! notifications and no queues.

mod dispatch;
mod hook;
mod invoker;
mod length;
mod notification;
mod publisher;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batcher::{Batcher, LossySender};

pub(crate) use dispatch::Dispatch;
pub(crate) use hook::ErasedHook;
pub use hook::{Hook, HookError};
use notification::Notification;
pub use notification::{About, AfterHandle, BeforeHandle, FailedHandle, QueueLength, RetryHandle};

/// The ends of the queue of one recipient.
type NotificationSender = LossySender<Arc<Notification>>;
type NotificationReceiver = Batcher<Arc<Notification>>;

/// How long all recipients together get when the process stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Which notifications are sent, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// What goes to the stream `events` of each queue.
    pub publish: Publish,
    /// The approximate number of events to keep in each stream; at least 1.
    pub max_length: u64,
    /// How often the lengths of queues are reported, whether or not jobs run.
    pub queue_length_every: Duration,
    /// How long one call of a hook may take before it is abandoned.
    pub hook_timeout: Duration,
}

impl Config {
    setters! {
        /// Sets what goes to the stream `events` of each queue; by default, [`Publish::Failures`].
        publish: Publish;
        /// Sets how many events each stream keeps, approximately: at least 1, by default 10,000.
        max_length: u64;
        /// Sets how often the lengths of queues are reported: more than zero, by default every 10 s.
        queue_length_every: Duration;
        /// Sets how long one call of a hook may take before it is abandoned: by default 5 s.
        hook_timeout: Duration;
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            publish: Publish::default(),
            max_length: 10_000,
            queue_length_every: Duration::from_secs(10),
            hook_timeout: Duration::from_secs(5),
        }
    }
}

/// What goes to the stream `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    /// Nothing.
    None,
    /// `retry_handle` and `failed_handle`.
    #[default]
    Failures,
    /// Everything: several events per job.
    All,
}
