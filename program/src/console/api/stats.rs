//! Statistics: the samples of a queue, and what the jobs of each type did.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde_json::Value;
use utoipa_axum::routes;

use super::asked::Asked;
use super::failure::failed;
use super::names;
use super::place::Place;
use super::privacy::View;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::stats::{self, SamplePage, TypePage};

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_samples), Needs::Role(Role::Viewer))
        .describe(routes!(list_type_stats), Needs::Role(Role::Viewer))
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct SinceParams {
    /// How far back to look, such as `10m`: at most `24h`.
    #[param(default = "1h")]
    since: Option<String>,
}

/// Lists the samples of a queue, oldest first.
///
/// Its leader takes one a minute. Counts of a sample cover the time since the sample before.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The samples", body = SamplePage)))]
async fn list_samples(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    let (queue, since) = (place.queue(&site)?, since(asked)?);
    let page = stats::sample_page(&queue, since).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Counts what the jobs of each type did, and how long they waited and ran; the types with the most attempts first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/stats/types", tag = "queues", params(SinceParams),
    responses((status = 200, description = "The types", body = TypePage)))]
async fn list_type_stats(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    let (queue, since) = (place.queue(&site)?, since(asked)?);
    let page = stats::type_page(&queue, since).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Reads how far back to look, the only parameter of a query.
fn since(mut asked: Asked) -> Result<Duration, Problem> {
    let since = asked.one("since", stats::since)?;
    asked.end()?;
    Ok(since.unwrap_or(stats::USUAL))
}
