//! Plans about many dead letters: a campaign that replays them, or dropping them.

use std::time::Duration;

use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use streamfleet::Queue;
use streamfleet_engine::admin::{DeadGroup, Filter, ReplayRules, Selection, SelectionPlan};
use streamfleet_operations::dead::{Selected, begin_drop, begin_replay};
use streamfleet_operations::{Actor, Error};
use tokio::time::timeout;

use super::action::Done;
use super::bulk::lead_to_task;
use super::criteria::Criteria;
use super::form::{Field, Form, reason};
use super::frame::{Frame, grouped, lead_to};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::console::access::{Person, Role};
use crate::console::api::Work;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How long a plan counts.
const COUNTING: Duration = Duration::from_secs(10);

/// How many groups a plan shows.
const GROUPS: usize = 10;

/// What a plan says, if it was finished in time.
struct Planned {
    selection: Selection,
    plan: Option<SelectionPlan>,
}

async fn planned(site: &Site, queue: &Queue, filter: Filter) -> Result<Planned, Problem> {
    let _permit = site.desk().begin(Work::Search)?;
    let failed = |error| target::redis("the dead letters could not be read", queue, &error);
    let dead = queue.dead_letters();
    let selection = dead.select(filter).await.map_err(failed)?;
    let plan = timeout(COUNTING, dead.plan(&selection, |_| {})).await;
    let plan = plan.ok().transpose().map_err(failed)?;
    Ok(Planned { selection, plan })
}

impl Planned {
    /// How many letters are meant, in words.
    fn line(&self, frame: &Frame) -> String {
        let total = grouped(self.selection.total);
        match &self.plan {
            Some(plan) => {
                frame.fill("plan.letters", &[("letters", &grouped(plan.letters)), ("total", &total)])
            }
            None => frame.fill("plan.uncounted", &[("total", &total)]),
        }
    }

    /// The filter, in words.
    fn filter(&self, frame: &Frame) -> String {
        let filter = self.selection.filter.to_string();
        if filter.is_empty() {
            frame.t("plan.all").to_owned()
        } else {
            frame.fill("plan.filter", &[("filter", &filter)])
        }
    }

    fn table(&self, frame: &Frame, queue: &str) -> Table {
        let columns = [("column.error", "clip"), ("column.type", ""), ("column.letters", "number")];
        let mut table = Table::new(frame, "dead.groups", &columns);
        let groups = self.plan.as_ref().map_or(&[][..], |plan| &plan.groups);
        for group in groups.iter().take(GROUPS) {
            table.add(row(frame, queue, group));
        }
        table
    }
}

fn row(frame: &Frame, queue: &str, group: &DeadGroup) -> Vec<Cell> {
    let sample = group.sample.map(|letter| Link::queue(queue, &["dead", &letter.to_string()]));
    let error = frame.said(&group.error);
    let error = if error.is_empty() { "–".to_owned() } else { error };
    vec![
        sample.map_or_else(|| Cell::text(&error), |sample| Cell::link(&error, &sample)),
        Cell::text(group.job_type.as_ref().map(ToString::to_string).unwrap_or_default()),
        Cell::number(group.count),
    ]
}

/// Shows the plan of a campaign.
pub(super) async fn campaign(
    State(site): State<Site>,
    frame: Frame,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let criteria = Criteria::of_action(&frame, site.mask(), query)?;
    let to = criteria.conditions(Link::queue(&name, &["campaigns", "plan"]));
    let back = criteria.conditions(Link::queue(&name, &["dead"]));
    let planned = planned(&site, &queue, criteria.filter).await?;
    let form = Form::new(&frame, frame.fill("plan.campaign", &[("queue", &name)]), (&to, &back))
        .line(planned.line(&frame))
        .line(planned.filter(&frame))
        .line(frame.t("plan.campaign_line"))
        .table(planned.table(&frame, &name))
        .field(
            Field::line(&frame, "rate", "plan.rate").value("100").hint(&frame, "plan.rate_hint").required(),
        )
        .field(Field::line(&frame, "canary", "plan.canary").value("1").hint(&frame, "plan.canary_hint"))
        .field(Field::line(&frame, "stop_at", "plan.stop_at").value("5").hint(&frame, "plan.stop_at_hint"))
        .field(Field::reason(&frame))
        .button("plan.begin");
    Ok(form.page(Section::Campaigns))
}

/// What the form of a campaign says.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Order {
    #[serde(default)]
    rate: String,
    #[serde(default)]
    canary: String,
    #[serde(default)]
    stop_at: String,
    #[serde(default)]
    reason: String,
}

impl Order {
    fn rules(&self) -> Result<ReplayRules, Problem> {
        let wrong = |field: &str, why: &str| Problem::field(format!("body.{field}"), why);
        let rate = self
            .rate
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|rate| (0.0..=10_000.0).contains(rate) && *rate > 0.0);
        let rate =
            rate.ok_or_else(|| wrong("rate", "expected jobs per second, more than 0 and at most 10000"))?;
        let canary = match self.canary.trim() {
            "" => 0,
            text => text.parse().map_err(|_| wrong("canary", "expected a number of jobs"))?,
        };
        let stop_at = match self.stop_at.trim().trim_end_matches('%') {
            "" => None,
            text => {
                let share = text.parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share));
                Some(share.ok_or_else(|| wrong("stop_at", "expected a percentage from 0 to 100"))?)
            }
        };
        Ok(ReplayRules::default().rate(rate).canary(canary).stop_at(stop_at))
    }
}

/// Begins a campaign.
pub(super) async fn begin(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let (criteria, rules) = (Criteria::of_action(&frame, site.mask(), query)?, order.rules()?);
    let back = criteria.conditions(Link::queue(&name, &["dead"]));
    let planned = planned(&site, &queue, criteria.filter).await?;
    if planned.plan.as_ref().is_some_and(|plan| plan.letters == 0) {
        return Ok(lead_to(&back, &Done::not(frame.t("plan.none")).message()));
    }
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let Planned { selection, plan } = planned;
    let letters = Selected { selection, planned: plan.map(|plan| plan.letters), limit: None };
    match begin_replay(&queue, &actor, &letters, rules).await {
        Ok(begun) => Ok(lead_to_task(&site, &frame, &queue, begun)),
        Err(Error::Conflict(why)) => Ok(lead_to(&back, &Done::not(why).message())),
        Err(error) => Err(error.into()),
    }
}

/// Checks that somebody may drop the letters that a filter matches. All letters of a queue are an admin's, as when a queue is
/// purged.
fn may_drop(person: &Person, queue: &Queue, criteria: &Criteria) -> Result<(), Problem> {
    let needed = if criteria.filter.is_empty() { Role::Admin } else { Role::Operator };
    person.check(needed, Some(queue.name()))
}

/// Asks before letters are dropped.
pub(super) async fn ask_drop(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let criteria = Criteria::of_action(&frame, site.mask(), query)?;
    may_drop(&person, &queue, &criteria)?;
    let to = criteria.conditions(Link::queue(&name, &["dead-drop"]));
    let back = criteria.conditions(Link::queue(&name, &["dead"]));
    let planned = planned(&site, &queue, criteria.filter).await?;
    let form = Form::new(&frame, frame.fill("plan.drop", &[("queue", &name)]), (&to, &back))
        .line(planned.line(&frame))
        .line(planned.filter(&frame))
        .line(frame.t("letter.drop_line"))
        .table(planned.table(&frame, &name))
        .field(Field::line(&frame, "queue", "plan.type_name").required())
        .field(Field::reason(&frame));
    Ok(form.button("action.drop_all").drastic().page(Section::Overview))
}

/// What the form before dropping says.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Drop {
    /// The name of the queue, typed by hand.
    #[serde(default)]
    queue: String,
    #[serde(default)]
    reason: String,
}

/// Drops the letters that the filter matches.
pub(super) async fn drop_all(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path(name): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
    Body(order): Body<Drop>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &name)?;
    let criteria = Criteria::of_action(&frame, site.mask(), query)?;
    may_drop(&person, &queue, &criteria)?;
    if order.queue.trim() != name {
        return Err(Problem::field(
            "body.queue",
            format!("to confirm this, type the name of the queue: {name}"),
        ));
    }
    let back = criteria.conditions(Link::queue(&name, &["dead"]));
    let letters = Selected::now(&queue, criteria.filter, None).await?;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    match begin_drop(&queue, &actor, &letters, None).await {
        Ok(begun) => Ok(lead_to_task(&site, &frame, &queue, begun)),
        Err(Error::Conflict(why)) => Ok(lead_to(&back, &Done::not(why).message())),
        Err(error) => Err(error.into()),
    }
}
