//! One job: everything that is known about it, its payload and its result as they are.

use std::time::Duration;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::{Encoding, Envelope, JobId, QueueName};
use streamfleet::{Producer, Queue, WaitError};
use streamfleet_engine::admin::Status;
use streamfleet_operations::jobs::{self, Input, Job, Seen, encoding, results};
use utoipa_axum::routes;

use super::failure::{failed, redis};
use super::revision::Revision;
use super::weight::{hold_decoded, hold_fields};
use super::work_limits::Work;
use super::{Answer, Call, Problem, ProblemKind, QueryParams, Routes, operations, query};
use crate::console::access::{Mask, Role};
use crate::console::app_state::AppState;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::STATUS, routes!(get_job))
        .operation(&operations::STATUS, routes!(get_payload))
        .operation(&operations::STATUS, routes!(get_result))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct JobParams {
    /// Wait until the job has ended, at most this long, such as `30s`; at most `60s`. The answer then has the state of that time.
    #[serde(deserialize_with = "query::wait")]
    #[param(value_type = Option<String>)]
    wait: Option<Duration>,
    /// Show the whole payload, however large it is.
    full: bool,
}

/// Shows everything that is known about a job.
///
/// A job that is delayed or waits for its retry has an `ETag`, with which it can be edited.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}", tag = "jobs", params(JobParams),
    responses((status = 200, description = "The job", body = Job,
        headers(("ETag" = String, description = "The revision of a delayed job, for If-Match")))))]
async fn get_job(
    call: Call,
    QueryParams(JobParams { wait, full }): QueryParams<JobParams>,
) -> Result<Response, Problem> {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let status = found(&call.app, &queue, &id).await?;
    let status = after_wait(wait, &call.app, (&queue, &id), status).await?;
    if let Some(result) = &status.result {
        hold_decoded(&call.app.work_limits, (result.as_bytes(), Encoding::Json), 2)?;
    }
    let input = match call.app.work_limits.read(queue.fields(&status)).await? {
        Ok(Some(fields)) => Ok(Some(input_of(&call, &fields, full)?)),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let configured = call.app.effective.config.queues.keys();
    // A remark on a queue that nobody serves names others.
    let configured: Vec<QueueName> =
        configured.filter(|name| call.person.may(Role::Viewer, name)).cloned().collect();
    let job = jobs::status((&call.app.broker, &configured[..]), (&queue, &status), input).await?;
    if let Some(remark) = &job.remark {
        tracing::warn!(remark, "a job is shown without its payload");
    }
    let mut response = call.answer(&job)?.into_response();
    // A revision that comes back would tell others that they have guessed the former payload.
    if status.due.is_some() && call.sees_all() {
        let delayed = call.app.work_limits.read(queue.delayed().get(&status.id)).await?;
        let delayed = delayed.map_err(redis("failed to read the job"))?;
        if let Some(job) = delayed {
            response.headers_mut().insert(header::ETAG, Revision::of_job(&job, &call.app).header());
        }
    }
    Ok(response)
}

/// What a job got, as far as this person may see it.
///
/// # Errors
///
/// [`Problem`] if there is no memory for it.
fn input_of(call: &Call, fields: &Envelope, is_full: bool) -> Result<Input, Problem> {
    if !call.sees_payloads() {
        hold_fields(&call.app.work_limits, fields, |_| false, 0)?;
        return Ok(Input::without_values(fields));
    }
    let seen = jobs::seen(fields);
    let shown = seen.as_ref().map_or(fields, |seen| &seen.fields);
    let bytes = shown.get(b"payload").map_or(0, <[u8]>::len);
    let is_decoded = is_full || bytes <= Input::MAX_DECODED;
    // It is decoded to be read, and copied to be masked.
    let times = if is_decoded { 2 } else { 0 };
    hold_fields(&call.app.work_limits, shown, |name| is_decoded || name != b"payload", times)?;
    Ok(Input::of(fields, is_full))
}

/// Waits for the end of a job, and finds it again. A job that has not ended, or has left no record, is no problem here.
async fn after_wait(
    wait: Option<Duration>,
    app: &AppState,
    (queue, id): (&Queue, &JobId),
    status: Status,
) -> Result<Status, Problem> {
    let Some(longest) = wait.filter(|_| !status.state.is_final()) else { return Ok(status) };
    let _permit = app.work_limits.begin(Work::Wait)?;
    match Producer::new(queue.clone()).wait(&status.id, longest).await {
        Ok(_) | Err(WaitError::TimedOut { .. } | WaitError::Gone { .. }) => found(app, queue, id).await,
        Err(WaitError::Broker { source, .. }) => Err(Problem::redis("failed to look up the job", &source)),
        Err(error) => Err(failed(error.into())),
    }
}

/// Finds a job. One that nothing points to is searched for.
///
/// # Errors
///
/// [`Problem`] with the status 404 if the queue does not know it, or 429 if too many searches run.
pub(super) async fn found(app: &AppState, queue: &Queue, id: &JobId) -> Result<Status, Problem> {
    if let Some(status) = jobs::known(queue, id).await? {
        return Ok(status);
    }
    let _permit = app.work_limits.begin(Work::Search)?;
    match jobs::find(queue, id).await? {
        Some(status) => Ok(status),
        None => Err(jobs::unknown(queue, id).await.into()),
    }
}

/// Returns the payload of a job as it is.
///
/// Its `Content-Type` tells how it is encoded: `application/json`, `application/msgpack` or `application/octet-stream`.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}/payload", tag = "jobs",
    responses((status = 200, description = "The bytes of the payload", content(
        (Value = "application/json"), (Vec<u8> = "application/msgpack"), (Vec<u8> = "application/octet-stream")
    ))))]
async fn get_payload(call: Call) -> Result<Response, Problem> {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let status = found(&call.app, &queue, &id).await?;
    call.check_payloads()?;
    let fields = call.app.work_limits.read(queue.fields(&status)).await?;
    let fields = fields.map_err(redis("failed to read the payload"))?;
    let gone = || Problem::not_found(format!("the job {id} is {}, and its payload is gone", status.state));
    let mut fields = fields.ok_or_else(gone)?;
    // What was only compressed is decompressed; nobody can see the others, so they are sent as they are.
    if let Some(Seen { fields: decompressed, unseen: None, .. }) = jobs::seen(&fields) {
        fields = decompressed;
    }
    hold_fields(&call.app.work_limits, &fields, |_| false, usize::from(!call.mask().is_empty()))?;
    let (payload, media_type) = masked(&fields, call.mask())?;
    // A browser saves it, and does not show it.
    let disposition = (header::CONTENT_DISPOSITION, "attachment; filename=\"payload\"");
    Ok(([(header::CONTENT_TYPE, media_type), disposition], payload).into_response())
}

/// The payload as it may be shown, and what it is.
fn masked(fields: &Envelope, mask: &Mask) -> Result<(Vec<u8>, &'static str), Problem> {
    let payload = fields.get(b"payload").unwrap_or_default();
    let encoding = encoding(fields);
    let media_type = match encoding {
        Some(Encoding::Json) => "application/json",
        Some(Encoding::Msgpack) => "application/msgpack",
        Some(Encoding::Raw) | None => "application/octet-stream",
    };
    let hidden = || {
        let why = "fields are masked, and this payload cannot be read to find them, or is too large for that";
        Problem::new(ProblemKind::NotAllowed, why)
    };
    Ok((mask.bytes(payload, encoding).ok_or_else(hidden)?.into_owned(), media_type))
}

/// Returns the result of a job that is done: the JSON that its handler returned.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs/{id}/result", tag = "jobs", params(WaitParams),
    responses((status = 200, description = "The result; null if there is none", body = Value)))]
async fn get_result(call: Call, QueryParams(WaitParams { wait }): QueryParams<WaitParams>) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("id")?);
    let status = found(&call.app, &queue, &id).await?;
    call.check_payloads()?;
    let status = after_wait(wait, &call.app, (&queue, &id), status).await?;
    if status.state != streamfleet::job::State::Done {
        return Err(Problem::conflict(format!("the job {id} is {}: it has no result", status.state)));
    }
    if let Some(result) = &status.result {
        hold_decoded(&call.app.work_limits, (result.as_bytes(), Encoding::Json), 1)?;
    }
    let mut value = status.result.as_ref().map_or(Value::Null, |result| results::value(result.as_bytes()));
    call.mask().apply_to_body(&mut value);
    Ok(Json(value))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct WaitParams {
    /// Wait until the job has ended, at most this long, such as `30s`; at most `60s`.
    #[serde(deserialize_with = "query::wait")]
    #[param(value_type = Option<String>)]
    wait: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use streamfleet_engine::admin::Filter;

    use super::*;

    #[test]
    fn what_no_worker_reads_is_not_read_to_be_masked() {
        let read = |encoding: &'static str, payload: &[u8]| {
            let fields: [(&[u8], &[u8]); 2] = [(b"encoding", encoding.as_bytes()), (b"payload", payload)];
            masked(&Envelope::new(fields.into_iter()), &Mask::new(["card"])).map(|(shown, _)| shown)
        };
        let nested = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert_eq!(read("msgpack", &nested(20)).ok(), Some(nested(20)));
        assert!(read("msgpack", &nested(1000)).is_err());
        assert!(read("json", format!("\"{}\"", "x".repeat(Filter::MAX_PAYLOAD_BYTES)).as_bytes()).is_err());
    }
}
