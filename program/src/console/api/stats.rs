//! Statistics: the samples of a queue, and what the jobs of each type did.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use streamfleet_operations as operations;
use streamfleet_operations::stats::{self, Samples, TypeList};
use utoipa_axum::routes;

use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{QueryParams, by};
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STATS, routes!(list_samples))
        .operation(&operations::STATS, routes!(list_type_stats))
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
async fn list_samples(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(SinceParams { since }): QueryParams<SinceParams>,
) -> Result<Json<Value>, Problem> {
    let queue = path.queue(&app)?;
    let page = stats::samples(&queue, since).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
}

/// Counts what the jobs of each type did, and how long they waited and ran; the types with the most attempts first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats/types", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The types", body = TypeList)))]
async fn list_type_stats(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(SinceParams { since }): QueryParams<SinceParams>,
) -> Result<Json<Value>, Problem> {
    let queue = path.queue(&app)?;
    let page = stats::types(&queue, since).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
}
