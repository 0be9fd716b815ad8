//! Gates: their rules, and the limits that people set.

use serde::Deserialize;
use streamfleet::job::{GateName, Limits, Rate};
use streamfleet_operations::List;
use streamfleet_operations::gates::{self, BreakerText, Gate, GateChanged};
use utoipa_axum::routes;

use super::query::ReasonParams;
use super::{Answer, Call, JsonBody, Problem, QueryParams, Routes, from_any_text, names, operations};

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
async fn list_gates(call: Call) -> Answer {
    let queue = call.queue()?;
    let (page, _) = gates::list(&queue).await?;
    call.list(&queue, &page).await
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
        let rate = from_any_text::<Rate>("/rate", self.rate.as_deref())?;
        let breaker = from_any_text("/breaker", self.breaker.as_deref())?;
        let breaker = breaker.map(|BreakerText(breaker)| breaker);
        let limits = Limits::default().concurrency(self.concurrency).rate(rate).breaker(breaker);
        if limits.is_empty() {
            let why = "set concurrency, rate or breaker; to remove all limits, DELETE the gate";
            return Err(Problem::field("body", why));
        }
        Ok(limits)
    }
}

/// Sets the limits of a gate, in place of those that it had.
///
/// A gate is `queue`, `type:<type>`, `key:<field>` for each value of a field, or `key:<field>=<value>` for one.
#[utoipa::path(put, path = "/api/v1/queues/{queue}/gates/{gate}", tag = "gates", request_body = Wanted,
    responses((status = 200, description = "The limits in effect", body = GateChanged)))]
async fn set_gate(call: Call, JsonBody(sent): JsonBody<Wanted>) -> Answer {
    let (queue, gate, limits) = (call.queue()?, call.path::<GateName>("gate")?, sent.limits()?);
    names::must_be_meant(&call, &queue, sent.confirm).await?;
    call.done(gates::set_limits(&queue, &call.actor(&sent.reason), &gate, limits).await)
}

/// Removes the limits that were set, so that those of the workers' configuration apply again.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/gates/{gate}", tag = "gates", params(ReasonParams),
    responses((status = 200, description = "The limits in effect", body = GateChanged)))]
async fn clear_gate(call: Call, QueryParams(ReasonParams { reason }): QueryParams<ReasonParams>) -> Answer {
    let (queue, gate) = (call.queue()?, call.path::<GateName>("gate")?);
    call.done(gates::clear_limits(&queue, &call.actor(&reason), &gate).await)
}
