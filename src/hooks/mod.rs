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

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batcher::{Batcher, LossySender};
use crate::job::number::count;
use crate::job::{OutOfBounds, bounds, duration};

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

const LENGTHS: RangeInclusive<u64> = 1..=10_000_000;
const QUEUE_LENGTH_EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
const HOOK_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

with_defaults! {
    /// Which notifications are sent, and how.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// What goes to the stream `events` of each queue; by default, [`Publish::Failures`].
        pub publish: Publish = Publish::default(),
        /// The approximate number of events to keep in each stream; 1 to 10,000,000, by default 10,000.
        #[serde(deserialize_with = "count")]
        pub max_length: u64 = 10_000,
        /// How often the lengths of queues are reported, whether or not jobs run; 1 s to 1 h, by default every 10 s.
        #[serde(with = "duration")]
        pub queue_length_every: Duration = Duration::from_secs(10),
        /// How long one call of a hook may take before it is abandoned; 1 ms to 1 h, by default 5 s. Only Rust has hooks.
        #[serde(skip)]
        pub hook_timeout: Duration = Duration::from_secs(5),
    }
}

impl Config {
    setters! {
        publish: Publish;
        max_length: u64;
        queue_length_every: Duration;
        hook_timeout: Duration;
    }

    /// Returns everything that is out of its bounds.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let problems = [
            bounds::number("max_length", self.max_length, &LENGTHS),
            bounds::time("queue_length_every", self.queue_length_every, &QUEUE_LENGTH_EVERY),
            bounds::time("hook_timeout", self.hook_timeout, &HOOK_TIMEOUT),
        ];
        problems.into_iter().flatten().collect()
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
