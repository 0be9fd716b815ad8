//! Gates: their rules, and the limits that people set.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{GateName, Limits, Rate};
use utoipa_axum::routes;

use super::asked::Asked;
use super::failure::{failed, redis};
use super::names;
use super::place::Place;
use super::privacy::View;
use super::sent::Sent;
use crate::actor;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::gates::{self, BreakerArg, Changed, Report};
use crate::output::List;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_gates), Needs::Role(Role::Viewer))
        .describe(routes!(set_gate), Needs::Role(Role::Operator))
        .describe(routes!(clear_gate), Needs::Role(Role::Operator))
}

type GateList = List<Report>;

/// Lists the gates that have a rule, with the jobs that hold a place or wait.
///
/// A rule for each value of a field is followed by those of its values for which jobs wait, at most 200.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/gates", tag = "gates",
    responses((status = 200, description = "The gates", body = GateList)))]
async fn list_gates(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let (page, _) = gates::page(&queue).await.map_err(failed)?;
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
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
}

impl Wanted {
    fn limits(&self) -> Result<Limits, Problem> {
        if self.concurrency == Some(0) {
            return Err(Problem::field("/concurrency", "it must be at least 1; to stop all jobs, pause"));
        }
        let rate = self.rate.as_deref().map(str::parse::<Rate>).transpose();
        let rate = rate.map_err(|error| Problem::field("/rate", error.to_string()))?;
        let breaker = self.breaker.as_deref().map(str::parse::<BreakerArg>).transpose();
        let breaker = breaker.map_err(|why| Problem::field("/breaker", why))?;
        let breaker = breaker.map(|BreakerArg(breaker)| breaker);
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
    responses((status = 200, description = "The limits in effect", body = Changed)))]
async fn set_gate(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(sent): Sent<Wanted>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let (queue, gate, limits) = (place.queue(&site)?, place.get::<GateName>("gate")?, sent.limits()?);
    let changed =
        queue.gates().set(&gate, &limits).await.map_err(redis("the limits may or may not be set"))?;
    let target = format!("{gate}: {}", gates::shown_limits(limits));
    actor::note(&queue, &actor::action(person.name(), "gates set", &sent.reason).target(target)).await;
    View::of(&person, &site).json(&Changed::of((&queue, &gate), "set", changed, limits))
}

#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes parameters")]
struct ClearParams {
    /// Why it is done, for the audit.
    reason: Option<String>,
}

/// Removes the limits that were set, so that those of the workers' configuration apply again.
#[utoipa::path(delete, path = "/api/v1/queues/{queue}/gates/{gate}", tag = "gates", params(ClearParams),
    responses((status = 200, description = "The limits in effect", body = Changed)))]
async fn clear_gate(
    State(site): State<Site>,
    person: Person,
    place: Place,
    mut asked: Asked,
) -> Result<Json<Value>, Problem> {
    let reason = asked.one("reason", |value| Ok::<_, String>(value.to_owned()))?.unwrap_or_default();
    asked.end()?;
    let (queue, gate) = (place.queue(&site)?, place.get::<GateName>("gate")?);
    let changed = queue.gates().clear(&gate).await.map_err(redis("the limits may or may not be cleared"))?;
    if changed {
        let action = actor::action(person.name(), "gates clear", &reason).target(gate.to_string());
        actor::note(&queue, &action).await;
    }
    let limits = gates::current(&queue, &gate).await.map_err(failed)?;
    View::of(&person, &site).json(&Changed::of((&queue, &gate), "cleared", changed, limits))
}
