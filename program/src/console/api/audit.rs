//! What people did, in pages or line by line.

use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use streamfleet_engine::admin::{AuditCursor, AuditSearch, AuditSource};
use streamfleet_operations::audit::{self, AuditFacts, AuditList, AuditNote, Wanted};
use tokio::time::Instant;
use utoipa_axum::routes;

use super::work_limits::{Held, Work};
use super::{Call, PageParams, Problem, QueryParams, QueuesParams, Routes, lines, names, operations, query};
use crate::console::access::Role;
use crate::times::{self, Bound, Clock};

/// The most actions that a search of the audits looks at for one page.
const MOST_LOOKED_AT: u64 = 20_000;

/// How many actions of an answer in lines are found at once.
const AT_ONCE: u64 = 500;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::AUDIT, routes!(list_all_audits))
        .operation(&operations::AUDIT, routes!(list_audit))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct AuditParams {
    /// Only actions since this instant, such as `2026-12-01T10:00:00Z`, or so long ago, such as `1d`.
    #[serde(deserialize_with = "bound")]
    #[param(value_type = Option<String>)]
    since: Option<Bound>,
    /// Only actions before this instant, or more than so long ago.
    #[serde(deserialize_with = "bound")]
    #[param(value_type = Option<String>)]
    until: Option<Bound>,
    /// Only actions of people with this in their names.
    who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    action: Option<String>,
    /// Only actions with this in what they were done to, as far as you may see it.
    target: Option<String>,
}

fn bound<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bound>, D::Error> {
    query::by(from, times::bound).map(Some)
}

/// Shows what people did, newest first: to queues, which queues they deleted, and about incidents.
///
/// An action on a queue is listed if you may see that queue, others if you may see all queues. A page may have fewer actions than
/// `limit` although there are more: go on while `next` is not null.
///
/// With `Accept: application/x-ndjson`, the answer has a line `{"action": …}` for each action, all of them unless `limit` says fewer,
/// and lines `{"progress": …}` that say how many were found and where `next` goes on. It stops after 60 s. The last line is a
/// progress, or `{"problem": …}` if something went wrong.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(QueuesParams, AuditParams, PageParams),
    responses((status = 200, description = "A page of actions, or the actions line by line", content(
        (AuditList = "application/json"), (AuditLine = "application/x-ndjson")))))]
async fn list_all_audits(
    call: Call,
    headers: HeaderMap,
    QueryParams((of, wanted, page)): QueryParams<(QueuesParams, AuditParams, PageParams)>,
) -> Result<Response, Problem> {
    of.check(&call)?;
    let known = call.app.known().await?;
    let seen = known.audits.iter().filter(|queue| of.has(queue) && call.person.may(Role::Viewer, queue));
    let mut sources: Vec<_> = seen.cloned().map(AuditSource::Queue).collect();
    if of.are_all() && call.person.may_everywhere(Role::Viewer) {
        sources.extend([AuditSource::Deletions, AuditSource::Alerts]);
    }
    answer(call, &headers, (wanted, page), sources).await
}

/// Shows what people did to a queue, newest first.
///
/// With `Accept: application/x-ndjson`, the answer has a line for each action and lines about the progress, as that of
/// `GET /api/v1/audit` has.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/audit", tag = "audit", params(AuditParams, PageParams),
    responses((status = 200, description = "A page of actions, or the actions line by line", content(
        (AuditList = "application/json"), (AuditLine = "application/x-ndjson")))))]
async fn list_audit(
    call: Call,
    headers: HeaderMap,
    QueryParams((wanted, page)): QueryParams<(AuditParams, PageParams)>,
) -> Result<Response, Problem> {
    let sources = vec![AuditSource::Queue(call.path("queue")?)];
    answer(call, &headers, (wanted, page), sources).await
}

/// A search whose actions a client reads.
struct Reading {
    call: Call,
    wanted: Wanted,
    sources: Vec<AuditSource>,
    after: Option<AuditCursor>,
    /// What was found and is not sent.
    page: Option<AuditList>,
    /// How many actions may still be sent.
    left: u64,
    found: u64,
    until: Instant,
    _place: Held,
}

/// A line of the answer. It has one of these.
#[derive(Default, Serialize, utoipa::ToSchema)]
struct AuditLine {
    /// An action, as in a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AuditNote>)]
    action: Option<Value>,
    /// How far the search is.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<AuditProgress>,
    /// What went wrong. No line follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

impl From<Problem> for AuditLine {
    fn from(problem: Problem) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }
}

/// How far the search is.
#[derive(Serialize, utoipa::ToSchema)]
struct AuditProgress {
    /// How many actions it has found.
    found: u64,
    /// What to send as `after` to go on; null if it has looked at everything.
    next: Option<String>,
    #[serde(flatten)]
    facts: AuditFacts,
}

/// Answers with a page, or line by line. A queue alone of which nothing is noted must exist.
async fn answer(
    call: Call,
    headers: &HeaderMap,
    (AuditParams { since, until, who, action, target }, page): (AuditParams, PageParams),
    sources: Vec<AuditSource>,
) -> Result<Response, Problem> {
    let is_page = !lines::is_wanted(headers);
    let left = if is_page { page.limit() } else { page.given_limit().unwrap_or(u64::MAX) };
    let mut reading = Reading {
        wanted: Wanted { since, until, who, action, target },
        sources,
        after: page.after()?,
        page: None,
        left,
        found: 0,
        until: Instant::now() + lines::LONGEST,
        _place: call.app.work_limits.begin(Work::Search)?,
        call,
    };
    let first = reading.page().await?;
    if let ([], [AuditSource::Queue(queue)]) = (&first.items[..], &reading.sources[..]) {
        names::must_have(&reading.call.app, queue).await?;
    }
    if is_page {
        return Ok(reading.call.answer(&first)?.into_response());
    }
    reading.page = Some(first);
    Ok(lines::answer(reading))
}

impl Reading {
    /// Finds the next actions.
    async fn page(&self) -> Result<AuditList, Problem> {
        let (sources, after, limit) = (self.sources.clone(), self.after.clone(), self.left.min(AT_ONCE));
        let search = AuditSearch { sources, after, limit, most: MOST_LOOKED_AT, ..AuditSearch::default() };
        let shown = |target: &str| self.call.about(target);
        Ok(audit::find(&self.call.app.broker, search, &self.wanted, &Clock::utc(), shown).await?)
    }
}

impl lines::Reading for Reading {
    type Line = AuditLine;

    async fn look(&mut self, text: &mut Vec<u8>) -> Result<bool, Problem> {
        let page = match self.page.take() {
            Some(first) => first,
            None => self.page().await?,
        };
        for note in &page.items {
            lines::write(text, &AuditLine { action: Some(self.call.value(note)?), ..AuditLine::default() });
        }
        let found = page.items.len() as u64;
        self.found += found;
        self.left = self.left.saturating_sub(found);
        let next = page.next.as_deref().map(str::parse::<AuditCursor>);
        self.after = next.map(|next| next.expect("a cursor is read as it is written"));
        let is_late = Instant::now() >= self.until || self.call.app.stopping.is_requested();
        let progress = Some(AuditProgress { found: self.found, next: page.next, facts: page.facts });
        lines::write(text, &AuditLine { progress, ..AuditLine::default() });
        Ok(self.after.is_none() || self.left == 0 || is_late)
    }
}
