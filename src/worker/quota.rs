//! How many attempts a worker may start before it is recycled.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

/// The number of attempts that a process may start in its life, over all its queues. Slots check it before they take a
/// delivery, and count when its attempt starts. So at most as many attempts as there are slots start beyond it.
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    started: AtomicU64,
    spent: CancellationToken,
}

impl Quota {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, started: AtomicU64::new(0), spent: CancellationToken::new() }
    }

    /// Counts an attempt that starts.
    pub(crate) fn count(&self) {
        if self.started.fetch_add(1, Ordering::Relaxed) + 1 == self.most {
            self.spent.cancel();
        }
    }

    /// Returns true once no further attempt should start.
    pub(crate) fn is_spent(&self) -> bool {
        self.started.load(Ordering::Relaxed) >= self.most
    }

    /// Waits until the quota is spent.
    pub(crate) async fn spent(&self) {
        self.spent.cancelled().await;
    }

    /// Returns the limit.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_quota_is_spent_by_its_last_attempt_and_stays_so() {
        let quota = Quota::new(2);
        quota.count();
        assert!(!quota.is_spent());
        quota.count();
        assert!(quota.is_spent());
        quota.count();
        assert!(quota.is_spent());
        quota.spent().await;
    }
}
