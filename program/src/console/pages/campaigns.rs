//! Tasks, of which those that replay dead letters were once called campaigns.

use askama::Template;
use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{DeadReason, Timestamp};
use streamfleet_engine::admin::TaskState;
use streamfleet_operations::tasks::{self, TaskReport};
use streamfleet_operations::{Actor, Error};

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
use crate::console::api::carry_on;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues are read at once.
const AT_ONCE: usize = 8;

/// The most campaigns of a page.
const MOST: usize = 50;

/// The most tasks that are read of a queue: more than it knows.
const MOST_OF_QUEUE: u64 = 1000;

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
    let states = TaskState::ALL.map(|state| state.as_str().to_owned());
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
                found.extend(campaigns);
            }
            Err(error) => remarks.push(format!("{}: {error}", queue.name())),
        }
    }
    found.retain(|campaign: &TaskReport| asked.get("state").is_none_or(|state| campaign.state == state));
    found.sort_by_key(|campaign| std::cmp::Reverse(campaign.created_ms));
    let next = asked.cut(&mut found, MOST)?;
    let columns = [
        ("column.campaign", "short"),
        ("column.queue", "short"),
        ("campaign.kind", "short"),
        ("column.state", "short"),
        ("column.filter", "clip"),
        ("campaign.replayed", "number"),
        ("campaign.succeeded", "number"),
        ("campaign.died", "number"),
        ("column.begun", "short"),
    ];
    let mut table = Table::new(frame, "nav.campaigns", &columns).or(frame.t("campaign.none"));
    for campaign in &found {
        table.add(row(frame, campaign, now));
    }
    let (title, line) = (frame.t("nav.campaigns"), frame.t("campaign.line").to_owned());
    let next = narrow.next(here, next);
    let page = List { frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Campaigns), &page))
}

/// The tasks of a queue. One that cannot be read does not hide the others.
async fn read(queue: &Queue) -> Result<(Timestamp, Vec<TaskReport>, Vec<String>), String> {
    let now = queue.clock().await.map_err(|error| queue.with_keys(&error))?;
    let page = tasks::list(queue, None, MOST_OF_QUEUE).await.map_err(|error| error.to_string())?;
    let unread = page.facts.unreadable.into_iter();
    let remarks = unread.map(|id| format!("{} {id}: this version cannot read it", queue.name()));
    Ok((now, page.items, remarks.collect()))
}

fn row(frame: &Frame, campaign: &TaskReport, now: Timestamp) -> Vec<Cell> {
    let (replay, state) = (&campaign.replay, look(campaign.task.state));
    let died: u64 = [replay.died, replay.died_otherwise, replay.needs_decision].into_iter().flatten().sum();
    vec![
        Cell::id(&campaign.id, &Link::queue(&campaign.queue, &["campaigns", &campaign.id])),
        Cell::link(&campaign.queue, &Link::queue(&campaign.queue, &[])),
        Cell::text(campaign.kind),
        Cell::like(frame.t(state.1), state.0).under(frame.written(&campaign.why)),
        Cell::text(filter(frame, campaign)),
        Cell::number(campaign.done + campaign.requested),
        Cell::number(replay.succeeded.unwrap_or(0)),
        Cell::number(died),
        Cell::time(frame, campaign.task.begun, now),
    ]
}

fn filter(frame: &Frame, campaign: &TaskReport) -> String {
    let filter = campaign.task.filter.to_string();
    if filter.is_empty() { frame.t("campaign.all").to_owned() } else { frame.about(&filter).into_owned() }
}

/// The classes of a campaign's state, and the key of its name.
fn look(state: TaskState) -> (&'static str, &'static str) {
    match state {
        TaskState::Canary => ("state scheduled", "campaign.canary"),
        TaskState::Running => ("state running", "campaign.running"),
        TaskState::Paused => ("state retrying", "campaign.paused"),
        TaskState::Stopped | TaskState::Failed => ("state dead", "campaign.stopped"),
        TaskState::Done => ("state done", "campaign.done"),
    }
}

/// Shows one campaign.
pub(super) async fn one(
    State(site): State<Site>,
    frame: Frame,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let campaign = tasks::show(&queue, &id).await?;
    let (class, state) = look(campaign.task.state);
    let done = campaign.planned.filter(|planned| *planned > 0);
    let page = CampaignPage {
        frame: &frame,
        id: campaign.id.clone(),
        class,
        state: frame.t(state),
        crumb: name.clone(),
        facts: facts(&frame, &campaign),
        percent: done.map(|planned| (campaign.done.saturating_mul(100) / planned).min(100)),
        actions: actions(&frame, &queue, &campaign),
    };
    Ok(frame.page(&campaign.id, Some(Section::Campaigns), &page))
}

fn facts(frame: &Frame, campaign: &TaskReport) -> Vec<Fact> {
    let plain = |key, text: String| Fact { key, text, link: None };
    let count = |key, count: u64| plain(key, grouped(count));
    let mut facts = vec![
        plain("campaign.kind", campaign.kind.to_owned()),
        plain("column.filter", filter(frame, campaign)),
        plain("campaign.who", campaign.who.clone()),
        plain("column.begun", utc(campaign.task.begun)),
    ];
    facts.extend(campaign.rate.map(|rate| plain("plan.rate", format!("{rate:.2}"))));
    facts.extend(campaign.planned.map(|planned| count("campaign.planned", planned)));
    facts.push(count("campaign.looked", campaign.looked));
    facts.extend(campaign.left.map(|left| count("campaign.left", left)));
    facts.push(count("campaign.replayed", campaign.done));
    if campaign.replay.running.is_some() {
        facts.extend(of_replay(campaign));
    } else {
        facts.extend([
            count("campaign.requested", campaign.requested),
            count("campaign.skipped", campaign.refused + campaign.undecided),
        ]);
    }
    if !campaign.why.is_empty() {
        facts.insert(0, plain("campaign.why", frame.written(&campaign.why).into_owned()));
    }
    facts
}

/// How the jobs of a replay fare.
fn of_replay(campaign: &TaskReport) -> Vec<Fact> {
    let replay = &campaign.replay;
    let fact = |key, text: String, link: Option<&Link>| Fact { key, text, link: link.map(Link::to_string) };
    let count = |key, count: Option<u64>| fact(key, grouped(count.unwrap_or(0)), None);
    let letters = of_campaign(&campaign.queue, &campaign.id);
    let counted = |key, count: Option<u64>, link: &Link| fact(key, grouped(count.unwrap_or(0)), Some(link));
    let decisions = letters.clone().with("reason", DeadReason::NeedsDecision.as_str());
    let stop = replay.stop_at.map_or_else(|| "–".to_owned(), |share| format!("{share} %"));
    vec![
        count("plan.canary", replay.canary),
        fact("plan.stop_at", stop, None),
        count("campaign.skipped", Some(campaign.refused)),
        count("campaign.succeeded", replay.succeeded),
        counted("campaign.died_again", replay.died, &letters),
        counted("campaign.died_otherwise", replay.died_otherwise, &letters),
        counted("campaign.decisions", replay.needs_decision, &decisions),
        count("campaign.cancelled", replay.cancelled),
        count("campaign.alive", replay.running),
    ]
}

fn actions(frame: &Frame, queue: &Queue, campaign: &TaskReport) -> Vec<(&'static str, String, bool)> {
    if campaign.task.state.is_over() || !frame.may(Role::Operator, queue.name()) {
        return Vec::new();
    }
    let act =
        |action: &str| Link::queue(queue.name().as_str(), &["campaigns", &campaign.id, action]).to_string();
    let first = if campaign.task.state == TaskState::Paused {
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
    let campaign = tasks::show(&queue, &id).await?;
    let (to, back) =
        (Link::queue(&name, &["campaigns", &id, &action]), Link::queue(&name, &["campaigns", &id]));
    let values = [("campaign", &*campaign.id), ("queue", &*name)];
    let (title, line, button) = match action.as_str() {
        "pause" => ("campaign.pause", "campaign.pause_line", "action.pause"),
        "resume" => ("campaign.resume", "campaign.resume_line", "action.resume"),
        "stop" => ("campaign.stop", "campaign.stop_line", "action.stop"),
        _ => return Err(Problem::not_found("no campaign has such an action")),
    };
    let replayed = frame.number_of("campaign.so_far", campaign.done);
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
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let order = match action.as_str() {
        "pause" => tasks::Order::Pause,
        "resume" => tasks::Order::Resume,
        "stop" => tasks::Order::Stop,
        _ => return Err(Problem::not_found("no campaign has such an action")),
    };
    let done = match tasks::change(&queue, &actor, &id, order).await {
        Ok(done) => {
            carry_on(&site, &queue, &done.value);
            Done::new(frame.t("campaign.changed")).unnoted(&frame, done.unnoted)
        }
        Err(Error::Conflict(why)) => Done::not(why),
        Err(error) => return Err(error.into()),
    };
    Ok(lead_to(&Link::queue(&name, &["campaigns", &id]), &done.message()))
}
