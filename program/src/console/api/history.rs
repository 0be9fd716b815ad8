//! Jobs that ended long ago, from the database that `[history]` names, and bringing them back.

use serde::{Deserialize, Serialize};
use streamfleet::Shutdown;
use streamfleet::job::{JobId, Timestamp};
use streamfleet_operations::Control;
use streamfleet_operations::history::{
    self, PastCounts, PastJobs, PastLife, Restore, RestorePlan, Restored, Wanted,
};
use streamfleet_sql::history::Ending;
use utoipa_axum::routes;

use super::stats::SinceParams;
use super::work_limits::{Work, within};
use super::{
    Answer, CHANGE_FOR, Call, JsonBody, PageParams, Problem, QueryParams, Routes, done, millis, operations,
};
use crate::dead::limits;
use crate::times;

/// The most jobs that are brought back at once, …
const MOST: u64 = 500;

/// … and the memory of its largest portion of fields: as they come from the database, as jobs, and as what is sent to Redis.
const BYTES: usize = 3 * (9 << 20);

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::HISTORY_LIST, routes!(list_past_jobs))
        .operation(&operations::HISTORY_SHOW, routes!(get_past_job))
        .operation(&operations::HISTORY_STATS, routes!(count_past_jobs))
        .operation(&operations::HISTORY_RESTORE, routes!(restore_past_jobs))
}

/// Which jobs of the history are meant. All conditions must hold.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = PastSelection, examples(json!({"state": "dead", "type": "mail.send", "since": "2026-12-01T10:00:00Z"})))]
struct PastParams {
    /// Only jobs that ended so: `done`, `dead` or `cancelled`; several are separated by commas.
    state: Option<String>,
    /// Only jobs of this type.
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Only jobs with this id.
    id: Option<String>,
    /// Only jobs with this value in a field that the configuration names, as `customer=9`.
    key: Option<String>,
    /// Only dead letters of this group.
    group: Option<String>,
    /// Only jobs whose last attempt ran on this version.
    version: Option<String>,
    /// Only jobs that ended since this instant.
    since: Option<String>,
    /// Only jobs that ended before this instant.
    until: Option<String>,
}

impl PastParams {
    /// Reads the conditions, each of which is at this place and its name, if this person may use them.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the condition.
    fn wanted(self, place: &str, call: &Call) -> Result<Wanted, Problem> {
        let at = |name: &str, why: &str| Problem::field(format!("{place}{name}"), why);
        let states = self.state.iter().flat_map(|texts| texts.split(','));
        let states = states
            .map(|text| Ending::named(text).ok_or_else(|| at("state", "must be done, dead or cancelled")));
        let key = self.key.as_deref().map(|text| {
            // Whether a job is found would tell what is in its payload.
            call.check_payloads()?;
            let (name, value) =
                text.split_once('=').ok_or_else(|| at("key", "must be a field and its value"))?;
            if call.mask().hides(name) {
                return Err(at("key", "names a field that is masked"));
            }
            Ok((name.to_owned(), value.to_owned()))
        });
        let instant = |name: &str, text: Option<&str>| {
            text.map(|text| times::instant(text).map_err(|why| at(name, &why))).transpose()
        };
        let id = self.id.as_deref().map(|id| id.parse().map_err(|_| at("id", "is not the id of a job")));
        Ok(Wanted {
            states: states.collect::<Result<_, _>>()?,
            types: self.job_type.into_iter().collect(),
            id: id.transpose()?,
            fingerprint: self.group,
            version: self.version,
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
            key: key.transpose()?,
        })
    }
}

/// Lists jobs of a queue that ended, from the database of the history, the latest end first.
///
/// A page may have fewer jobs than `limit` although there are more: go on while `next` is not null.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/history", tag = "history", params(PastParams, PageParams),
    responses((status = 200, description = "A page of jobs", body = PastJobs)))]
async fn list_past_jobs(
    call: Call,
    QueryParams((wanted, page)): QueryParams<(PastParams, PageParams)>,
) -> Answer {
    let wanted = wanted.wanted("query.", &call)?;
    let (after, limit) = (page.after::<String>()?, usize::try_from(page.limit()).unwrap_or(usize::MAX));
    let queue = call.path("queue")?;
    let found = history::list(call.app.history().await?, &queue, wanted, (after.as_deref(), limit)).await?;
    call.answer(&found)
}

/// Shows all that the history has about the lives of a job's id, the latest first.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/history/{id}", tag = "history",
    responses((status = 200, description = "The lives of the job", body = Vec<PastLife>)))]
async fn get_past_job(call: Call) -> Answer {
    let (queue, id) = (call.path("queue")?, call.path::<JobId>("id")?);
    let lives = history::show(call.app.history().await?, &queue, &id).await?;
    call.answer(&lives)
}

/// Counts the jobs of a queue that ended lately, by type and state.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/history-stats", tag = "history", params(SinceParams),
    responses((status = 200, description = "The counts", body = PastCounts)))]
async fn count_past_jobs(call: Call, QueryParams(SinceParams { since }): QueryParams<SinceParams>) -> Answer {
    let queue = call.queue()?;
    let now = queue.clock().await.map_err(|error| Problem::redis("the time is not known", &error))?;
    let from = Timestamp::from_ms(now.as_ms().saturating_sub(millis(since))).unwrap_or_default();
    let counts = history::stats(call.app.history().await?, queue.name(), (from, now)).await?;
    call.answer(&counts)
}

/// Which jobs come back, and how.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RestorePage, examples(json!({"filter": {"state": "dead", "type": "mail.send"}, "reason": "the mail server is back"})))]
struct Page {
    /// Which jobs. Their state must be named.
    #[serde(default)]
    filter: PastParams,
    /// The group that the dead letters join: that of an earlier answer, or a new one.
    group: Option<String>,
    /// The `next` of an earlier answer.
    after: Option<String>,
    /// The most jobs that are looked at, the latest end first.
    #[serde(default = "most")]
    #[schema(minimum = 1, maximum = 500, default = 500)]
    limit: u64,
    /// Only say what would come back.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// What has come back, or, with `dry_run`, what would.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(untagged)]
enum RestoreAnswer {
    Restored(Restored),
    Plan(RestorePlan),
}

fn most() -> u64 {
    MOST
}

/// Brings jobs that ended back as dead letters of one group, the latest end first.
///
/// A dead job keeps its id. One that was done or cancelled becomes a new job, whose id follows from the generation that it repeats, and
/// which names the job that it repeats in the header `again-of`. What Redis knows is left alone, so the same request can be sent again.
/// Go on with `group` and `after` of the answer while `next` is not null, and then replay the group. With `dry_run`, nothing changes, and
/// nobody asks Redis which of the jobs it knows.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/history/restore", tag = "history", request_body = Page,
    responses((status = 200, description = "What has come back", body = RestoreAnswer)))]
async fn restore_past_jobs(call: Call, JsonBody(sent): JsonBody<Page>) -> Answer {
    let Page { filter, group, after, limit, dry_run, reason } = sent;
    let queue = call.queue()?;
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::field("/limit", format!("it must be a number from 1 to {MOST}")));
    }
    let wanted = filter.wanted("/filter/", &call)?;
    let input = Restore { wanted, after, limit, group, limits: limits(queue.name(), &call.app.effective) };
    let _permit = call.app.work_limits.begin(Work::Change)?;
    call.app.work_limits.hold(BYTES)?;
    let (actor, stop) = (call.actor(&reason), Shutdown::new());
    let (control, database) = (Control { stop: &stop, progress: &|_| {} }, call.app.history().await?);
    if dry_run {
        let work = history::plan_restore(database, queue.name(), &input, control);
        let plan = within(CHANGE_FOR, (&stop, &call.app.stopping), work).await?;
        return call.answer(&RestoreAnswer::Plan(plan));
    }
    let work = history::restore(database, &queue, &actor, input, control);
    let mut restored = done(within(CHANGE_FOR, (&stop, &call.app.stopping), work).await)?;
    match restored.failure.take() {
        Some(failure) => Err(failure.into()),
        None => call.answer(&RestoreAnswer::Restored(restored)),
    }
}
