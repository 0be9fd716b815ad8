//! The steps of a job, and what people decide about them.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{JobId, StepName, Verdict};
use streamfleet_engine::admin::DecideError;
use streamfleet_operations as operations;
use streamfleet_operations::jobs::{self, steps::JobSteps};
use utoipa_axum::routes;

use super::asked::Asked;
use super::failure::failed;
use super::place::Place;
use super::privacy::View;
use super::sent::Sent;
use crate::actor;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::steps::{self, Decision, Order};

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STEPS, routes!(get_steps))
        .describe(routes!(decide_step), Needs::Role(Role::Operator))
}

/// Shows the steps of a job.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}/steps", tag = "jobs",
    responses((status = 200, description = "The steps", body = JobSteps)))]
async fn get_steps(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("id")?);
    View::of(&person, &site).json(&jobs::steps::steps(&queue, &id).await?)
}

/// What somebody decides about a step.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepVerdict, examples(json!({"verdict": "done", "reason": "the bank has it", "result": {"receipt": 17}})))]
struct Sentence {
    /// `done`: its work is done. `run`: run it again. `give-up`: it will not be done, and neither will the steps after it.
    verdict: String,
    /// Why; it is kept with the state of the step.
    #[serde(default)]
    reason: String,
    /// The step's result for later steps, up to 16 KiB; only with `done`. Without it, they get none. It may be added later by the
    /// same verdict, as long as no step after this one runs or is done.
    #[serde(default)]
    result: Option<Value>,
}

/// Decides about a step that failed, or that may or may not have done its work.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/jobs/{id}/steps/{step}/decide", tag = "jobs", request_body = Sentence,
    responses((status = 200, description = "What the decision led to", body = Decision)))]
async fn decide_step(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(sent): Sent<Sentence>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let (queue, id, step) = (place.queue(&site)?, place.get::<JobId>("id")?, place.get::<StepName>("step")?);
    let verdict = sent.verdict.parse::<Verdict>();
    let verdict = verdict.map_err(|error| Problem::field("/verdict", error))?;
    let result = sent.result.map(|result| result.to_string());
    let order = Order { id: &id, step: &step, verdict, result: result.as_deref() };
    let context = site.context(site.stopping().clone());
    let by = actor::action(person.name(), "steps decide", &sent.reason);
    let (report, _) = steps::decide(&queue, order, &by, &context)
        .await
        .map_err(failed)?
        .map_err(|error| refused(&error))?;
    View::of(&person, &site).json(&report)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other error says that the step is not in the right state"
)]
fn refused(error: &DecideError) -> Problem {
    match error {
        DecideError::Redis(error) => Problem::redis("failed to write the decision", error),
        DecideError::BadResult(_) => Problem::field("/result", error.to_string()),
        DecideError::NoLedger { .. } | DecideError::NoStep { .. } => Problem::not_found(error.to_string()),
        _ => Problem::conflict(error.to_string()),
    }
}
