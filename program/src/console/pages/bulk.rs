//! Actions on all jobs that a filter matches: cancel them, make them due, or move them to another queue.

use std::time::Duration;

use axum::Form as Body;
use axum::extract::{Path, Query, State as Shared};
use axum::response::Response;
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::job::{QueueName, State};
use streamfleet_engine::admin::{
    Action, BulkAction, BulkCursor, BulkError, BulkPlan, BulkSelection, BulkTally, BulkTerms,
};
use tokio::time::{Instant, timeout};

use super::action::{Done, noted};
use super::criteria::Criteria;
use super::form::{Field, Form, reason};
use super::frame::{Frame, grouped, lead_to};
use super::section::Section;
use super::table::{Cell, Table};
use super::target;
use crate::bulk;
use crate::console::access::{Person, Role};
use crate::console::api::Work;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How long a plan counts.
const COUNTING: Duration = Duration::from_secs(10);

/// How long one request changes jobs.
const CHANGING: Duration = Duration::from_secs(20);

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

    async fn select(&self, action: BulkAction) -> Result<BulkSelection, Problem> {
        let possible = action.states();
        if let Some(state) = self.criteria.states.iter().find(|state| !possible.contains(state)) {
            return Err(Problem::field("query.state", format!("{state} jobs cannot be changed in this way")));
        }
        self.queue.bulk().check(&action).map_err(|error| refused(&self.queue, error))?;
        let states = Some(&self.criteria.states[..]).filter(|states| !states.is_empty());
        let selected = self.queue.bulk().select(action, self.criteria.filter.clone(), states).await;
        selected.map_err(|error| target::redis("the jobs could not be selected", &self.queue, &error))
    }
}

fn refused(queue: &Queue, error: BulkError) -> Problem {
    let BulkError::Redis(error) = error else { return Problem::field("body.to", error.to_string()) };
    target::redis("the jobs were not changed", queue, &error)
}

/// The action that an address names. A move needs a queue.
fn action(name: &str, to: &str) -> Result<BulkAction, Problem> {
    match name {
        "cancel" => Ok(BulkAction::Cancel),
        "run-now" => Ok(BulkAction::RunNow),
        "move" => {
            let to: QueueName =
                to.trim().parse().map_err(|error| Problem::field("body.to", format!("{error}")))?;
            Ok(BulkAction::Move(to))
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
    let task = Task::read(&site, &frame, (&name, &action_name), query)?;
    // Which queue gets the jobs does not change which jobs are meant.
    let planned_as = if action_name == "move" { BulkAction::Cancel } else { action(&action_name, "")? };
    let mut selection = task.select(planned_as).await?;
    if action_name == "move" {
        selection.states.retain(|state| *state != State::Running);
    }
    let bulk = task.queue.bulk();
    let _permit = site.desk().begin(Work::Search)?;
    let mut read = 0;
    let plan = timeout(COUNTING, bulk.plan(&selection, |looked| read = looked)).await;
    let plan = match plan {
        Ok(plan) => {
            Some(plan.map_err(|error| target::redis("the jobs could not be counted", &task.queue, &error))?)
        }
        Err(_) => None,
    };
    let [title, line, button] = words(&action_name);
    let count = match &plan {
        Some(plan) => frame.number_of("bulk.jobs", plan.jobs),
        None => frame.fill("bulk.uncounted", &[("read", &grouped(read))]),
    };
    let filter = selection.filter.to_string();
    let filter = if filter.is_empty() {
        frame.t("bulk.all").to_owned()
    } else {
        frame.fill("plan.filter", &[("filter", &filter)])
    };
    let mut form = Form::new(&frame, frame.fill(title, &[("queue", &name)]), (&task.here, &task.back))
        .line(count)
        .line(filter)
        .line(frame.t(line));
    if let Some(plan) = &plan {
        form = form.table(sample(&frame, &name, plan));
    }
    if action_name == "move" {
        form = form.field(Field::line(&frame, "to", "bulk.to").required());
    }
    Ok(form.field(Field::reason(&frame)).button(button).drastic().page(Section::Jobs))
}

fn sample(frame: &Frame, queue: &str, plan: &BulkPlan) -> Table {
    let columns = [("column.job", ""), ("column.type", ""), ("column.state", "short")];
    let mut table = Table::new(frame, "bulk.sample", &columns).or(frame.t("found.none"));
    for job in &plan.sample {
        table.add([
            Cell::id(&job.id, &Link::job(queue, &job.id)),
            Cell::text(&job.job_type),
            Cell::state(frame, job.state),
        ]);
    }
    table
}

/// Does it, page by page, until all is done or the time is over.
pub(super) async fn act(
    Shared(site): Shared<Site>,
    frame: Frame,
    person: Person,
    Path((name, action_name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let task = Task::read(&site, &frame, (&name, &action_name), query)?;
    let what = action(&action_name, &order.to)?;
    if let BulkAction::Move(to) = &what {
        // The path names only the queue that loses the jobs.
        person.check(Role::Operator, Some(to))?;
    }
    let _permit = site.desk().begin(Work::Change)?;
    let selection = task.select(what).await?;
    let note = Action::new(action_name.as_str(), person.name())
        .why(reason(&order.reason))
        .target(target_of(&selection, &order.to));
    let unnoted = noted(&task.queue, &note).await;
    let retention = site.effective().config.fleet_config().worker.retention_of(task.queue.name());
    let max_depth = match &selection.action {
        BulkAction::Move(to) => bulk::max_depth(site.effective(), to),
        BulkAction::Cancel | BulkAction::RunNow | BulkAction::Drop | BulkAction::Purge => None,
    };
    let terms = BulkTerms::new(person.name()).retention(retention).max_depth(max_depth);
    let (tally, is_complete, error) = walk(&task.queue, &selection, &terms).await;
    let outcome = match (&error, is_complete) {
        (Some(_), _) => "ended early",
        (None, false) => "interrupted",
        (None, true) => "done",
    };
    let noted_end = note.count(tally.changed + tally.requested).outcome(outcome);
    let unnoted = noted(&task.queue, &noted_end).await.or(unnoted);
    let mut text = summary(&frame, &tally);
    if let Some(error) = &error {
        text.push_str(&format!("\n{error}"));
    } else if !is_complete {
        text.push_str(&format!("\n{}", frame.t("plan.more")));
    }
    let is_good = error.is_none() && is_complete && tally.failed == 0 && tally.unread.is_empty();
    let done = if is_good { Done::new(text) } else { Done::not(text) };
    Ok(lead_to(&task.back, &done.unnoted(&frame, unnoted).message()))
}

fn target_of(selection: &BulkSelection, to: &str) -> String {
    let filter = selection.filter.to_string();
    let filter = if filter.is_empty() { "--all".to_owned() } else { filter };
    let states: Vec<&str> = selection.states.iter().map(|state| state.as_str()).collect();
    let to = if to.trim().is_empty() { String::new() } else { format!("--to {} ", to.trim()) };
    format!("{to}--state {} {filter}", states.join(","))
}

/// Changes jobs until none is left or the time is over. Returns what became of them, whether these were all, and an error.
async fn walk(
    queue: &Queue,
    selection: &BulkSelection,
    terms: &BulkTerms,
) -> (BulkTally, bool, Option<String>) {
    let end = Instant::now() + CHANGING;
    let (mut tally, mut next) = (BulkTally::default(), Some(BulkCursor::default()));
    while let Some(from) = next {
        if Instant::now() >= end {
            return (tally, false, None);
        }
        match queue.bulk().advance(selection, terms, from).await {
            Ok(page) => {
                tally.add(page.tally);
                next = page.next;
            }
            Err(error) => return (tally, false, Some(error.to_string())),
        }
    }
    (tally, true, None)
}

/// What became of the jobs, in words.
fn summary(frame: &Frame, tally: &BulkTally) -> String {
    let mut parts = vec![frame.number_of("bulk.changed", tally.changed)];
    let counts = [
        (tally.requested, "bulk.requested"),
        (tally.gone, "bulk.gone"),
        (tally.failed, "bulk.failed"),
        (tally.undecided, "found.unreadable"),
    ];
    parts.extend(
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, key)| frame.number_of(key, count)),
    );
    parts.extend(
        tally.kept.iter().map(|(why, count)| {
            frame.fill("bulk.kept", &[("count", &grouped(*count)), ("why", why.as_str())])
        }),
    );
    parts.extend(tally.errors.iter().chain(&tally.unread).cloned());
    parts.join("\n")
}
