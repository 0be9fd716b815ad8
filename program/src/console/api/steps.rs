//! The steps of a job, and what people decide about them.

use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{JobId, StepName, Verdict};
use streamfleet_operations::steps::{Decision, JobSteps, StepDecided, decide, list};
use utoipa_axum::routes;

use super::{Answer, Call, JsonBody, Routes, from_text, operations};

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STEPS, routes!(get_steps))
        .operation(&operations::STEPS_DECIDE, routes!(decide_step))
}

/// Shows the steps of a job.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}/steps", tag = "jobs",
    responses((status = 200, description = "The steps", body = JobSteps)))]
async fn get_steps(call: Call) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    call.answer(&list(&queue, &id).await?)
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
    responses((status = 200, description = "What the decision led to", body = StepDecided)))]
async fn decide_step(call: Call, JsonBody(sent): JsonBody<Sentence>) -> Answer {
    let (queue, job, step) = (call.queue()?, call.path::<JobId>("id")?, call.path::<StepName>("step")?);
    let verdict = from_text::<Verdict>("/verdict", &sent.verdict)?;
    let result = sent.result.map(|result| result.to_string());
    let retention = call.app.effective.config.fleet_config().worker.retention_of(queue.name());
    let input = Decision { job, step, verdict, result, retention };
    call.done(decide(&queue, &call.actor(&sent.reason), &input).await)
}
