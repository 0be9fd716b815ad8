//! Checks of payloads take time in proportion to their size. Long ones run beside the threads of the runtime, so that other
//! tasks go on, and only a few at once, because a value that is checked takes many times the memory of its payload.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// A check of at most this many bytes is short, and runs at once.
const SHORT_BYTES: usize = 64 * 1024;

/// How many long checks run at once in a process.
static LONG: Semaphore = Semaphore::const_new(2);

/// Runs a check of payloads that have this many bytes together, and returns its result.
pub(crate) async fn blocking<T, F>(bytes: usize, check: F) -> T
where
    T: Send + 'static,
    F: Fn() -> T + Clone + Send + 'static,
{
    if bytes <= SHORT_BYTES {
        return check();
    }
    let turn = LONG.acquire().await;
    let long = check.clone();
    let checking = spawn_blocking(move || {
        // Given back when the check has ended, even if nobody waits for it any more.
        let _turn = turn;
        long()
    });
    // A runtime that is stopping may not have started it.
    checking.await.unwrap_or_else(|_| check())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_check_runs_on_another_thread_than_a_short_one() {
        let thread = || std::thread::current().id();
        assert_eq!(blocking(SHORT_BYTES, thread).await, thread());
        let many: Vec<_> = (0..8).map(|_| blocking(SHORT_BYTES + 1, thread)).collect();
        for other in futures_util::future::join_all(many).await {
            assert_ne!(other, thread());
        }
    }
}
