//! Lists of jobs, with the filters of the command `jobs`.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use streamfleet::Shutdown;
use streamfleet::job::{GateName, QueueName, State as JobState};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::jobs::search::{self, Facts, Page, Search, Start, USUAL_STATES};
use utoipa_axum::routes;

use super::job_stream::{self, JobLine};
use super::query::{self, wrong};
use super::selection::Selection;
use super::work_limits::{Work, within};
use super::{Call, PageParams, Problem, QueryParams, QueuesParams, Routes, lines, names, operations};
use crate::console::access::Mask;
use crate::console::app_state::AppState;
use crate::filter::Conditions;
use crate::jobs;

/// How long a search may take. Then it answers with what it has found, and says so.
pub(super) const SEARCH_FOR: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::JOBS, routes!(list_jobs))
        .operation(&operations::JOBS, routes!(list_queue_jobs))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct StateParams {
    /// Only jobs in these states, separated by commas: waiting, running, scheduled, retrying, dead, done, cancelled. Default: all
    /// but the last two. Of these, only jobs with a record are found, by a scan of all keys of the server.
    state: Vec<String>,
    /// Only running jobs, the longest first.
    running: bool,
    /// False: only jobs that Redis has. Otherwise, a search for ended jobs by their states goes on in the history, if one is configured.
    history: Option<bool>,
    /// Only jobs that this worker runs. Needs `running`.
    worker: Option<String>,
    /// Only jobs that wait at this gate, such as `type:mail.send`.
    #[serde(deserialize_with = "query::parsed")]
    #[param(value_type = Option<String>)]
    gate: Option<GateName>,
}

/// Which jobs a search is about.
type SearchParams = (StateParams, Selection, PageParams);

/// Finds jobs in all queues.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended. Only if `complete` is true did it look
/// at everything.
///
/// With `Accept: application/x-ndjson`, the answer has a line `{"job": …}` for each job as soon as it is found, up to 100,000 unless
/// `limit` says fewer, and from time to time a line `{"progress": …}` that says how far the search has looked and where `next` goes
/// on. It stops after 60 s. The last line is a progress, or `{"problem": …}` if something went wrong.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs",
    params(QueuesParams, StateParams, Selection, PageParams),
    responses((status = 200, description = "A page of jobs, or the jobs line by line", content(
        (Page = "application/json"), (JobLine = "application/x-ndjson")))))]
async fn list_jobs(
    call: Call,
    headers: HeaderMap,
    QueryParams((of, params)): QueryParams<(QueuesParams, SearchParams)>,
) -> Result<Response, Problem> {
    let names = of.visible(&call).await?;
    answer(call, &headers, params, names).await
}

/// Finds jobs in one queue.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended. Only if `complete` is true did it look
/// at everything.
///
/// With `Accept: application/x-ndjson`, the answer has a line for each job and lines about the progress, as that of
/// `GET /api/v1/jobs` has.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs", tag = "jobs",
    params(StateParams, Selection, PageParams),
    responses((status = 200, description = "A page of jobs, or the jobs line by line", content(
        (Page = "application/json"), (JobLine = "application/x-ndjson")))))]
async fn list_queue_jobs(
    call: Call,
    headers: HeaderMap,
    QueryParams(params): QueryParams<SearchParams>,
) -> Result<Response, Problem> {
    let queue = call.path::<QueueName>("queue")?;
    names::must_have(&call.app, &queue).await?;
    answer(call, &headers, params, vec![queue]).await
}

/// Answers with a page, or line by line.
async fn answer(
    call: Call,
    headers: &HeaderMap,
    params: SearchParams,
    names: Vec<QueueName>,
) -> Result<Response, Problem> {
    let (_, _, page) = &params;
    let is_page = !lines::is_wanted(headers);
    let limit = if is_page { page.limit() } else { page.given_limit().unwrap_or(job_stream::MOST) };
    let search = search_of(&call, params, names, limit)?;
    if is_page {
        return Ok(call.answer(&found(&call.app, &search).await?)?.into_response());
    }
    if search.running {
        return Err(wrong("running", "it only works with a page, because the longest are known last"));
    }
    job_stream::answer(call, &search).await
}

/// Reads which jobs are wanted, if this person may know.
fn search_of(
    call: &Call,
    (StateParams { state, running, history, worker, gate }, selection, page): SearchParams,
    names: Vec<QueueName>,
    limit: u64,
) -> Result<Search, Problem> {
    let after = page.after::<Start>()?;
    let conditions = selection.conditions("query.", call)?;
    let mut states = states_of(&state.join(","), running, &conditions)?;
    // Without a state, the search is for jobs that are still there.
    let is_named = !state.is_empty() || !conditions.letters.is_empty();
    let past = call.app.past().filter(|_| is_named && history != Some(false));
    if worker.is_some() && !running {
        return Err(wrong("worker", "it needs running=true"));
    }
    if let Some(gate) = &gate {
        call.check_gate(gate)?;
        states.retain(|state| *state == JobState::Waiting);
    }
    let filter = filter_of(&conditions, call.mask(), "query")?;
    if states.is_empty() {
        return Err(wrong("gate", "only waiting jobs wait at a gate"));
    }
    if running && after.is_some() {
        return Err(wrong("after", "the longest running jobs have only one page"));
    }
    if let Some(start) = after.as_ref().filter(|start| !names.contains(&start.queue)) {
        return Err(wrong("after", format!("it names the queue {}, which is not listed", start.queue)));
    }
    Ok(Search { names, states, filter, running, worker, gate, past, limit, after })
}

/// Finds jobs in these queues, for a while.
async fn found(app: &AppState, search: &Search) -> Result<Page, Problem> {
    if search.names.is_empty() {
        return Ok(Page { items: Vec::new(), next: None, facts: Facts::nowhere(), former: None });
    }
    let _permit = app.work_limits.begin(Work::Search)?;
    let stop = Shutdown::new();
    let work = search::find(search, &app.broker, (&stop, None));
    let found = within(SEARCH_FOR, (&stop, &app.stopping), work).await;
    Ok(found?.page())
}

/// The states to look at.
fn states_of(named: &str, running: bool, conditions: &Conditions) -> Result<Vec<JobState>, Problem> {
    let names = named.split(',').map(str::trim).filter(|name| !name.is_empty());
    let states: Result<Vec<_>, _> = names.map(jobs::state).collect();
    let states = states.map_err(|why| wrong("state", why))?;
    match (&states[..], running, conditions.letters.is_empty()) {
        ([_, ..], true, _) => Err(wrong("running", "it does not work with state")),
        ([], true, true) => Ok(vec![JobState::Running]),
        ([], false, true) => Ok(USUAL_STATES.to_vec()),
        ([] | [JobState::Dead], false, false) => Ok(vec![JobState::Dead]),
        ([_, ..], false, true) => Ok(states),
        (_, _, false) => Err(wrong("state", "reason, kind and group only work with dead jobs")),
    }
}

/// Converts conditions to a filter, which finds nothing by what is masked. `at` is where they are.
pub(super) fn filter_of(conditions: &Conditions, mask: &Mask, at: &str) -> Result<Filter, Problem> {
    let filter = conditions.filter().map(|filter| mask.blind(filter));
    filter.map_err(|error| Problem::field(at, error.to_string()))
}
