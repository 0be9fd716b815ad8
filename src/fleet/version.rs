//! Warns of a server that is too old.

use std::time::Duration;

use crate::worker::Worker;

/// Logs an error if the server is older than the oldest supported version. A server that hides its version passes.
pub(super) async fn warn_of_version(worker: &Worker) {
    let Some(queue) = worker.queues().into_iter().next() else { return };
    let asked = tokio::time::timeout(Duration::from_secs(2), queue.server()).await;
    let Ok(Ok(server)) = asked else { return };
    if let (Some((name, version)), Some(least)) = (server.product(), server.least_version()) {
        tracing::error!(
            server = name,
            version,
            least,
            "this server is too old: it does not report which pending entries were deleted or how many entries a stream has had, so lost jobs go unnoticed"
        );
    }
}
