//! Finding one job by its id, or by the entry id that `XADD` returned.

use streamfleet::job::{JobId, Lane};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::Status;

use crate::Error;

/// How many entries of each lane are searched for a job that nothing points to.
pub const MAX_SEARCHED: u64 = 10_000;

/// What the error says if Redis fails.
const FAILED: &str = "failed to look up the job";

/// Finds a job. One that nothing points to is searched for among the newest entries.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn find(queue: &Queue, id: &JobId) -> Result<Option<Status>, Error> {
    match known(queue, id).await? {
        Some(status) => Ok(Some(status)),
        None => queue.seek(id, MAX_SEARCHED).await.map_err(Error::redis(FAILED)),
    }
}

/// Returns the status of a job that something points to.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn known(queue: &Queue, id: &JobId) -> Result<Option<Status>, Error> {
    status_in_any_lane(queue, id).await.map_err(Error::redis(FAILED))
}

/// Returns the status of a job that something points to. An entry id means the normal lane, but XADD returns such an id for
/// the other lanes too, so they are tried as well.
pub(crate) async fn status_in_any_lane(queue: &Queue, id: &JobId) -> Result<Option<Status>, RedisError> {
    let mut candidates = vec![id.clone()];
    if let Some((entry, Lane::Normal)) = id.origin() {
        candidates.extend([Lane::High, Lane::Low].map(|lane| JobId::derived(entry, lane)));
    }
    for id in candidates {
        if let Some(status) = queue.status(&id).await? {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

/// The error about a job that the queue does not know. If it is the id of a dead letter, it names the job.
pub async fn unknown(queue: &Queue, id: &JobId) -> Error {
    let letter = match id.origin() {
        Some((entry, Lane::Normal)) => queue.dead_letters().bare().get(entry).await.ok().flatten(),
        Some((_, Lane::High | Lane::Low)) | None => None,
    };
    let name = queue.name();
    Error::NotFound(match letter {
        Some(letter) => {
            format!("{id} is the id of a dead letter of the queue {name}; its job is {}", letter.job())
        }
        None => format!(
            "the queue {name} has no record of the job {id}, and none of its newest {MAX_SEARCHED} entries has this id. A plain \
             job that succeeded leaves no record: submit it with `track` or an id to keep one"
        ),
    })
}
