//! Changes of one job: cancelling it, making it due, rescheduling and editing it.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use streamfleet::Queue;
use streamfleet::job::{Encoding, JobId};
use streamfleet_engine::admin::{Amended, DelayedEdit, DelayedJob, Due};
use utoipa_axum::routes;

use super::failure::{failed, redis, refused};
use super::job::{found, unknown};
use super::place::Place;
use super::privacy::View;
use super::revision::{IfMatch, Revision, changed};
use super::sent::Sent;
use crate::cancel;
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::delayed;
use crate::enqueue::{self, Length};
use crate::{actor, times};

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(cancel_job), Needs::Role(Role::Operator))
        .describe(routes!(run_job_now), Needs::Role(Role::Operator))
        .describe(routes!(edit_job), Needs::Role(Role::Operator))
}

/// Why something is done.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Reason, examples(json!({"reason": "the customer has left"})))]
pub(super) struct Reason {
    /// Why it is done, for the audit.
    #[serde(default)]
    pub(super) reason: String,
}

/// Cancels a job, wherever it is.
///
/// A running job is asked to stop. Then `cancelling` is true.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/jobs/{id}/cancel", tag = "jobs", request_body = Reason,
    responses((status = 200, description = "What became of the job", body = cancel::Report)))]
async fn cancel_job(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("id")?);
    // The job may be in another lane than an entry's id implies; a search for it is bounded.
    let id = found(&site, &queue, &id).await?.id;
    actor::note(&queue, &actor::action(person.name(), "cancel", &reason).target(id.to_string()).count(1))
        .await;
    let context = site.context(site.stopping().clone());
    let report = cancel::cancel(&queue, &id, person.name(), &context).await.map_err(failed)?;
    let report = report.ok_or_else(|| unknown(&queue, &id))?;
    if let Some(to) = &report.moved_to {
        return Err(Problem::conflict(format!("{id} was moved to the queue {to}: cancel it there")));
    }
    if let Some(state) = report.ended {
        return Err(Problem::conflict(format!("{id} is already {state}: nothing was changed")));
    }
    View::of(&person, &site).json(&report)
}

/// Makes a delayed job or a retry due at once.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/jobs/{id}/run-now", tag = "jobs", request_body = Reason,
    responses((status = 200, description = "When the job is due", body = delayed::Amended)))]
async fn run_job_now(
    State(site): State<Site>,
    person: Person,
    place: Place,
    based: IfMatch,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("id")?);
    let edit = DelayedEdit::default().due(Due::Now);
    let change = Change { edit, based, what: "run-now", reason };
    change.apply(&site, &person, (&queue, &id)).await
}

/// What to change in a delayed job.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JobEdit, examples(json!({"delay": "1h30m"}), json!({"payload": {"to": "bob@example.com"}})))]
struct Edit {
    /// The job is due after this long.
    delay: Option<Length>,
    /// The job is due at this instant, such as `2026-12-01T10:00:00Z`.
    at: Option<String>,
    /// The new payload. With the encoding `raw`, a string whose UTF-8 bytes are the payload.
    #[schema(value_type = Option<Value>)]
    payload: Option<Box<RawValue>>,
    /// How the new payload is encoded: `json`, `msgpack` (the JSON is converted) or `raw`. Default: as the payload that it
    /// replaces.
    encoding: Option<String>,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// Changes when a delayed job or a retry is due, or its payload, or both in one step.
///
/// Everything else stays as it is, also its attempts. With `If-Match`, the job is only changed if nobody has changed it since its
/// `ETag` was read.
#[utoipa::path(patch, path = "/api/v1/queues/{queue}/jobs/{id}", tag = "jobs", request_body = Edit,
    params(("If-Match" = Option<String>, Header, description = "The ETag of the job")),
    responses((status = 200, description = "When the job is due", body = delayed::Amended),
        (status = 409, description = "The job is not delayed"), (status = 412, description = "The job has changed")))]
async fn edit_job(
    State(site): State<Site>,
    person: Person,
    place: Place,
    based: IfMatch,
    Sent(sent): Sent<Edit>,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (place.queue(&site)?, place.get::<JobId>("id")?);
    let mut edit = DelayedEdit::default().due(sent.due()?);
    if let Some(payload) = &sent.payload {
        let encoding = sent.encoding(&queue, &id).await?;
        edit = edit.payload(encoded(payload, encoding)?, encoding);
    }
    if edit == DelayedEdit::default() {
        return Err(Problem::field("body", "say what to change: delay, at or payload"));
    }
    let change = Change { edit, based, what: "delayed edit", reason: sent.reason };
    change.apply(&site, &person, (&queue, &id)).await
}

impl Edit {
    fn due(&self) -> Result<Option<Due>, Problem> {
        match (&self.delay, &self.at) {
            (Some(_), Some(_)) => Err(Problem::field("/at", "delay and at cannot be used together")),
            (None, None) => Ok(None),
            (Some(delay), None) => {
                delay.read().map(|delay| Some(Due::In(delay))).map_err(|why| Problem::field("/delay", why))
            }
            (None, Some(at)) => {
                times::instant(at).map(|at| Some(Due::At(at))).map_err(|why| Problem::field("/at", why))
            }
        }
    }

    /// The encoding of the new payload.
    async fn encoding(&self, queue: &Queue, id: &JobId) -> Result<Encoding, Problem> {
        if let Some(name) = &self.encoding {
            let wrong = || Problem::field("/encoding", "an encoding must be json, msgpack or raw");
            return Encoding::parse(name).ok_or_else(wrong);
        }
        let job = queue.delayed().get(id).await.map_err(redis("failed to read the job"))?;
        let named = job.as_ref().and_then(|job| job.fields.get(b"encoding"));
        let named = named.and_then(|name| Encoding::parse(std::str::from_utf8(name).ok()?));
        Ok(named.unwrap_or_default())
    }
}

/// The bytes of a payload that is written in JSON.
pub(super) fn encoded(payload: &RawValue, encoding: Encoding) -> Result<Vec<u8>, Problem> {
    if encoding == Encoding::Raw {
        let text: Result<String, _> = serde_json::from_str(payload.get());
        let why = "with the encoding raw, it must be a string, whose UTF-8 bytes are the payload";
        return text.map(String::into_bytes).map_err(|_| Problem::field("/payload", why));
    }
    let encoded = enqueue::encode(payload.get().as_bytes().to_vec(), encoding);
    encoded.map_err(|why| Problem::field("/payload", why))
}

/// A change of a delayed job.
struct Change {
    edit: DelayedEdit,
    /// The revisions that it may be based on.
    based: IfMatch,
    /// What the audit calls it.
    what: &'static str,
    reason: String,
}

impl Change {
    async fn apply(
        self,
        site: &Site,
        person: &Person,
        (queue, id): (&Queue, &JobId),
    ) -> Result<Json<Value>, Problem> {
        let Self { edit, based, what, reason } = self;
        let (job, id) = delayed_job(site, queue, id).await?;
        based.check(&Revision::of_job(&job, site))?;
        let action = actor::action(person.name(), what, &reason).target(id.to_string()).count(1);
        let producer = site.producer(queue.clone());
        match producer.amend(&job, &edit).await.map_err(|error| refused(&error))? {
            Amended::Done(due) => {
                actor::note(queue, &action).await;
                View::of(person, site).json(&delayed::Amended::of(queue, &id, due))
            }
            Amended::Changed => Err(changed()),
            Amended::Gone => {
                Err(Problem::conflict(format!("{id} is no longer delayed: nothing was changed")))
            }
        }
    }
}

/// Reads a delayed job.
async fn delayed_job(site: &Site, queue: &Queue, id: &JobId) -> Result<(DelayedJob, JobId), Problem> {
    if let Some(job) = queue.delayed().get(id).await.map_err(redis("failed to read the job"))? {
        return Ok((job, id.clone()));
    }
    let status = found(site, queue, id).await?;
    if let Some(job) = queue.delayed().get(&status.id).await.map_err(redis("failed to read the job"))? {
        return Ok((job, status.id));
    }
    Err(Problem::conflict(format!(
        "{id} is {}: only a job that is delayed or waits for its retry can be changed",
        status.state
    )))
}
