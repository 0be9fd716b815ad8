//! Waiting for what somebody else changes and then notifies of.

use std::pin::pin;

use tokio::sync::Notify;

/// Looks after each notification until there is something, and returns that. No notification is missed, and if this is dropped,
/// another waiter gets the one that it has taken.
pub(crate) async fn wait_for<T>(notify: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut notified = pin!(notify.notified());
        // From here on, no wake-up is lost. Only now look.
        notified.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}
