//! Changes of one job: cancelling it, making it due, rescheduling and editing it; and the delayed jobs.

use serde::Deserialize;
use serde_json::value::RawValue;
use streamfleet::Queue;
use streamfleet::job::{Encoding, JobId};
use streamfleet_engine::admin::{DelayedEdit, DelayedJob, Due};
use streamfleet_operations::jobs::delayed::{self, Changed, DelayedList};
use streamfleet_operations::jobs::{self, CancelOutcome, Cancelled};
use utoipa_axum::routes;

use super::job::found;
use super::revision::{IfMatch, Revision};
use super::weight::hold_fields;
use super::{Answer, Call, JsonBody, PageParams, Problem, QueryParams, Routes, done, names, operations};
use crate::cancel::retention;
use crate::console::app_state::AppState;
use crate::enqueue::{self, Length};
use crate::times;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::CANCEL, routes!(cancel_job))
        .operation(&operations::RUN_NOW, routes!(run_job_now))
        .operation(&operations::DELAYED_LIST, routes!(list_delayed))
        .operation(&operations::DELAYED_EDIT, routes!(edit_job))
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
    responses((status = 200, description = "What became of the job", body = Cancelled)))]
async fn cancel_job(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    // A search for a job in another lane than an entry's id implies is bounded.
    let id = found(&call.app, &queue, &id).await?.id;
    let (actor, retention) = (call.actor(&reason), retention(queue.name(), &call.app.effective));
    let cancelled = done(jobs::cancel(&queue, &actor, &id, retention).await)?;
    match &cancelled.outcome {
        CancelOutcome::Done | CancelOutcome::Requested | CancelOutcome::Repeated => call.answer(&cancelled),
        CancelOutcome::Ended(state) => {
            Err(Problem::conflict(format!("{id} is already {state}: nothing was changed")))
        }
        CancelOutcome::Moved(to) => {
            Err(Problem::conflict(format!("{id} was moved to the queue {to}: cancel it there")))
        }
    }
}

/// Lists the jobs that are delayed or wait for their retry, the next due first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/delayed", tag = "jobs", params(PageParams),
    responses((status = 200, description = "A page of delayed jobs", body = DelayedList)))]
async fn list_delayed(call: Call, QueryParams(asked): QueryParams<PageParams>) -> Answer {
    let (queue, skip) = (call.queue()?, asked.after::<u64>()?.unwrap_or(0));
    let (page, _) = delayed::list(&queue, skip, asked.limit()).await?;
    if page.facts.total == 0 {
        names::must_have(&call.app, queue.name()).await?;
    }
    call.answer(&page)
}

/// Reads a delayed job to change it.
///
/// # Errors
///
/// [`Problem`] if it is not delayed, the memory for it is not to be had, or too many others read.
async fn read_delayed(app: &AppState, queue: &Queue, id: &JobId) -> Result<DelayedJob, Problem> {
    let job = app.work_limits.read(delayed::read(queue, id)).await??;
    hold_fields(&app.work_limits, &job.fields, |_| false, 0)?;
    Ok(job)
}

/// Makes a delayed job or a retry due at once.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/jobs/{id}/run-now", tag = "jobs", request_body = Reason,
    responses((status = 200, description = "When the job is due", body = Changed)))]
async fn run_job_now(call: Call, based: IfMatch, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let id = found(&call.app, &queue, &id).await?.id;
    let job = read_delayed(&call.app, &queue, &id).await?;
    based.check(&Revision::of_job(&job, &call.app))?;
    call.done(delayed::run_now(&queue, &call.actor(&reason), &job).await)
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
    responses((status = 200, description = "When the job is due", body = Changed),
        (status = 409, description = "The job is not delayed"), (status = 412, description = "The job has changed")))]
async fn edit_job(call: Call, based: IfMatch, JsonBody(sent): JsonBody<Edit>) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let (mut changes, encoding) = (DelayedEdit::default().due(sent.due()?), sent.encoding()?);
    if changes.due.is_none() && sent.payload.is_none() {
        return Err(Problem::field("body", "say what to change: delay, at or payload"));
    }
    let id = found(&call.app, &queue, &id).await?.id;
    let job = read_delayed(&call.app, &queue, &id).await?;
    if let Some(payload) = &sent.payload {
        let encoding = encoding.or_else(|| jobs::encoding(&job.fields)).unwrap_or_default();
        changes = changes.payload(encoded(payload, encoding)?, encoding);
    }
    based.check(&Revision::of_job(&job, &call.app))?;
    let (actor, producer) = (call.actor(&sent.reason), call.app.producer(queue.clone()));
    let edit = delayed::Edit { job: &job, changes: &changes, producer: &producer };
    call.done(delayed::edit(&queue, &actor, &edit).await)
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

    /// The encoding of the new payload, if it is named.
    fn encoding(&self) -> Result<Option<Encoding>, Problem> {
        let named = self.encoding.as_deref().map(enqueue::encoding).transpose();
        named.map_err(|why| Problem::field("/encoding", why))
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
