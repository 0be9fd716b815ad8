//! Recurring jobs: when they are due next in their zone. Pausing, resuming, running and removing them.

use axum::Form as Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use streamfleet::Queue;
use streamfleet::cron::Entry;
use streamfleet::job::{CronName, JobId, QueueName, State as JobState, Timestamp};
use streamfleet_engine::admin::CronStatus;
use streamfleet_operations::{Actor, Error, cron};

use super::action::Done;
use super::form::{Field, Form, reason};
use super::frame::{Frame, lead_to};
use super::list::{Asked, List, Narrow};
use super::section::Section;
use super::table::{Cell, Table, state_class, state_key};
use super::target;
use crate::console::access::{Person, Role};
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How many queues, or jobs, are read at once.
const AT_ONCE: usize = 8;

/// The most recurring jobs of a page.
const MOST: usize = 50;

/// How many of the last ticks are shown.
const LAST: usize = 5;

/// How many of the next ticks are shown.
const NEXT: usize = 3;

/// A recurring job, and what became of its last ticks, the last one first.
struct Recurring {
    queue: Queue,
    status: CronStatus,
    last: Vec<Tick>,
    now: Timestamp,
}

/// A tick, and the job that it submitted, if Redis still knows it.
struct Tick {
    at: Timestamp,
    job: Option<(JobId, JobState)>,
}

/// Shows the page.
pub(super) async fn show(
    State(site): State<Site>,
    frame: Frame,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let mut queues = target::visible(&site, &frame).await?;
    let here = Link::to(&["recurring"]);
    let narrow = Narrow::new(&frame, &here)
        .queue(&frame, &asked, &queues)
        .field(&frame, &asked, ("name", "column.name"))
        .field(&frame, &asked, ("type", "column.type"));
    asked.retain_queues(&mut queues);
    let reading = stream::iter(queues).map(|queue| async move {
        let table = queue
            .cron()
            .table()
            .await
            .map_err(|error| format!("{}: {}", queue.name(), queue.with_keys(&error)));
        (queue, table)
    });
    let read: Vec<_> = reading.buffered(AT_ONCE).collect().await;
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for (queue, read) in read {
        match read {
            Ok(table) => {
                found.extend(table.entries.into_iter().map(|status| (queue.clone(), status, table.now)))
            }
            Err(error) => remarks.push(error),
        }
    }
    found.retain(|(_, status, _)| is_wanted(&asked, status));
    let next = asked.cut(&mut found, MOST)?;
    let known = stream::iter(found).map(|(queue, status, now)| async move {
        let last = last(&queue, &status).await;
        Recurring { queue, status, last, now }
    });
    let known: Vec<Recurring> = known.buffered(AT_ONCE).collect().await;
    let table = table(&frame, &known);
    let (title, line) = (frame.t("nav.recurring"), frame.t("recurring.line").to_owned());
    let next = narrow.next(here, next);
    let page = List { frame: &frame, title, line, narrow, table, remarks, more: Vec::new(), next };
    Ok(frame.page(title, Some(Section::Recurring), &page))
}

/// Whether the address asks for a recurring job.
fn is_wanted(asked: &Asked, status: &CronStatus) -> bool {
    let job_type = status.entry.as_ref().map_or("", |entry| entry.job_type().as_str());
    asked.fits("name", status.name.as_str()) && asked.fits("type", job_type)
}

/// What became of the jobs of the last ticks. Without a record, nobody knows.
async fn last(queue: &Queue, status: &CronStatus) -> Vec<Tick> {
    let Ok(entry) = &status.entry else { return Vec::new() };
    let ticks = entry.schedule().last(LAST, Timestamp::default(), status.handled);
    let reading = ticks.into_iter().rev().map(|at| async move {
        let found = queue.status(&entry.job_id(at)).await.ok().flatten();
        Tick { at, job: found.map(|found| (found.id, found.state)) }
    });
    join_all(reading).await
}

fn table(frame: &Frame, found: &[Recurring]) -> Table {
    let columns = [
        ("column.name", ""),
        ("column.queue", "short"),
        ("column.schedule", ""),
        ("column.type", ""),
        ("recurring.next", ""),
        ("recurring.last", ""),
        ("column.change", "short"),
    ];
    let mut table = Table::new(frame, "nav.recurring", &columns).or(frame.t("recurring.none"));
    for one in found {
        table.add(one.row(frame));
    }
    table
}

impl Recurring {
    fn row(&self, frame: &Frame) -> Vec<Cell> {
        let (name, queue) = (self.status.name.as_str(), self.queue.name());
        let entry = self.status.entry.as_ref();
        let (schedule, job_type) = match entry {
            Ok(entry) => {
                let schedule = entry.schedule();
                let cell =
                    Cell::like(schedule.expression.to_string(), "mono").under(schedule.zone.to_string());
                (cell, entry.job_type().to_string())
            }
            Err(error) => (Cell::like(error.to_string(), "late"), String::new()),
        };
        let last = self.last.iter().map(|tick| {
            let (class, key, link) = match &tick.job {
                Some((id, state)) => {
                    (state_class(*state), state_key(*state), Some(Link::job(queue.as_str(), &id.to_string())))
                }
                None => ("muted", "recurring.no_record", None),
            };
            (class, format!("{} · {}", frame.t(key), frame.distance(tick.at, self.now)), link)
        });
        vec![
            Cell::like(name, "mono"),
            Cell::link(queue.as_str(), &Link::queue(queue.as_str(), &[])),
            schedule,
            Cell::text(job_type),
            self.next(frame, entry.ok()),
            if self.last.is_empty() { Cell::text("–") } else { Cell::lines(last) },
            self.change(frame, queue),
        ]
    }

    /// The next ticks, in local time of their zone.
    fn next(&self, frame: &Frame, entry: Option<&Entry>) -> Cell {
        if self.status.paused {
            return Cell::like(frame.t("gate.paused"), "state retrying");
        }
        let Some(schedule) = entry.map(Entry::schedule) else { return Cell::text("–") };
        let ticks: Vec<Timestamp> = schedule.upcoming(self.now).take(NEXT).collect();
        let Some(first) = ticks.first() else { return Cell::text(frame.t("recurring.never")) };
        let local: Vec<String> = ticks.iter().map(|tick| schedule.zone.shown(*tick)).collect();
        Cell::text(frame.distance(*first, self.now)).under(local.join("\n"))
    }

    fn change(&self, frame: &Frame, queue: &QueueName) -> Cell {
        if !frame.may(Role::Operator, queue) {
            return Cell::text("–");
        }
        let link = Link::queue(queue.as_str(), &["recurring", self.status.name.as_str()]);
        Cell::link(frame.t("recurring.change"), &link)
    }
}

async fn find(queue: &Queue, name: &CronName) -> Result<CronStatus, Problem> {
    let table = queue.cron().table().await;
    let table =
        table.map_err(|error| target::redis("the recurring jobs could not be read", queue, &error))?;
    let found = table.entries.into_iter().find(|status| status.name == *name);
    found.ok_or_else(|| Problem::not_found(format!("the queue {} has no recurring job {name}", queue.name())))
}

/// What the form says.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    action: String,
    #[serde(default)]
    reason: String,
}

/// Asks what to do.
pub(super) async fn ask(
    State(site): State<Site>,
    frame: Frame,
    Path((queue_name, name)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &queue_name)?;
    let status = find(&queue, &target::part("name", &name)?).await?;
    let (to, back) = (Link::queue(&queue_name, &["recurring", &name]), Link::to(&["recurring"]));
    let values = [("name", &*name), ("queue", &*queue_name)];
    let first = if status.paused { ("resume", "action.resume") } else { ("pause", "action.pause") };
    let choices = [first, ("run", "action.run_now"), ("remove", "action.remove")];
    let choices = choices.map(|(name, key)| (name.to_owned(), frame.t(key).to_owned()));
    let source = status.entry.as_ref().map_or("", |entry| entry.source().as_str());
    let form = Form::new(&frame, frame.fill("recurring.title", &values), (&to, &back))
        .line(frame.t("recurring.ask_line"))
        .line(frame.fill("recurring.source", &[("source", source)]))
        .field(Field::choice(&frame, "action", "column.change", choices))
        .field(Field::reason(&frame));
    Ok(form.page(Section::Recurring))
}

/// Does it.
pub(super) async fn act(
    State(site): State<Site>,
    frame: Frame,
    person: Person,
    Path((queue_name, name)): Path<(String, String)>,
    Body(order): Body<Order>,
) -> Result<Response, Problem> {
    let queue = target::queue(&site, &queue_name)?;
    let name: CronName = target::part("name", &name)?;
    let actor = Actor::new(person.name(), &reason(&order.reason));
    let (key, done) = match order.action.as_str() {
        "pause" => ("recurring.is_paused", cron::pause(&queue, &actor, &name).await),
        "resume" => ("recurring.is_resumed", cron::resume(&queue, &actor, &name).await),
        "run" => ("recurring.is_run", cron::run(&queue, &actor, &name).await),
        "remove" => ("recurring.is_removed", cron::remove(&queue, &actor, &name).await),
        _ => return Err(Problem::field("body.action", "expected pause, resume, run or remove")),
    };
    let done = match done {
        Ok(done) => Done::new(frame.fill(key, &[("name", name.as_str())])).unnoted(&frame, done.unnoted),
        Err(Error::NotFound(_)) => Done::not(frame.fill("recurring.gone", &[("name", name.as_str())])),
        Err(error) => return Err(error.into()),
    };
    Ok(lead_to(&Link::to(&["recurring"]), &done.message()))
}
