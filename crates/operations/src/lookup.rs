//! Finding a job by what people know of it: its id, or the id of its entry.

use streamfleet::Queue;
use streamfleet::job::{JobId, Lane};
use streamfleet_engine::admin::Status;

use crate::Error;

/// How many entries of each lane are searched for a job that nothing points to.
const MAX_SEARCHED: u64 = 10_000;

/// What the error says if Redis fails.
const FAILED: &str = "failed to look up the job";

/// Finds a job's status. An entry id means the normal lane, but XADD returns such an id for the other lanes too, so they are tried
/// as well. A job that nothing points to is searched for among the newest entries.
///
/// # Errors
///
/// [`Error::Redis`].
pub(crate) async fn find(queue: &Queue, id: &JobId) -> Result<Option<Status>, Error> {
    let mut candidates = vec![id.clone()];
    if let Some((entry, Lane::Normal)) = id.origin() {
        candidates.extend([Lane::High, Lane::Low].map(|lane| JobId::derived(entry, lane)));
    }
    for id in candidates {
        if let Some(status) = queue.status(&id).await.map_err(Error::redis(FAILED))? {
            return Ok(Some(status));
        }
    }
    queue.seek(id, MAX_SEARCHED).await.map_err(Error::redis(FAILED))
}
