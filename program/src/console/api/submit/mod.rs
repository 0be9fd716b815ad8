//! Submitting jobs: one as JSON (here), many as NDJSON (`batch`, which reads `lines`), or those of a batch (`members`). A request
//! that has an `Idempotency-Key` (`key`) may be repeated.

mod batch;
mod key;
mod lines;
mod members;

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;
use streamfleet::job::Encoding;
use streamfleet::{Queue, WaitError};
use streamfleet_operations::submit::{self, Draft, NewJob, Receipt, Target, read_draft};
use utoipa_axum::routes;

use self::key::{IdempotencyKey, Origin, check_own_id};
use super::failure::{invalid, redis, refused_as};
use super::weight::hold_decoded;
use super::work_limits::Work;
use super::{Call, Problem, QueryParams, Routes, json_body, link, operations, query};
use crate::console::access::{Person, Role};
use crate::console::app_state::AppState;
use crate::enqueue::{self, WaitReport};

/// A job that was submitted, and, after a wait, how it ended: what `Receipt` and `WaitReport` have, as one, because a client that is
/// generated for a choice takes the first that fits, and loses what only the other one has.
#[derive(utoipa::ToSchema)]
#[schema(description = "The job that was submitted, and, after a wait, how it ended.")]
#[expect(dead_code, reason = "it only describes answers")]
struct SubmitAnswer {
    /// The id of the job.
    id: String,
    /// The queue.
    queue: String,
    /// True if the job existed already, with this id or this unique key.
    existing: bool,
    /// The state of the job; null after a wait if it is not known.
    state: Option<String>,
    /// The lane for which it was meant; absent after a wait.
    lane: Option<String>,
    /// The job that held the unique key and was cancelled.
    replaced: Option<String>,
    /// True if the job that holds the unique key got this payload and time.
    #[schema(required = false)]
    debounced: bool,
    /// The result of the job, after a wait.
    result: Option<Value>,
    /// The error of the job, after a wait.
    error: Option<String>,
}

/// How long a requested durability may take to be confirmed.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::ENQUEUE, routes!(submit_job))
        .operation(&operations::ENQUEUE, routes!(members::open_batch))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct SubmitParams {
    /// Wait for the job's end, at most this long, such as `30s`; at most `60s`. The job then leaves a record. Only for one job.
    #[serde(deserialize_with = "query::wait")]
    #[param(value_type = Option<String>)]
    wait: Option<Duration>,
}

/// Submits a job, or many.
///
/// As `application/json`, the body is one job. With `wait`, the answer is how the job ended (200), or that it has not ended yet
/// (202). As `application/x-ndjson`, the body has one job per line, of up to 64 MiB together; the answer has a line for each of
/// them, while the body still arrives, and a last line with `done` and how many are `accepted`, `existing`, `rejected` and `unknown`.
///
/// With an `Idempotency-Key`, a repeated request submits nothing more for 24 hours, or as long as `idempotent_for` says.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/jobs", tag = "jobs",
    params(SubmitParams, ("Idempotency-Key" = Option<String>, Header,
        description = "A text of 1 to 255 visible ASCII characters, such as a UUID, that is the same if the request is repeated")),
    request_body(content((NewJob = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "The job existed already, or it has ended; or the fate of each line", content(
            (SubmitAnswer = "application/json"), (String = "application/x-ndjson"))),
        (status = 201, description = "The job is accepted", body = Receipt,
            headers(("Location" = String, description = "The job"))),
        (status = 202, description = "The job is accepted, and has not ended within the wait", body = WaitReport)))]
async fn submit_job(
    call: Call,
    QueryParams(SubmitParams { wait }): QueryParams<SubmitParams>,
    key: Option<IdempotencyKey>,
    request: Request,
) -> Result<Response, Problem> {
    let queue = call.queue()?;
    let origin = key.map(|key| key.origin(call.person.name()));
    if json_body::media_type(request.headers()).is_some_and(|name| name == "application/x-ndjson") {
        if wait.is_some() {
            return Err(Problem::field("query.wait", "it works only with one job, as application/json"));
        }
        return batch::submit(&call, queue, origin, request.into_body()).await;
    }
    json_body::must_be_json(request.headers())?;
    let (parts, body) = request.into_parts();
    let body = json_body::read(&call.app, &parts.headers, body).await?;
    let one = One::read(&call, queue, origin.as_ref(), &body).await?;
    match wait {
        Some(longest) => one.submit_and_wait(&call, longest).await,
        None => one.submit(&call).await,
    }
}

/// Whether the payload of a job may have to be decoded: for its schema, or to become MessagePack. Any other is sent as it came.
fn is_decoded(job: &[u8], app: &AppState) -> bool {
    !app.schemas.is_empty() || may_name_msgpack(job)
}

/// Whether this JSON may have the name of MessagePack in it, also with escaped letters, which no usual producer writes.
fn may_name_msgpack(json: &[u8]) -> bool {
    let name = Encoding::Msgpack.as_str().as_bytes();
    let is_letter = |part: &[u8]| part.starts_with(br"\u006") || part.starts_with(br"\u007");
    json.windows(name.len()).any(|part| part == name || is_letter(part))
}

/// Where the jobs of a request go.
fn target_of(app: &AppState, queue: Queue) -> Target {
    let target = enqueue::target(queue, &app.effective);
    let producer = target.producer.schemas(app.schemas.clone()).confirm_within(CONFIRM_WITHIN);
    Target { producer, ..target }
}

/// Checks that somebody may submit to each queue that a job's chain names.
fn check_chain(person: &Person, draft: &Draft) -> Result<(), Problem> {
    draft.follow.queues().try_for_each(|queue| person.check(Role::Submitter, Some(queue)))
}

/// One job that is about to be submitted.
struct One {
    target: Target,
    draft: Draft,
    /// What the key of the request makes of the job, if it has one.
    marked: Option<key::Marked>,
}

impl One {
    async fn read(call: &Call, queue: Queue, origin: Option<&Origin>, body: &[u8]) -> Result<Self, Problem> {
        let app = &call.app;
        let read = Instant::now();
        let now = queue.clock().await.map_err(redis("failed to read the clock of Redis"))?;
        if is_decoded(body, app) {
            hold_decoded(&app.work_limits, (body, Encoding::Json), 1)?;
        }
        let mut draft = read_draft(body, now.after(read.elapsed())).map_err(invalid)?;
        check_own_id(draft.id.as_ref(), "/id")?;
        check_chain(&call.person, &draft)?;
        let marked = origin.and_then(|origin| origin.mark(&mut draft, 0));
        Ok(Self { target: target_of(app, queue), draft, marked })
    }

    /// Submits the job, and keeps the mark of its key.
    async fn submitted(self) -> Result<(Target, Receipt), Problem> {
        let Self { target, draft, marked } = self;
        let own = draft.job_type.clone();
        let submitted = submit::submit(&target, draft).await;
        let receipt = submitted.map_err(|error| refused_as(&own, &error))?;
        if let Some(marked) = marked {
            marked.check(&target.queue, &receipt.submitted).await?;
            marked.note(&target.queue, &receipt.submitted).await;
        }
        Ok((target, receipt))
    }

    async fn submit(self, call: &Call) -> Result<Response, Problem> {
        let (_, receipt) = self.submitted().await?;
        let status = if receipt.existing { StatusCode::OK } else { StatusCode::CREATED };
        answer(status, call.answer(&receipt)?, &receipt)
    }

    async fn submit_and_wait(mut self, call: &Call, longest: Duration) -> Result<Response, Problem> {
        let _permit = call.app.work_limits.begin(Work::Wait)?;
        // Without a record, nobody would learn the job's end.
        self.draft.track = true;
        let (target, receipt) = self.submitted().await?;
        let (status, outcome) = match target.producer.wait(&receipt.submitted.id, longest).await {
            Ok(ended) => (StatusCode::OK, WaitReport::ended(&ended, &receipt)),
            Err(WaitError::TimedOut { state, .. }) => {
                (StatusCode::ACCEPTED, WaitReport::unfinished(&receipt, state))
            }
            Err(WaitError::Broker { source, job }) => {
                return Err(Problem::redis(&format!("{job} is submitted, but cannot be looked up"), &source));
            }
            Err(error) => return Err(Problem::not_found(error.to_string())),
        };
        answer(status, call.answer(&outcome)?, &receipt)
    }
}

/// An answer about a job that was submitted.
fn answer(status: StatusCode, body: Json<Value>, receipt: &Receipt) -> Result<Response, Problem> {
    let address = link::to(&["queues", receipt.queue.as_str(), "jobs", receipt.id.as_str()]);
    Ok((status, [(header::LOCATION, address)], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_letters_do_not_hide_that_a_payload_has_to_be_decoded() {
        for job in [r#"{"type":"a","encoding":"msgpack"}"#, r#"{"type":"a","encoding":"msgp\u0061c\u006b"}"#]
        {
            assert!(may_name_msgpack(job.as_bytes()), "{job}");
        }
        for job in [r#"{"type":"a","payload":"caf\u00e9"}"#, r#"{"type":"a"}"#, ""] {
            assert!(!may_name_msgpack(job.as_bytes()), "{job}");
        }
    }
}
