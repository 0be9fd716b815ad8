//! Those who are told of jobs: [`Hook`]s in this process, and the stream `events` for everybody else. Nothing here can
//! change what becomes of a job, nor hold one up.
//!
//! ```text
//!  Event ─► Dispatch ──► NotificationSender ─► Invoker ─► a thread ─► Hook
//!                   └──► NotificationSender ─► Publisher ─► sf:{q}:events
//! ```
//!
//! An [`Event`](crate::event::Event) that concerns somebody becomes a `Notification` of its own and goes to a sender: a channel with a
//! bound. Where it is full the notification is dropped and counted. Behind it one task per hook calls, with a limit of time,
//! and one task publishes in batches. Where nobody listens there is neither a notification nor a channel.

mod channel;
mod dispatch;
mod hook;
mod invoker;
mod length;
mod notification;
mod publisher;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use dispatch::Dispatch;
pub(crate) use hook::Called;
pub use hook::{Hook, HookError};
pub use notification::{About, AfterHandle, BeforeHandle, FailedHandle, QueueLength, RetryHandle};

/// When the process stops, all who are told get so long together.
pub(crate) const LAST_WORD: Duration = Duration::from_secs(3);

/// Who is told of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What goes to the stream `events` of each queue.
    pub publish: Publish,
    /// About so many events are kept in each stream; at least 1.
    pub max_length: u64,
    /// How often the lengths of queues are told, whether jobs run or not.
    pub queue_length_every: Duration,
    /// How long one call of a hook may take. Then it is abandoned.
    pub hook_timeout: Duration,
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
