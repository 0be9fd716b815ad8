//! Actions on all jobs that a filter matches: cancel them, make them due, or move them to another queue.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Form as Body;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::job::{QueueName, State};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::Noted;
use streamfleet_operations::jobs::bulk::{self, Bulk, BulkReport, Change};
use streamfleet_operations::tasks::TaskReport;
use streamfleet_operations::{Actor, Control, Error};

use super::action::Done;
use super::criteria::Criteria;
use super::form::{Field, Form, reason};
use super::frame::{Frame, grouped, lead_to};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::bulk::bounded;
use crate::console::access::{Person, Role};
use crate::console::api::{Work, carry_on, within};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How long a plan counts.
const COUNTING: Duration = Duration::from_secs(10);

/// What the form says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    #[serde(default)]
    reason: String,
    /// The queue that gets the jobs.
    #[serde(default)]
    to: String,
}

/// What is named by an address.
struct Task {
    queue: Queue,
    criteria: Criteria,
    /// The address of the form.
    here: Link,
    /// The list that it comes from.
    back: Link,
}

impl Task {
    fn read(
        site: &Site,
        frame: &Frame,
        (name, action): (&str, &str),
        query: Vec<(String, String)>,
    ) -> Result<Self, Problem> {
        let queue = target::queue(site, name)?;
        let criteria = Criteria::of_action(frame, site.mask(), query)?;
        let states =
            |link: Link| criteria.states.iter().fold(link, |link, state| link.with("state", state.as_str()));
        let here = states(criteria.conditions(Link::queue(name, &["bulk", action])));
        let tab = match &criteria.states[..] {
            [State::Running] => "running",
            [State::Scheduled] => "scheduled",
            [State::Retrying] => "retrying",
            [State::Scheduled, State::Retrying] => "delayed",
            _ => "waiting",
        };
        let back = criteria.conditions(Link::queue(name, &[])).with("tab", tab);
        Ok(Self { queue, criteria, here, back })
    }
}

/// The change that an address names. A move needs a queue.
fn change(site: &Site, name: &str, to: &str) -> Result<Change, Problem> {
    match name {
        "cancel" => Ok(Change::Cancel),
        "run-now" => Ok(Change::RunNow),
        "move" => {
            let to = to.trim().parse::<QueueName>();
            let to = to.map_err(|error| Problem::field("body.to", error.to_string()))?;
            // The person who sends the form has seen the remarks of the plan.
            Ok(Change::Move { to: site.queue(to), is_sure: true })
        }
        _ => Err(Problem::not_found("there is no such action")),
    }
}

/// The keys of an action's title, explanation and button.
fn words(name: &str) -> [&'static str; 3] {
    match name {
        "run-now" => ["bulk.run_now", "act.run_now_line", "action.run_all"],
        "move" => ["bulk.move", "bulk.move_line", "action.move_all"],
        _ => ["bulk.cancel", "bulk.cancel_line", "action.cancel_all"],
    }
}

/// Shows the plan, and asks.
pub(super) async fn ask(
    Shared(site): Shared<Site>,
    frame: Frame,
    Path((name, action_name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let Task { queue, criteria, here, back } = Task::read(&site, &frame, (&name, &action_name), query)?;
    // Which queue gets the jobs does not change which jobs are meant.
    let is_move = action_name == "move";
    let change = if is_move { Change::Cancel } else { change(&site, &action_name, "")? };
    let mut states = criteria.states;
    if is_move && states.is_empty() {
        states = vec![State::Waiting, State::Retrying, State::Scheduled];
    }
    let input = bounded(change, criteria.filter, queue.name(), site.effective());
    let input = Bulk { all: true, states, ..input };
    let _permit = site.desk().begin(Work::Search)?;
    let (stop, read) = (Shutdown::new(), AtomicU64::new(0));
    let progress = |looked: u64| read.store(looked, Ordering::Relaxed);
    let planning = bulk::plan(&queue, &input, Control { stop: &stop, progress: &progress });
    let plan = match within(COUNTING, (&stop, site.stopping()), planning).await {
        Ok(planned) => Some(planned.report),
        Err(Error::Stopped) => None,
        Err(error) => return Err(error.into()),
    };
    let [title, line, button] = words(&action_name);
    let count = match &plan {
        Some(plan) => frame.number_of("bulk.jobs", plan.planned),
        None => frame.fill("bulk.uncounted", &[("read", &grouped(read.into_inner()))]),
    };
    let filter = input.filter.to_string();
    let filter = if filter.is_empty() {
        frame.t("bulk.all").to_owned()
    } else {
        frame.fill("plan.filter", &[("filter", &filter)])
    };
    let mut form = Form::new(&frame, frame.fill(title, &[("queue", &name)]), (&here, &back))
        .line(count)
        .line(filter)
        .line(frame.t(line));
    if let Some(plan) = &plan {
        form = form.table(sample(&frame, &name, plan));
    }
    if is_move {
        form = form.field(Field::line(&frame, "to", "bulk.to").required());
    }
    Ok(form.field(Field::reason(&frame)).button(button).drastic().page(Section::Jobs))
}

fn sample(frame: &Frame, queue: &str, plan: &BulkReport) -> Table {
    let columns = [("column.job", ""), ("column.type", ""), ("column.state", "short")];
    let mut table = Table::new(frame, "bulk.sample", &columns).or(frame.t("found.none"));
    for job in &plan.sample {
        let state = job.state.parse::<State>();
        table.add([
            Cell::id(&job.id, &Link::job(queue, &job.id)),
            Cell::text(&job.job_type),
            state.map_or_else(|()| Cell::text(job.state), |state| Cell::state(frame, state)),
        ]);
    }
    table
}

/// Begins the task, and leads to its page.
pub(super) async fn act(
    Shared(site): Shared<Site>,
    frame: Frame,
    person: Person,
    Path((name, action_name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let Task { queue, criteria, .. } = Task::read(&site, &frame, (&name, &action_name), query)?;
    let change = change(&site, &action_name, &order.to)?;
    if let Change::Move { to, .. } = &change {
        // The path names only the queue that loses the jobs.
        person.check(Role::Operator, Some(to.name()))?;
    }
    let input = bounded(change, criteria.filter, queue.name(), site.effective());
    let input = Bulk { all: true, states: criteria.states, ..input };
    let planned = bulk::select(&queue, &input).await?;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let begun = bulk::begin(&queue, &actor, &input, &planned).await?;
    Ok(lead_to_task(&site, &frame, &queue, begun))
}

/// Carries on a task that has begun, and leads to its page.
pub(super) fn lead_to_task(site: &Site, frame: &Frame, queue: &Queue, begun: Noted<TaskReport>) -> Response {
    let Noted { value: task, unnoted, .. } = begun;
    carry_on(site, queue, &task);
    let done = Done::new(frame.t("plan.begun")).unnoted(frame, unnoted);
    lead_to(&Link::queue(&task.queue, &["campaigns", &task.id]), &done.message())
}
