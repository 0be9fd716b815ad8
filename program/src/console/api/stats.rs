//! Statistics: the samples of a queue, what the jobs of each type did, and how long jobs waited and ran.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use streamfleet_operations::stats::{self, DurationList, Samples, TypeList};
use utoipa_axum::routes;

use super::query::by;
use super::{Answer, Call, QueryParams, Routes, operations};

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STATS, routes!(list_samples))
        .operation(&operations::STATS, routes!(list_type_stats))
        .operation(&operations::STATS, routes!(list_durations))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct SinceParams {
    /// How far back to look, such as `10m`: at most `24h`.
    #[serde(deserialize_with = "since")]
    #[param(value_type = Option<String>, default = "1h")]
    pub(super) since: Duration,
}

impl Default for SinceParams {
    fn default() -> Self {
        Self { since: stats::USUAL }
    }
}

fn since<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    by(from, stats::since)
}

/// Lists the samples of a queue, oldest first.
///
/// Its leader takes one a minute. Counts of a sample cover the time since the sample before.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The samples", body = Samples)))]
async fn list_samples(call: Call, QueryParams(SinceParams { since }): QueryParams<SinceParams>) -> Answer {
    let queue = call.queue()?;
    call.list(&queue, &stats::samples(&queue, since).await?).await
}

/// Counts what the jobs of each type did, and how long they waited and ran; the types with the most attempts first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats/types", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The types", body = TypeList)))]
async fn list_type_stats(call: Call, QueryParams(SinceParams { since }): QueryParams<SinceParams>) -> Answer {
    let queue = call.queue()?;
    call.list(&queue, &stats::types(&queue, since).await?).await
}

/// Lists how long the jobs of a queue waited and ran, over time: in each ten minutes, or in each hour of more than two hours.
///
/// A window in which no attempt began or ended is left out.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats/durations", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The windows, oldest first", body = DurationList)))]
async fn list_durations(call: Call, QueryParams(SinceParams { since }): QueryParams<SinceParams>) -> Answer {
    let queue = call.queue()?;
    call.list(&queue, &stats::durations(&queue, since).await?).await
}
