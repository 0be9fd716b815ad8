//! Pausing and resuming a queue, a type, or a field's value.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{GateName, JobType};
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
use crate::enqueue::Length;
use crate::pause::{self, Changed};

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(pause_queue), Needs::Role(Role::Operator))
        .describe(routes!(resume_queue), Needs::Role(Role::Operator))
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
        (None, Some(key)) => pause::key(key).map_err(|why| Problem::field("/key", why)),
        (Some(name), None) => {
            let job_type = name.parse::<JobType>();
            let named = job_type.map_err(|error| Problem::field("/type", error.to_string()))?;
            Ok(GateName::of_type(&named))
        }
    }
}

/// Pauses a queue, or some of its jobs.
///
/// No further job starts, and running ones finish.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/pause", tag = "queues", request_body = Pause,
    responses((status = 200, description = "What is paused", body = Changed)))]
async fn pause_queue(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(sent): Sent<Pause>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let gate = gate(sent.job_type.as_deref(), sent.key.as_deref())?;
    let time = sent.time.as_ref().map(Length::read).transpose().map_err(|why| Problem::field("/for", why))?;
    let action = actor::action(person.name(), "pause", &sent.reason);
    let closed = pause::close(&queue, &gate, &action, time).await.map_err(failed)?;
    View::of(&person, &site).json(&closed)
}

/// Resumes a queue, or some of its jobs.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/resume", tag = "queues", request_body = Resume,
    responses((status = 200, description = "What is resumed", body = Changed)))]
async fn resume_queue(
    State(site): State<Site>,
    person: Person,
    place: Place,
    asked: Asked,
    Sent(sent): Sent<Resume>,
) -> Result<Json<Value>, Problem> {
    asked.end()?;
    let queue = place.queue(&site)?;
    let gate = gate(sent.job_type.as_deref(), sent.key.as_deref())?;
    let action = actor::action(person.name(), "resume", &sent.reason);
    let opened = pause::open(&queue, &gate, &action).await.map_err(failed)?;
    View::of(&person, &site).json(&opened)
}
