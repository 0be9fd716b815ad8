//! Dead letters: lists, one letter, replaying and dropping it.

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use streamfleet::job::{Encoding, EntryId, FollowUps, JobId};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::{DeadLetter, LetterLimits};
use streamfleet_operations::dead::{self, Field, Letter, LetterFacts, LetterFields, Listing, Sweep, Swept};
use streamfleet_operations::{List, jobs as of_jobs};
use utoipa_axum::routes;

use super::changes::Reason;
use super::jobs::SEARCH_FOR;
use super::revision::Revision;
use super::selection::Selection;
use super::weight::hold_fields;
use super::work_limits::{Work, within};
use super::{
    Answer, Call, JsonBody, PageParams, Problem, ProblemKind, QueryParams, Routes, done, operations, query,
};
use crate::console::access::Mask;
use crate::dead::limits;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::DEAD_LIST, routes!(list_letters))
        .operation(&operations::DEAD_SHOW, routes!(get_letter))
        .operation(&operations::DEAD_REPLAY, routes!(replay_letter))
        .operation(&operations::DEAD_DROP, routes!(drop_letter))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct OrderParams {
    /// List the oldest dead letters first.
    oldest_first: bool,
    /// Only dead letters of jobs that this task has replayed.
    task: Option<String>,
}

type LetterPage = List<Letter, LetterFacts>;

/// Lists dead letters, newest first.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead", tag = "dead letters",
    params(OrderParams, Selection, PageParams),
    responses((status = 200, description = "A page of dead letters", body = LetterPage)))]
async fn list_letters(
    call: Call,
    QueryParams((order, selection, page)): QueryParams<(OrderParams, Selection, PageParams)>,
) -> Answer {
    let (queue, limit, after) = (call.queue()?, page.limit(), page.after::<EntryId>()?);
    let filter = selection.filter_of_query(&call)?;
    let wanted = Listing { filter, limit, after, oldest_first: order.oldest_first, task: order.task };
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let stop = Shutdown::new();
    let work = dead::list(&queue, &wanted, &stop);
    let (page, _) = within(SEARCH_FOR, (&stop, &call.app.stopping), work).await?;
    call.list(&queue, &page).await
}

/// Shows a dead letter with all its fields.
///
/// Its `ETag` changes when somebody edits it.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/dead/{letter}", tag = "dead letters",
    responses((status = 200, description = "The dead letter", body = LetterFields,
        headers(("ETag" = String, description = "The revision of the dead letter, for If-Match")))))]
async fn get_letter(call: Call) -> Result<Response, Problem> {
    let (queue, id) = (call.queue()?, call.path::<JobId>("letter")?);
    let letters = queue.dead_letters();
    let letters = if call.sees_payloads() { letters } else { letters.bare() };
    let letter = call.app.work_limits.read(dead::find(letters, &queue, &id)).await??;
    let is_decoded = call.sees_payloads() && !call.sees_all();
    let seen = of_jobs::seen(&letter.fields);
    let fields = seen.as_ref().map_or(&letter.fields, |seen| &seen.fields);
    hold_fields(&call.app.work_limits, fields, |_| call.sees_payloads(), usize::from(is_decoded))?;
    let tag = (header::ETAG, Revision::of_letter(&letter).header());
    Ok(([tag], Json(shown(&call, (&letter, &queue), (LetterFields::seen, usize::MAX))?)).into_response())
}

/// How the fields of a letter are shown.
type Form = fn(&DeadLetter, &Queue, LetterLimits) -> LetterFields;

/// Shows a letter, without what this person must not see. A text that has more bytes is hidden as a whole if anything in it may be
/// masked.
pub(super) fn shown(
    call: &Call,
    (letter, queue): (&DeadLetter, &Queue),
    (form, most): (Form, usize),
) -> Result<Value, Problem> {
    let limits = limits(queue.name(), &call.app.effective);
    let fields = if call.sees_payloads() { form } else { LetterFields::without_fields };
    let mut shown = fields(letter, queue, limits);
    for field in &mut shown.fields {
        mask(field, call.mask(), most);
    }
    call.value(&shown)
}

/// Hides what is masked in a field of a letter. What cannot be read to find masked members, or is larger than any worker reads, is
/// hidden as a whole.
fn mask(field: &mut Field, mask: &Mask, most: usize) {
    // What nobody can see is not in the text either.
    if mask.is_empty() || field.form == "unseen" {
        return;
    }
    let text = Some(&*field.value).filter(|_| field.form == "utf8");
    let most = if field.name == "then" { most.min(FollowUps::MAX_CHAIN_BYTES) } else { most };
    let shown = match &*field.name {
        "payload" | "then" => {
            let json = text.filter(|text| text.len() <= most);
            let seen = json.and_then(|json| mask.bytes(json.as_bytes(), Some(Encoding::Json)));
            seen.and_then(|seen| String::from_utf8(seen.into_owned()).ok())
        }
        "raw" | "dead_before" => None,
        name => text.map(|text| mask.field(name, text).into_owned()),
    };
    field.value = shown.unwrap_or_else(|| "***".to_owned());
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ReplayParams {
    /// Which steps to run: `failed` (the default), those that have not succeeded, or `all`, also those of the kind `once`.
    #[serde(deserialize_with = "way")]
    #[param(value_type = Option<String>)]
    steps: Option<Sweep>,
}

pub(super) fn way<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Sweep>, D::Error> {
    query::by(from, |text| match text {
        "failed" => Ok(Some(Sweep::Replay)),
        "all" => Ok(Some(Sweep::ReplayAllSteps)),
        _ => Err("it must be failed or all"),
    })
}

/// Runs the job of a dead letter again, with its counters at zero.
///
/// The dead letter is replayed once, even if several people replay it.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/dead/{letter}/replay", tag = "dead letters", request_body = Reason,
    params(ReplayParams), responses((status = 200, description = "How many dead letters were replayed: one", body = Swept)))]
async fn replay_letter(
    call: Call,
    QueryParams(ReplayParams { steps }): QueryParams<ReplayParams>,
    JsonBody(Reason { reason }): JsonBody<Reason>,
) -> Answer {
    sweep(&call, steps.unwrap_or(Sweep::Replay), &reason).await
}

/// Replays or drops the one letter that a request names.
async fn sweep(call: &Call, way: Sweep, reason: &str) -> Answer {
    let (queue, id) = (call.queue()?, call.path::<JobId>("letter")?);
    let swept = dead::sweep(&queue, &call.actor(reason), way, &[id], &Shutdown::new()).await;
    let mut swept = done(Ok(swept))?;
    if let Some(failure) = swept.failure.take() {
        return Err(failure.into());
    }
    if let Some(error) = swept.errors.first() {
        return Err(Problem::new(ProblemKind::RedisFailed, error));
    }
    match swept.remarks.first() {
        Some(remark) => Err(Problem::not_found(remark)),
        None => call.answer(&swept),
    }
}

/// Deletes a dead letter and its job for good.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/dead/{letter}/drop", tag = "dead letters", request_body = Reason,
    responses((status = 200, description = "How many dead letters were dropped: one", body = Swept)))]
async fn drop_letter(call: Call, JsonBody(Reason { reason }): JsonBody<Reason>) -> Answer {
    sweep(&call, Sweep::Drop, &reason).await
}
