//! The end of a process's work: the worker drains, and meanwhile the maintenance of its queues goes to other processes.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// Maintenance has at least this long to settle what it has claimed, as the worker has for its last outcomes.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Stops the worker, and waits for the maintenance, which has been told to stop. Neither waits for the other: the worker must
/// take no new jobs while a takeover is being settled. Once the worker has stopped, maintenance that Redis does not answer is
/// dropped; what it has claimed is claimed again when the lease ends.
pub(super) async fn stop(worker: Worker, mut maintained: JoinSet<()>, hurry: CancellationToken) {
    let (earliest, drained) = (Instant::now() + SETTLED_WITHIN, CancellationToken::new());
    let draining = async {
        worker.stop(hurry).await;
        drained.cancel();
    };
    let handing_over = async {
        let ended = async { while maintained.join_next().await.is_some() {} };
        let late = async {
            drained.cancelled().await;
            sleep_until(earliest).await;
        };
        tokio::select! {
            biased;
            () = ended => return,
            () = late => tracing::warn!("redis did not let maintenance end; another process continues it when its lease expires"),
        }
        maintained.shutdown().await;
    };
    tokio::join!(draining, handing_over);
}
