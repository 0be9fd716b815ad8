//! What a user implements to be told of jobs in its own process.

use std::future::Future;

use futures_util::future::BoxFuture;

use super::notification::{AfterHandle, BeforeHandle, FailedHandle, Notification, QueueLength, RetryHandle};

/// Why a hook could not do what it wanted. It is logged and counted.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// Is told of the jobs that this process handles. Registered by [`Builder::hook`](crate::Builder::hook).
///
/// Each hook has a thread of its own and gets one call at a time, in the order in which things happened, soon after they
/// did. An error, a panic or a call that does not return changes nothing for any job: it is logged, counted, and after
/// [`Config::hook_timeout`](super::Config::hook_timeout) abandoned. A hook that is slower than the jobs misses some:
/// what finds its channel full is dropped and counted. What must not be missed belongs into the handler.
///
/// Every `before_handle` is followed by one of `after_handle`, `retry_handle` and `failed_handle`, unless the attempt was
/// taken over by another process. What never ran, such as an expired or a lost job, has only the last two.
///
/// ```
/// use streamfleet::hooks::{FailedHandle, Hook, HookError, QueueLength};
///
/// struct Pager;
///
/// impl Hook for Pager {
///     async fn failed_handle(&self, failed: &FailedHandle) -> Result<(), HookError> {
///         println!("{} is dead ({}): {}", failed.about.job, failed.reason, failed.error);
///         Ok(())
///     }
///
///     async fn queue_length(&self, length: &QueueLength) -> Result<(), HookError> {
///         if length.waiting > 10_000 {
///             println!("{} jobs wait in {}", length.waiting, length.queue);
///         }
///         Ok(())
///     }
/// }
///
/// let builder = streamfleet::Fleet::builder(streamfleet::FleetConfig::default()).hook(Pager);
/// ```
pub trait Hook: Send + Sync + 'static {
    /// What logs call it. Default: the name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// A handler is about to run.
    ///
    /// # Errors
    ///
    /// Whatever the hook could not do. The same holds for the others.
    fn before_handle(&self, _begun: &BeforeHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// An attempt ended without a failure, and Redis knows it.
    fn after_handle(&self, _ended: &AfterHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// A job is dead.
    fn failed_handle(&self, _failed: &FailedHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// An attempt failed or was lost, and its job will run again.
    fn retry_handle(&self, _failed: &RetryHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// How long a queue is that this process serves. Told by a timer, whether jobs run or not.
    fn queue_length(&self, _length: &QueueLength) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }
}

/// A hook whose type is erased.
pub(crate) trait Called: Send + Sync {
    fn name(&self) -> &str;
    fn tell<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<(), HookError>>;
}

impl<H: Hook> Called for H {
    fn name(&self) -> &str {
        Hook::name(self)
    }

    fn tell<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<(), HookError>> {
        match notification {
            Notification::BeforeHandle(notification) => Box::pin(self.before_handle(notification)),
            Notification::AfterHandle(notification) => Box::pin(self.after_handle(notification)),
            Notification::RetryHandle(notification) => Box::pin(self.retry_handle(notification)),
            Notification::FailedHandle(notification) => Box::pin(self.failed_handle(notification)),
            Notification::QueueLength(notification) => Box::pin(self.queue_length(notification)),
        }
    }
}
