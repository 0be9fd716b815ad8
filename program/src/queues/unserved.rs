//! The types of a queue whose jobs wait because no live worker knows them.

use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::JobType;
use streamfleet_engine::admin::UnknownType;
use streamfleet_service::config::nearest;

/// The most types of one queue that are named because no live worker knows them.
const MAX_TYPES: usize = 100;

/// A type whose jobs wait because no live worker knows it, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = UnservedType)]
pub(crate) struct UnservedReport {
    #[serde(rename = "type")]
    pub(crate) job_type: String,
    pub(crate) jobs: u64,
    pub(crate) unserved_for_ms: u64,
    /// A similar type that a live worker knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) did_you_mean: Option<String>,
}

/// The types of waiting jobs that no live worker knows, at most [`MAX_TYPES`]. Without the right to ask, nothing is shown.
pub(crate) async fn unserved_types(queue: &Queue) -> Vec<UnservedReport> {
    let unknown = queue.unknown_types(MAX_TYPES).await.unwrap_or_default();
    if unknown.iter().all(|unknown| unknown.unserved_for.is_none()) {
        return Vec::new();
    }
    let known = queue.known_types().await.ok().flatten().unwrap_or_default();
    let report = |unknown: UnknownType| {
        let unserved_for = unknown.unserved_for.filter(|_| unknown.jobs > 0)?;
        let near = nearest(unknown.job_type.as_str(), known.iter().map(JobType::as_str));
        Some(UnservedReport {
            job_type: unknown.job_type.to_string(),
            jobs: unknown.jobs,
            unserved_for_ms: u64::try_from(unserved_for.as_millis()).unwrap_or(u64::MAX),
            did_you_mean: near.map(str::to_owned),
        })
    };
    unknown.into_iter().filter_map(report).collect()
}
