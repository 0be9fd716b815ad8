//! A bounded queue for what may be lost, such as notifications and spans. What does not fit is dropped and counted: nobody who
//! puts something in ever waits. At the other end, a batcher takes out what has gathered.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// The entrance of a queue.
#[derive(Debug)]
pub(crate) struct LossySender<T> {
    items: mpsc::Sender<T>,
    dropped: Dropped,
}

/// The exit of a queue.
pub(crate) struct Batcher<T> {
    pub(crate) items: mpsc::Receiver<T>,
    pub(crate) dropped: Dropped,
}

/// How many items did not fit. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dropped(Arc<AtomicU64>);

/// When a batch is complete.
#[derive(Clone, Copy)]
pub(crate) struct BatchLimits {
    /// The most items of a batch.
    pub(crate) most: usize,
    /// How long the first item of a batch waits for others.
    pub(crate) linger: Duration,
    /// Whether a full batch waits as well, which bounds the rate of batches.
    pub(crate) lingers_full: bool,
}

/// Creates a queue for at most `capacity` items.
pub(crate) fn lossy_queue<T>(capacity: usize) -> (LossySender<T>, Batcher<T>) {
    let ((sender, items), dropped) = (mpsc::channel(capacity), Dropped::default());
    (LossySender { items: sender, dropped: dropped.clone() }, Batcher { items, dropped })
}

impl<T> LossySender<T> {
    /// Puts an item in if there is room.
    pub(crate) fn offer(&self, item: T) {
        if self.items.try_send(item).is_err() {
            self.dropped.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Dropped {
    /// Returns how many items were dropped since the last call.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl<T> Batcher<T> {
    /// Waits for items, and a little longer for more of them. Once stopped, takes without waiting what is left. Returns an empty
    /// batch if no more will come.
    pub(crate) async fn batch(&mut self, limits: BatchLimits, stop: &CancellationToken) -> Vec<T> {
        let (mut batch, mut end) = (Vec::new(), None);
        loop {
            let left = limits.most - batch.len();
            if left == 0 && (self.items.is_closed() || !limits.lingers_full) {
                return batch;
            }
            let lingered = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                // From here on, only what is already in the queue is read.
                () = stop.cancelled(), if !self.items.is_closed() => self.items.close(),
                count = self.items.recv_many(&mut batch, left), if left > 0 => match count {
                    0 => return batch,
                    _ => { end.get_or_insert_with(|| Instant::now() + limits.linger); }
                },
                () = lingered => return batch,
            }
        }
    }

    /// Discards all waiting items, and returns how many there were.
    pub(crate) fn discard(&mut self) -> u64 {
        let mut discarded = 0;
        while self.items.try_recv().is_ok() {
            discarded += 1;
        }
        discarded
    }
}

/// Does this work until it ends, or until some time after `stop`. Returns false if it was given up.
pub(crate) async fn finish(
    work: impl Future<Output = ()>,
    (stop, within): (&CancellationToken, Duration),
) -> bool {
    let given_up = async {
        stop.cancelled().await;
        sleep(within).await;
    };
    tokio::select! {
        biased;
        () = work => true,
        () = given_up => false,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn limits(most: usize, linger: Duration) -> BatchLimits {
        BatchLimits { most, linger, lingers_full: false }
    }

    fn queue_of(items: std::ops::Range<u8>) -> (LossySender<u8>, Batcher<u8>, CancellationToken) {
        let (sender, batcher) = lossy_queue(10);
        items.for_each(|item| sender.offer(item));
        (sender, batcher, CancellationToken::new())
    }

    #[tokio::test]
    async fn what_does_not_fit_is_dropped_and_counted() {
        let (sender, mut batcher, stop) = queue_of(0..13);
        assert_eq!((batcher.dropped.take(), batcher.dropped.take()), (3, 0));
        assert_eq!(batcher.batch(limits(10, HOUR), &stop).await, (0..10).collect::<Vec<u8>>());
        sender.offer(13);
        assert_eq!((batcher.dropped.take(), batcher.discard(), batcher.discard()), (0, 1, 0));
        drop(batcher);
        sender.offer(14);
        assert_eq!(sender.dropped.take(), 1, "nobody takes it out");
    }

    #[tokio::test]
    async fn a_full_batch_goes_at_once_and_others_after_a_while() {
        let (_sender, mut batcher, stop) = queue_of(0..5);
        assert_eq!(batcher.batch(limits(3, HOUR), &stop).await, [0, 1, 2]);
        assert_eq!(batcher.batch(limits(3, Duration::from_millis(1)), &stop).await, [3, 4]);
        let (_sender, mut batcher, stop) = queue_of(0..5);
        let mut batching = std::pin::pin!(batcher.batch(limits(6, HOUR), &stop));
        assert!(poll!(&mut batching).is_pending());
    }

    #[tokio::test]
    async fn a_full_batch_waits_if_the_rate_is_bounded() {
        let (_sender, mut batcher, stop) = queue_of(0..5);
        let limits = BatchLimits { lingers_full: true, ..limits(3, HOUR) };
        {
            let mut batching = std::pin::pin!(batcher.batch(limits, &stop));
            assert!(poll!(&mut batching).is_pending());
            stop.cancel();
            assert_eq!(batching.await, [0, 1, 2], "but not once it is stopped");
        }
        assert_eq!(batcher.batch(limits, &stop).await, [3, 4]);
    }

    #[tokio::test]
    async fn after_the_stop_what_is_left_comes_without_waiting() {
        let (sender, mut batcher, stop) = queue_of(0..5);
        stop.cancel();
        assert_eq!(batcher.batch(limits(3, HOUR), &stop).await, [0, 1, 2]);
        sender.offer(5);
        assert_eq!(batcher.batch(limits(3, HOUR), &stop).await, [3, 4]);
        assert!(batcher.batch(limits(3, HOUR), &stop).await.is_empty());
        assert_eq!(batcher.dropped.take(), 1, "it came too late");
    }

    #[tokio::test]
    async fn work_ends_by_itself_or_a_while_after_the_stop() {
        let stop = CancellationToken::new();
        assert!(finish(async {}, (&stop, Duration::ZERO)).await);
        let mut endless = std::pin::pin!(finish(pending(), (&stop, Duration::from_millis(1))));
        assert!(poll!(&mut endless).is_pending());
        stop.cancel();
        assert!(!endless.await);
    }
}
