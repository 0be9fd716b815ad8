//! Pausing and resuming a queue, a type, or a field's value.

use serde::Deserialize;
use streamfleet::job::{GateName, JobType};
use streamfleet_operations::gates::{self, Paused, value_gate};
use utoipa_axum::routes;

use super::{Answer, Call, JsonBody, Problem, Routes, from_text, names, operations};
use crate::enqueue::Length;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::PAUSE, routes!(pause_queue))
        .operation(&operations::RESUME, routes!(resume_queue))
}

/// What to pause. Without a type and a key, it is the whole queue.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Pause, examples(json!({"type": "mail.send", "for": "1h", "reason": "the relay is down"})))]
struct Pause {
    /// Only the jobs of this type.
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Only the jobs with this value of a field or header, such as `h.tenant=9`; without a value, all jobs that have the field.
    key: Option<String>,
    /// Resume by itself after this time. Default: somebody must resume.
    #[serde(rename = "for")]
    time: Option<Length>,
    /// Why it is done, for those who look at it.
    #[serde(default)]
    reason: String,
    /// Pause a queue that does not exist or a type that no live worker knows, or replace the pause of another person. Without it,
    /// such a request is a conflict.
    #[serde(default)]
    confirm: bool,
}

/// What to resume. Without a type and a key, it is the whole queue.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Resume, examples(json!({"type": "mail.send"})))]
struct Resume {
    /// Only the jobs of this type.
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Only the jobs with this value of a field or header.
    key: Option<String>,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// The gate that a type or a key names.
fn gate(job_type: Option<&str>, key: Option<&str>) -> Result<GateName, Problem> {
    match (job_type, key) {
        (Some(_), Some(_)) => Err(Problem::field("/key", "type and key cannot be used together")),
        (None, None) => Ok(GateName::queue()),
        (None, Some(key)) => value_gate(key).map_err(|why| Problem::field("/key", why)),
        (Some(name), None) => Ok(GateName::of_type(&from_text::<JobType>("/type", name)?)),
    }
}

/// Pauses a queue, or some of its jobs.
///
/// No further job starts, and running ones finish.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/pause", tag = "queues", request_body = Pause,
    responses((status = 200, description = "What is paused", body = Paused)))]
async fn pause_queue(call: Call, JsonBody(sent): JsonBody<Pause>) -> Answer {
    let queue = call.queue()?;
    let gate = gate(sent.job_type.as_deref(), sent.key.as_deref())?;
    let time = sent.time.as_ref().map(Length::read).transpose().map_err(|why| Problem::field("/for", why))?;
    names::must_be_meant(&call, &queue, sent.confirm).await?;
    let input = gates::Pause { gate, time, is_sure: sent.confirm };
    call.done(gates::pause(&queue, &call.actor(&sent.reason), &input).await)
}

/// Resumes a queue, or some of its jobs.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/resume", tag = "queues", request_body = Resume,
    responses((status = 200, description = "What is resumed", body = Paused)))]
async fn resume_queue(call: Call, JsonBody(sent): JsonBody<Resume>) -> Answer {
    let queue = call.queue()?;
    let gate = gate(sent.job_type.as_deref(), sent.key.as_deref())?;
    call.done(gates::resume(&queue, &call.actor(&sent.reason), &gate).await)
}
