//! Campaigns: bulk replays that the fleet carries out.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::{CampaignError, CampaignRules, Noted, Selection as Selected, SelectionPlan};
use streamfleet_operations::dead::Group;
use utoipa_axum::routes;

use super::changes::Reason;
use super::desk::Work;
use super::failure::{failed, redis};
use super::jobs::SEARCH_FOR;
use super::names;
use super::place::Place;
use super::privacy::View;
use super::selection::Selection;
use super::sent::Sent;
use crate::actor;
use crate::campaigns::{self, Page, Report};
use crate::console::access::{Needs, Person, Role};
use crate::console::problem::Problem;
use crate::console::routes::Routes;
use crate::console::site::Site;
use crate::dead::CampaignBegun;

/// The most groups that a plan shows.
const MAX_GROUPS: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default()
        .describe(routes!(start_campaign), Needs::Role(Role::Operator))
        .describe(routes!(list_campaigns), Needs::Role(Role::Viewer))
        .describe(routes!(get_campaign), Needs::Role(Role::Viewer))
        .describe(routes!(pause_campaign), Needs::Role(Role::Operator))
        .describe(routes!(resume_campaign), Needs::Role(Role::Operator))
        .describe(routes!(stop_campaign), Needs::Role(Role::Operator))
}

/// A campaign to begin.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCampaign, examples(json!({"filter": {"type": "mail.send"}, "rate": 50, "canary": 5, "stop_at": 5})))]
struct Wanted {
    /// Which dead letters.
    #[serde(default)]
    filter: Selection,
    /// All dead letters that exist now, if there is no filter.
    #[serde(default)]
    all: bool,
    /// How many jobs per second; 100 unless told otherwise, at most 10,000.
    #[schema(exclusive_minimum = 0, maximum = 10000)]
    rate: Option<f64>,
    /// How many jobs to replay first. All of them must succeed before the rest is replayed.
    #[serde(default)]
    canary: u64,
    /// Stop when more than this percentage of the jobs dies again of the same error.
    #[schema(minimum = 0, maximum = 100)]
    stop_at: Option<f64>,
    /// Leave jobs alone that campaigns have replayed this often; 3 unless told otherwise.
    #[schema(minimum = 1)]
    max_replays: Option<u64>,
    /// Make the plan, and begin nothing.
    #[serde(default)]
    dry_run: bool,
    /// Why it is done, for the audit.
    #[serde(default)]
    reason: String,
}

/// The dead letters that a campaign would replay.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = CampaignPlan)]
struct Plan {
    queue: String,
    filter: String,
    /// How many dead letters the queue has.
    total: u64,
    /// How many dead letters match; null if that takes too long to count.
    planned: Option<u64>,
    /// How many are left alone, because the filter cannot read their payloads; null if that takes too long to count.
    undecided: Option<u64>,
    /// The largest groups of those that match.
    groups: Vec<Group>,
}

/// Begins a campaign, or makes its plan.
///
/// The plan counts for 10 s at most. A campaign begins even if its dead letters were not counted in that time.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/campaigns", tag = "campaigns", request_body = Wanted,
    responses((status = 200, description = "The plan, with `dry_run`", body = Plan),
        (status = 201, description = "The campaign has begun", body = CampaignBegun)))]
async fn start_campaign(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(sent): Sent<Wanted>,
) -> Result<Response, Problem> {
    let (queue, view) = (place.queue(&site)?, View::of(&person, &site));
    let (filter, rules) = (sent.filter.filter(sent.all, &view)?, sent.rules()?);
    let selected = queue.dead_letters().select(filter).await;
    let selected = selected.map_err(redis("failed to read the dead letters"))?;
    let plan = {
        let _permit = site.desk().begin(Work::Search)?;
        planned(&site, &queue, &selected).await?
    };
    let planned = plan.as_ref().map(|plan| plan.letters);
    if sent.dry_run {
        return Ok(view.json(&Plan::of(&queue, &selected, plan))?.into_response());
    }
    if planned == Some(0) {
        return Err(Problem::conflict("there are no dead letters to replay"));
    }
    let target = if selected.filter.is_empty() { "--all".to_owned() } else { selected.filter.to_string() };
    let action = actor::action(person.name(), "dead replay", &sent.reason).target(target).count(planned);
    let begun = queue.campaigns().start(&selected, rules, &action).await.map_err(|error| refused(&error))?;
    let report = CampaignBegun { campaign: told(begun), queue: queue.name().to_string(), planned };
    Ok((StatusCode::CREATED, view.json(&report)?).into_response())
}

impl Wanted {
    fn rules(&self) -> Result<CampaignRules, Problem> {
        let mut rules = CampaignRules::default().canary(self.canary).stop_at(self.stop_at);
        if let Some(rate) = self.rate {
            if !(rate > 0.0 && rate <= 10_000.0) {
                return Err(Problem::field(
                    "/rate",
                    "it must be more than 0 and at most 10000 jobs per second",
                ));
            }
            rules = rules.rate(rate);
        }
        if self.stop_at.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
            return Err(Problem::field("/stop_at", "it must be a percentage from 0 to 100"));
        }
        match self.max_replays {
            Some(0) => Err(Problem::field("/max_replays", "it must be at least 1")),
            Some(most) => Ok(rules.max_replays(most)),
            None => Ok(rules),
        }
    }
}

impl Plan {
    fn of(queue: &Queue, selected: &Selected, plan: Option<SelectionPlan>) -> Self {
        let (planned, undecided) = plan.as_ref().map(|plan| (plan.letters, plan.undecided)).unzip();
        let groups = plan.map(|plan| plan.groups).unwrap_or_default();
        Self {
            queue: queue.name().to_string(),
            filter: selected.filter.to_string(),
            total: selected.total,
            planned,
            undecided,
            groups: groups.into_iter().take(MAX_GROUPS).map(Group::from).collect(),
        }
    }
}

/// Counts the letters, for a while.
async fn planned(site: &Site, queue: &Queue, selected: &Selected) -> Result<Option<SelectionPlan>, Problem> {
    let stopping: &Shutdown = site.stopping();
    tokio::select! {
        biased;
        () = stopping.requested() => Ok(None),
        plan = queue.dead_letters().plan(selected, |_| {}) => {
            plan.map(Some).map_err(redis("failed to read the dead letters"))
        }
        () = tokio::time::sleep(SEARCH_FOR) => Ok(None),
    }
}

/// Returns what a change returned, and logs if the audit does not have it.
fn told<T>(noted: Noted<T>) -> T {
    if let Some(why) = &noted.unnoted {
        tracing::warn!(why, "a change of a campaign is not noted in the audit");
    }
    noted.value
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other error says that the state does not allow it")]
fn refused(error: &CampaignError) -> Problem {
    match error {
        CampaignError::Redis(error) => Problem::redis("failed to change the campaign", error),
        CampaignError::Unknown => Problem::not_found("there is no such campaign"),
        CampaignError::Rules(why) => Problem::field("body", *why),
        _ => Problem::conflict(error.to_string()),
    }
}

/// Lists the campaigns, newest first. Those that are over are listed for 30 days.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/campaigns", tag = "campaigns",
    responses((status = 200, description = "The campaigns", body = Page)))]
async fn list_campaigns(
    State(site): State<Site>,
    person: Person,
    place: Place,
) -> Result<Json<Value>, Problem> {
    let queue = place.queue(&site)?;
    let (page, remarks) = campaigns::page(&queue).await.map_err(failed)?;
    for remark in remarks {
        tracing::warn!(remark, "a campaign is not listed");
    }
    if page.items.is_empty() {
        names::must_have(&site, queue.name()).await?;
    }
    View::of(&person, &site).json(&page)
}

/// Shows how a campaign fares.
#[utoipa::path(get, path = "/api/v1/queues/{queue}/campaigns/{campaign}", tag = "campaigns",
    responses((status = 200, description = "The campaign", body = Report)))]
async fn get_campaign(
    State(site): State<Site>,
    person: Person,
    place: Place,
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (place.queue(&site)?, place.get::<String>("campaign")?);
    View::of(&person, &site).json(&found(&queue, &id).await?)
}

async fn found(queue: &Queue, id: &str) -> Result<Report, Problem> {
    let campaign = queue.campaigns().get(id).await.map_err(redis("failed to read the campaign"))?;
    let none = || Problem::not_found(format!("the queue {} has no campaign {id}", queue.name()));
    campaign.map(Report::from).ok_or_else(none)
}

/// Pauses a campaign. Jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/campaigns/{campaign}/pause", tag = "campaigns",
    request_body = Reason, responses((status = 200, description = "The campaign", body = Report)))]
async fn pause_campaign(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    change(&site, &person, &place, (What::Pause, &reason)).await
}

/// Continues a campaign that was paused.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/campaigns/{campaign}/resume", tag = "campaigns",
    request_body = Reason, responses((status = 200, description = "The campaign", body = Report)))]
async fn resume_campaign(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    change(&site, &person, &place, (What::Resume, &reason)).await
}

/// Stops a campaign for good. Jobs that it has replayed go on.
#[utoipa::path(post, path = "/api/v1/queues/{queue}/campaigns/{campaign}/stop", tag = "campaigns",
    request_body = Reason, responses((status = 200, description = "The campaign", body = Report)))]
async fn stop_campaign(
    State(site): State<Site>,
    person: Person,
    place: Place,
    Sent(Reason { reason }): Sent<Reason>,
) -> Result<Json<Value>, Problem> {
    change(&site, &person, &place, (What::Stop, &reason)).await
}

/// What to do with a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Pause,
    Resume,
    Stop,
}

async fn change(
    site: &Site,
    person: &Person,
    place: &Place,
    (what, reason): (What, &str),
) -> Result<Json<Value>, Problem> {
    let (queue, id) = (place.queue(site)?, place.get::<String>("campaign")?);
    let campaigns = queue.campaigns();
    let action = |command| actor::action(person.name(), command, reason);
    let changed = match what {
        What::Pause => campaigns.pause(&id, &action("campaigns pause")).await,
        What::Resume => campaigns.resume(&id, &action("campaigns resume")).await,
        What::Stop => campaigns.stop(&id, &action("campaigns stop")).await,
    };
    told(changed.map_err(|error| refused(&error))?);
    View::of(person, site).json(&found(&queue, &id).await?)
}
