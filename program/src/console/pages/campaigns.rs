//! Campaigns: bulk replays that the fleet carries out.

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{DeadReason, QueueName, Timestamp};
use streamfleet_engine::admin::{Action, Campaign, CampaignError, CampaignState};

use super::action::Done;
use super::criteria::of_campaign;
use super::form::{Field, Form, reason};
use super::frame::{Frame, grouped, lead_to, utc};
use super::job::Fact;
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// The most campaigns of a page.
const MOST: usize = 50;

#[derive(Template)]
#[template(path = "campaign.html")]
struct CampaignPage<'a> {
    frame: &'a Frame,
    id: String,
    class: &'static str,
    state: &'static str,
    crumb: String,
    facts: Vec<Fact>,
    /// How far it is, in percent, if that is known.
    percent: Option<u64>,
    actions: Vec<(&'static str, String, bool)>,
}

/// Shows the campaigns of all queues, or of one.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["campaigns"]);
    let narrow = Narrow::new(&frame, &here).queue(&frame, &asked, &queues);
    asked.retain_queues(&mut queues);
    list(&frame, queues, &asked, (here, narrow)).await
}

/// Shows the campaigns of the queue in the path.
pub(super) async fn of_queue(
    State(site): State<Site>,
    frame: Frame,
    Path(name): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let here = Link::queue(&name, &["campaigns"]);
    let narrow = Narrow::new(&frame, &here);
    list(&frame, vec![target::queue(&site, &name)?], &asked, (here, narrow)).await
}

async fn list(
    frame: &Frame,
    queues: Vec<Queue>,
    asked: &Asked,
    (here, narrow): (Link, Narrow),
) -> Result<Response, Problem> {
    let states = CampaignState::ALL.map(|state| state.as_str().to_owned());
    let narrow = narrow.choice(frame, asked, ("state", "column.state"), states.into());
    let reading = stream::iter(queues).map(|queue| async move {
        let read = read(&queue).await;
        (queue, read)
    });
    let read: Vec<_> = reading.buffered(AT_ONCE).collect().await;
    let (mut found, mut remarks, mut now) = (Vec::new(), Vec::new(), Timestamp::default());
    for (queue, read) in read {
        match read {
            Ok((clock, campaigns, more)) => {
                now = now.max(clock);
                remarks.extend(more);
                found.extend(campaigns.into_iter().map(|campaign| (queue.name().clone(), campaign)));
            }
            Err(error) => remarks.push(format!("{}: {error}", queue.name())),
        }
    }
    let is_wanted =
        |campaign: &Campaign| asked.get("state").is_none_or(|state| campaign.state.as_str() == state);
    found.retain(|(_, campaign)| is_wanted(campaign));
    found.sort_by_key(|(_, campaign)| std::cmp::Reverse(campaign.created));
    let next = asked.cut(&mut found, MOST)?;
    let columns = [
        ("column.campaign", "short"),
        ("column.queue", "short"),
        ("column.state", "short"),
        ("column.filter", "clip"),
        ("campaign.replayed", "number"),
        ("campaign.succeeded", "number"),
        ("campaign.died", "number"),
        ("column.begun", "short"),
    ];
    let mut table = Table::new(frame, "nav.campaigns", &columns).or(frame.t("campaign.none"));
    for (queue, campaign) in &found {
        table.add(row(frame, queue, campaign, now));
    }
    let (title, line) = (frame.t("nav.campaigns"), frame.t("campaign.line").to_owned());
    let next = narrow.next(here, next);
    let page = List { frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Campaigns), &page))
}

/// The newest campaigns of a queue. One that cannot be read does not hide the others.
async fn read(queue: &Queue) -> Result<(Timestamp, Vec<Campaign>, Vec<String>), String> {
    let shown = |error| queue.with_keys(&error);
    let (now, ids) =
        tokio::try_join!(queue.clock(), async { queue.campaigns().ids().await }).map_err(shown)?;
    let of = queue.clone();
    let reading = stream::iter(ids.into_keys().collect::<Vec<_>>())
        .map(move |id| {
            let queue = of.clone();
            async move { (queue.campaigns().get(&id).await, id) }
        })
        .buffered(AT_ONCE);
    let read: Vec<_> = reading.collect().await;
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for (campaign, id) in read {
        match campaign {
            Ok(campaign) => found.extend(campaign),
            Err(error) => remarks.push(format!("{} {id}: {}", queue.name(), queue.with_keys(&error))),
        }
    }
    Ok((now, found, remarks))
}

fn row(frame: &Frame, queue: &QueueName, campaign: &Campaign, now: Timestamp) -> Vec<Cell> {
    let (counts, state) = (campaign.counts, look(campaign.state));
    let died = counts.died + counts.died_otherwise + counts.needs_decision;
    vec![
        Cell::id(&campaign.id, &Link::queue(queue.as_str(), &["campaigns", &campaign.id])),
        Cell::link(queue.as_str(), &Link::queue(queue.as_str(), &[])),
        Cell::like(frame.t(state.1), state.0).under(frame.written(&campaign.why)),
        Cell::text(filter(frame, campaign)),
        Cell::number(counts.replayed),
        Cell::number(counts.succeeded),
        Cell::number(died),
        Cell::time(frame, campaign.created, now),
    ]
}

fn filter(frame: &Frame, campaign: &Campaign) -> String {
    let filter = campaign.selection.filter.to_string();
    if filter.is_empty() { frame.t("plan.all").to_owned() } else { frame.about(&filter).into_owned() }
}

/// The classes of a campaign's state, and the key of its name.
fn look(state: CampaignState) -> (&'static str, &'static str) {
    match state {
        CampaignState::Canary => ("state scheduled", "campaign.canary"),
        CampaignState::Running => ("state running", "campaign.running"),
        CampaignState::Paused => ("state retrying", "campaign.paused"),
        CampaignState::Stopped | CampaignState::Failed => ("state dead", "campaign.stopped"),
        CampaignState::Done => ("state done", "campaign.done"),
    }
}

async fn find(queue: &Queue, id: &str) -> Result<Campaign, Problem> {
    let found = queue.campaigns().get(id).await;
    let found = found.map_err(|error| target::redis("the campaign could not be read", queue, &error))?;
    found.ok_or_else(|| Problem::not_found(format!("the queue {} has no campaign {id}", queue.name())))
}

/// Shows one campaign.
pub(super) async fn one(
    State(site): State<Site>,
    frame: Frame,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let campaign = find(&queue, &id).await?;
    let (class, state) = look(campaign.state);
    let done = campaign.planned.filter(|planned| *planned > 0);
    let page = CampaignPage {
        frame: &frame,
        id: campaign.id.clone(),
        class,
        state: frame.t(state),
        crumb: name.clone(),
        facts: facts(&frame, &name, &campaign),
        percent: done.map(|planned| (campaign.counts.replayed.saturating_mul(100) / planned).min(100)),
        actions: actions(&frame, &queue, &campaign),
    };
    Ok(frame.page(&campaign.id, Some(Section::Campaigns), &page))
}

fn facts(frame: &Frame, queue: &str, campaign: &Campaign) -> Vec<Fact> {
    let (counts, rules) = (campaign.counts, campaign.rules);
    let plain = |key, text: String| Fact { key, text, link: None };
    let count = |key, count: u64| plain(key, grouped(count));
    let letters = of_campaign(queue, &campaign.id);
    let counted = |key, number: u64, link: &Link| Fact { link: Some(link.to_string()), ..count(key, number) };
    let stop = rules.stop_at.map_or_else(|| "–".to_owned(), |share| format!("{share} %"));
    let mut facts = vec![
        plain("column.filter", filter(frame, campaign)),
        plain("campaign.who", campaign.who.clone()),
        plain("column.begun", utc(campaign.created)),
        plain("plan.rate", format!("{:.2}", rules.rate)),
        count("plan.canary", rules.canary),
        plain("plan.stop_at", stop),
    ];
    facts.extend(campaign.planned.map(|planned| count("campaign.planned", planned)));
    facts.extend([
        count("campaign.replayed", counts.replayed),
        count("campaign.skipped", counts.skipped),
        count("campaign.succeeded", counts.succeeded),
        counted("campaign.died_again", counts.died, &letters),
        counted("campaign.died_otherwise", counts.died_otherwise, &letters),
        counted(
            "campaign.decisions",
            counts.needs_decision,
            &letters.clone().with("reason", DeadReason::NeedsDecision.as_str()),
        ),
        count("campaign.cancelled", counts.cancelled),
        count("campaign.alive", counts.alive()),
    ]);
    if !campaign.why.is_empty() {
        facts.insert(0, plain("campaign.why", frame.written(&campaign.why).into_owned()));
    }
    facts
}

fn actions(frame: &Frame, queue: &Queue, campaign: &Campaign) -> Vec<(&'static str, String, bool)> {
    if campaign.state.is_over() || !frame.may(Role::Operator, queue.name()) {
        return Vec::new();
    }
    let act =
        |action: &str| Link::queue(queue.name().as_str(), &["campaigns", &campaign.id, action]).to_string();
    let first = if campaign.state == CampaignState::Paused {
        ("action.resume", act("resume"), false)
    } else {
        ("action.pause", act("pause"), false)
    };
    vec![first, ("action.stop", act("stop"), true)]
}

/// What the form of an action says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(default)]
    reason: String,
}

/// Asks before an action.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((name, id, action)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let campaign = find(&queue, &id).await?;
    let (to, back) =
        (Link::queue(&name, &["campaigns", &id, &action]), Link::queue(&name, &["campaigns", &id]));
    let values = [("campaign", &*campaign.id), ("queue", &*name)];
    let (title, line, button) = match action.as_str() {
        "pause" => ("campaign.pause", "campaign.pause_line", "action.pause"),
        "resume" => ("campaign.resume", "campaign.resume_line", "action.resume"),
        "stop" => ("campaign.stop", "campaign.stop_line", "action.stop"),
        _ => return Err(Problem::not_found("no campaign has such an action")),
    };
    let replayed = frame.number_of("campaign.so_far", campaign.counts.replayed);
    let form = Form::new(&frame, frame.fill(title, &values), (&to, &back)).line(frame.t(line)).line(replayed);
    let form = form.field(Field::reason(&frame)).button(button);
    Ok(if action == "stop" { form.drastic() } else { form }.page(Section::Campaigns))
}

/// Does it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((name, id, action)): Path<(String, String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let campaigns = queue.campaigns();
    let note = |what: &str| Action::new(what, person.name()).why(reason(&order.reason));
    let done = match action.as_str() {
        "pause" => campaigns.pause(&id, &note("campaigns pause")).await,
        "resume" => campaigns.resume(&id, &note("campaigns resume")).await,
        "stop" => campaigns.stop(&id, &note("campaigns stop")).await,
        _ => return Err(Problem::not_found("no campaign has such an action")),
    };
    let done = match done {
        Ok(done) => Done::new(frame.t("campaign.changed")).unnoted(&frame, done.unnoted),
        Err(CampaignError::Redis(error)) => {
            return Err(target::redis("the campaign was not changed", &queue, &error));
        }
        Err(error) => Done::not(error.to_string()),
    };
    Ok(lead_to(&Link::queue(&name, &["campaigns", &id]), &done.message()))
}
