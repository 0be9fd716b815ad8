//! Gates: their rules, and the limits that people set.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{GateName, Limits, Rate};
use streamfleet_operations::gates::{self, BreakerText, Gate, GateChanged};
use streamfleet_operations::{self as operations, Actor, List};
use utoipa_axum::routes;

use super::failure::done;
use super::json_body::JsonBody;
use super::names;
use super::path_params::PathParams;
use super::privacy::View;
use super::query::{QueryParams, ReasonParams};
use crate::console::access::Person;
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::routes::Routes;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::GATES_LIST, routes!(list_gates))
        .operation(&operations::GATES_SET, routes!(set_gate))
        .operation(&operations::GATES_CLEAR, routes!(clear_gate))
}

type GateList = List<Gate>;

/// Lists the gates that have a rule, with the jobs that hold a place or wait.
///
/// A rule for each value of a field is followed by those of its values for which jobs wait, at most 200.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/gates", tag = "gates",
    responses((status = 200, description = "The gates", body = GateList)))]
async fn list_gates(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
) -> Result<Json<Value>, Problem> {
    let queue = path.queue(&app)?;
    let (page, _) = gates::list(&queue).await?;
    if page.items.is_empty() {
        names::must_have(&app, queue.name()).await?;
    }
    View::of(&person, &app).json(&page)
}

/// The limits of a gate. Those that are missing or null are removed.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GateLimits, examples(json!({"concurrency": 10, "rate": "100/s"})))]
struct Wanted {
    /// How many jobs may run at once in the whole fleet.
    #[schema(minimum = 1)]
    concurrency: Option<u32>,
    /// How many jobs may start in a period, such as `100/s` or `600/10m`.
    rate: Option<String>,
    /// When failures close the gate: the share of failures, of how many attempts, within what time, and for how long, such as
    /// `50%/20/1m/30s`.
    breaker: Option<String>,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
    /// Set limits in a queue that does not exist. Without it, such a request is a conflict.
    #[serde(default)]
    confirm: bool,
}

impl Wanted {
    fn limits(&self) -> Result<Limits, Problem> {
        if self.concurrency == Some(0) {
            return Err(Problem::field("/concurrency", "it must be at least 1; to stop all jobs, pause"));
        }
        let rate = self.rate.as_deref().map(str::parse::<Rate>).transpose();
        let rate = rate.map_err(|error| Problem::field("/rate", error.to_string()))?;
        let breaker = self.breaker.as_deref().map(str::parse::<BreakerText>).transpose();
        let breaker = breaker.map_err(|why| Problem::field("/breaker", why))?;
        let breaker = breaker.map(|BreakerText(breaker)| breaker);
        let limits = Limits::default().concurrency(self.concurrency).rate(rate).breaker(breaker);
        if limits.is_empty() {
            return Err(Problem::field(
                "body",
                "set concurrency, rate or breaker; to remove all limits, DELETE the gate",
            ));
        }
        Ok(limits)
    }
}

/// Sets the limits of a gate, in place of those that it had.
///
/// A gate is `queue`, `type:<type>`, `key:<field>` for each value of a field, or `key:<field>=<value>` for one.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/gates/{gate}", tag = "gates", request_body = Wanted,
    responses((status = 200, description = "The limits in effect", body = GateChanged)))]
async fn set_gate(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    JsonBody(sent): JsonBody<Wanted>,
) -> Result<Json<Value>, Problem> {
    let (queue, gate, limits) = (path.queue(&app)?, path.get::<GateName>("gate")?, sent.limits()?);
    names::must_be_meant(&app, &person, &queue, sent.confirm).await?;
    let set = gates::set_limits(&queue, &Actor::new(person.name(), &sent.reason), &gate, limits).await;
    View::of(&person, &app).json(&done(set)?)
}

/// Removes the limits that were set, so that those of the workers' configuration apply again.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/gates/{gate}", tag = "gates", params(ReasonParams),
    responses((status = 200, description = "The limits in effect", body = GateChanged)))]
async fn clear_gate(
    State(app): State<AppState>,
    person: Person,
    path: PathParams,
    QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>,
) -> Result<Json<Value>, Problem> {
    let (queue, gate) = (path.queue(&app)?, path.get::<GateName>("gate")?);
    let cleared = gates::clear_limits(&queue, &Actor::new(person.name(), &reason), &gate).await;
    View::of(&person, &app).json(&done(cleared)?)
}
