//! The trait that a user implements to be notified of jobs in the same process.

use std::future::Future;

use futures_util::future::BoxFuture;

use super::notification::{AfterHandle, BeforeHandle, FailedHandle, Notification, QueueLength, RetryHandle};

/// Why a hook could not do what it wanted. The error is logged and counted.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// Receives notifications about the jobs that this process handles. Register it with
/// [`Builder::hook`](crate::Builder::hook).
///
/// Each hook has its own thread and gets one call at a time, in the order in which things happened, soon after they
/// did. An error, a panic or a call that does not return changes nothing for any job. It is logged and counted, and
/// after [`Config::hook_timeout`](super::Config::hook_timeout) the call is abandoned. A hook that is slower than the
/// jobs misses some notifications: those that find its channel full are dropped and counted. Work that must not be
/// missed belongs in the handler.
///
/// Every `before_handle` is followed by one of `after_handle`, `retry_handle` and `failed_handle`, unless another process
/// took the attempt over. A job that never ran (expired, malformed, lost, or cancelled before it began) has only its end.
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
    /// Returns the hook's name for logs. Default: the name of its type.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// Called when a handler is about to run.
    ///
    /// # Errors
    ///
    /// Whatever the hook could not do. The same applies to the other methods.
    fn before_handle(&self, _begun: &BeforeHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Called when an attempt ended without a failure, and Redis has recorded it.
    fn after_handle(&self, _ended: &AfterHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Called when a job is dead.
    fn failed_handle(&self, _failed: &FailedHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Called when an attempt failed or was lost, and its job will run again.
    fn retry_handle(&self, _failed: &RetryHandle) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Called with the length of a queue that this process serves, at regular intervals, whether or not jobs run.
    fn queue_length(&self, _length: &QueueLength) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }
}

/// A hook with its type erased.
pub(crate) trait ErasedHook: Send + Sync {
    fn name(&self) -> &str;
    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<(), HookError>>;
}

impl<H: Hook> ErasedHook for H {
    fn name(&self) -> &str {
        Hook::name(self)
    }

    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<(), HookError>> {
        match notification {
            Notification::BeforeHandle(notification) => Box::pin(self.before_handle(notification)),
            Notification::AfterHandle(notification) => Box::pin(self.after_handle(notification)),
            Notification::RetryHandle(notification) => Box::pin(self.retry_handle(notification)),
            Notification::FailedHandle(notification) => Box::pin(self.failed_handle(notification)),
            Notification::QueueLength(notification) => Box::pin(self.queue_length(notification)),
        }
    }
}
