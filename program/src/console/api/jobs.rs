//! Lists of jobs, with the filters of the command `jobs`.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use indicatif::ProgressBar;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use streamfleet::Shutdown;
use streamfleet::job::{QueueName, State as JobState};
use streamfleet_engine::admin::Filter;
use utoipa_axum::routes;

use super::asked::Conditions;
use super::desk::{Work, within};
use super::failure::failed;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::query::{self, QueryParams, USUAL, page_size, wrong};
use crate::console::access::{Mask, Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::jobs::{self, Page, Search, Start};
use crate::times::Clock;

/// How long a search may take. Then it answers with what it has found, and says so.
pub(super) const SEARCH_FOR: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(list_jobs), Needs::Role(Role::Viewer))
        .describe(routes!(list_queue_jobs), Needs::Role(Role::Viewer))
}

/// The conditions that select jobs.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct FilterParams {
    /// Only jobs of this type, or with `mail.*` of all types that begin like this.
    r#type: Option<String>,
    /// Only jobs whose payload or header fulfils a condition, such as `payload.customer=9`, `payload.total>100` or `h.tenant=9`.
    /// May be repeated.
    r#where: Vec<String>,
    /// Only jobs with this header, such as `tenant=9`. May be repeated.
    header: Vec<String>,
    /// Only jobs whose payload or error contains this text.
    text: Option<String>,
    /// Only jobs whose last error contains this text.
    error: Option<String>,
    /// Only jobs whose id begins like this.
    id_prefix: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, at this instant or later, such as `2026-12-01T10:00:00Z`.
    since: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, before this instant.
    until: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, longer ago than this, such as `2h`.
    older_than: Option<String>,
    /// Only dead letters with this reason, such as `exhausted`.
    reason: Option<String>,
    /// Only dead letters whose last failure was of this kind, such as `timeout`.
    kind: Option<String>,
    /// Only dead letters with this fingerprint.
    group: Option<String>,
}

impl FilterParams {
    /// Reads the conditions.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn conditions(&self) -> Result<Conditions, Problem> {
        let about_jobs = [
            ("type", self.r#type.as_slice()),
            ("where", self.r#where.as_slice()),
            ("header", self.header.as_slice()),
            ("text", self.text.as_slice()),
            ("error", self.error.as_slice()),
            ("id_prefix", self.id_prefix.as_slice()),
            ("since", self.since.as_slice()),
            ("until", self.until.as_slice()),
            ("older_than", self.older_than.as_slice()),
        ];
        let about_letters = [
            ("reason", self.reason.as_slice()),
            ("kind", self.kind.as_slice()),
            ("group", self.group.as_slice()),
        ];
        let mut conditions = Conditions::default();
        for (name, values) in about_jobs {
            for value in values {
                conditions.jobs.set(name, value).map_err(|why| wrong(name, why))?;
            }
        }
        for (name, values) in about_letters {
            for value in values {
                conditions.letters.set(name, value).map_err(|why| wrong(name, why))?;
            }
        }
        Ok(conditions)
    }
}

/// Which page of a list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// The most items of the page: 50 unless told otherwise. Only a page of ended jobs, or of jobs in waiting lists
    /// of gates, may have more: the scans that find them return portions of some hundred.
    #[serde(deserialize_with = "limit")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub(super) limit: u64,
    /// The `next` of an earlier page.
    after: Option<String>,
}

fn limit<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    query::by(from, page_size)
}

impl Default for PageParams {
    fn default() -> Self {
        Self { limit: USUAL, after: None }
    }
}

impl PageParams {
    /// Where the page begins.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter.
    pub(super) fn after<T: FromStr<Err: Display>>(&self) -> Result<Option<T>, Problem> {
        let after = self.after.as_deref().map(str::parse::<T>).transpose();
        after.map_err(|error| wrong("after", error))
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct StateParams {
    /// Only jobs in these states, separated by commas: waiting, running, scheduled, retrying, dead, done, cancelled. Default: all
    /// but the last two. Of these, only jobs with a record are found, by a scan of all keys of the server.
    state: Option<String>,
    /// Only running jobs, the longest first.
    running: bool,
}

/// Which queues a list is about.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct QueuesParams {
    /// Only this queue; may be repeated.
    #[serde(deserialize_with = "query::each_parsed")]
    #[param(value_type = Vec<String>)]
    queue: Vec<QueueName>,
}

impl QueuesParams {
    /// Whether the list is about this queue.
    pub(super) fn has(&self, name: &QueueName) -> bool {
        self.queue.is_empty() || self.queue.contains(name)
    }
}

/// Which jobs a search is about.
type SearchParams = (StateParams, FilterParams, PageParams);

/// Finds jobs in all queues.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs",
    params(QueuesParams, StateParams, FilterParams, PageParams),
    responses((status = 200, description = "A page of jobs", body = Page)))]
async fn list_jobs(
    State(site): State<Site>,
    person: Person,
    QueryParams((wanted, params)): QueryParams<(QueuesParams, SearchParams)>,
) -> Result<Json<Value>, Problem> {
    for queue in &wanted.queue {
        person.check(Role::Viewer, Some(queue))?;
    }
    let mut names = names::visible(&site, &person).await?.queues;
    names.retain(|name| wanted.has(name));
    search(&site, &person, params, names).await
}

/// Finds jobs in one queue.
///
/// A search stops after 10 s. Then `interrupted` is true, and `next` goes on where it ended.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/jobs", tag = "jobs",
    params(StateParams, FilterParams, PageParams),
    responses((status = 200, description = "A page of jobs", body = Page)))]
async fn list_queue_jobs(
    State(site): State<Site>,
    person: Person,
    place: Place,
    QueryParams(params): QueryParams<SearchParams>,
) -> Result<Json<Value>, Problem> {
    let queue = place.get::<QueueName>("queue")?;
    names::must_have(&site, &queue).await?;
    search(&site, &person, params, vec![queue]).await
}

async fn search(
    site: &Site,
    person: &Person,
    (StateParams { state, running }, filter, page): SearchParams,
    names: Vec<QueueName>,
) -> Result<Json<Value>, Problem> {
    let after = page.after::<Start>()?;
    let conditions = filter.conditions()?;
    View::of(person, site).check(&conditions)?;
    let states = states_of(state.as_deref().unwrap_or_default(), running, &conditions)?;
    let filter = filter_of(&conditions, site.mask(), "query")?;
    if running && after.is_some() {
        return Err(wrong("after", "the longest running jobs have only one page"));
    }
    if let Some(start) = after.as_ref().filter(|start| !names.contains(&start.queue)) {
        return Err(wrong("after", format!("it names the queue {}, which is not listed", start.queue)));
    }
    let search = Search { names, states, filter, running, limit: page.limit, after };
    View::of(person, site).json(&found(site, &search).await?)
}

/// Finds jobs in these queues, for a while.
pub(super) async fn found(site: &Site, search: &Search) -> Result<Page, Problem> {
    if search.names.is_empty() {
        return Ok(Page { items: Vec::new(), next: None, facts: jobs::Facts::default(), former: None });
    }
    let _permit = site.desk().begin(Work::Search)?;
    let (stop, bar) = (Shutdown::new(), ProgressBar::hidden());
    let work = jobs::find(search, site.broker(), (&stop, &bar));
    let found = within(SEARCH_FOR, (&stop, site.stopping()), work).await;
    Ok(found.map_err(failed)?.page())
}

/// The states to look at.
fn states_of(named: &str, running: bool, conditions: &Conditions) -> Result<Vec<JobState>, Problem> {
    let names = named.split(',').map(str::trim).filter(|name| !name.is_empty());
    let states: Result<Vec<_>, _> = names.map(jobs::state).collect();
    let states = states.map_err(|why| wrong("state", why))?;
    match (&states[..], running, conditions.letters.is_empty()) {
        ([_, ..], true, _) => Err(wrong("running", "it does not work with state")),
        ([], true, true) => Ok(vec![JobState::Running]),
        ([], false, true) => Ok(jobs::USUAL_STATES.to_vec()),
        ([] | [JobState::Dead], false, false) => Ok(vec![JobState::Dead]),
        ([_, ..], false, true) => Ok(states),
        (_, _, false) => Err(wrong("state", "reason, kind and group only work with dead jobs")),
    }
}

/// Converts conditions to a filter, which finds nothing by what is masked. `at` is where they are.
pub(super) fn filter_of(conditions: &Conditions, mask: &Mask, at: &str) -> Result<Filter, Problem> {
    let filter = conditions.jobs.filter(&Clock::utc()).and_then(|filter| conditions.letters.add_to(filter));
    filter.map(|filter| mask.blind(filter)).map_err(|error| Problem::field(at, error.to_string()))
}
