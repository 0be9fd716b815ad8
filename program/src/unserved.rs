//! What commands say about types that no live worker knows.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::JobType;
use streamfleet_service::config::nearest;

/// How long a command waits for this remark.
const LONGEST: Duration = Duration::from_secs(2);

/// Returns a remark on a type that no live worker of the queue knows; `None` if one does, or if that is not known.
pub(super) async fn remark(queue: &Queue, job_type: &JobType) -> Option<String> {
    remarks(queue, [job_type]).await.pop()
}

/// Returns such a remark for each of these types.
pub(super) async fn remarks(queue: &Queue, types: impl IntoIterator<Item = &JobType>) -> Vec<String> {
    let Ok(Ok(Some(known))) = tokio::time::timeout(LONGEST, queue.known_types()).await else {
        return Vec::new();
    };
    let remark = |job_type: &JobType| {
        let near = nearest(job_type.as_str(), known.iter().map(JobType::as_str));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("no live worker of the queue {} knows the type {job_type}{hint}", queue.name())
    };
    types.into_iter().filter(|job_type| !known.contains(*job_type)).map(remark).collect()
}
