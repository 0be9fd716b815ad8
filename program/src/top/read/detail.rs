//! One job, worker or task: everything that is known about it, a fact in each row.

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::job::{JobId, State};
use streamfleet_engine::admin::LetterEdit;
use streamfleet_operations::jobs::{self, Input, Job};
use streamfleet_operations::{dead, steps, tasks, workers};

use super::past::{lives, sought};
use crate::top::action::Desk;
use crate::top::state::{Cell, Column, Page, Place, Row, Subject};

pub(super) const COLUMNS: &[Column] = &[Column::text("", 0), Column::text("", 0)];

/// How many attempts and lines of a log are shown, at most, the last ones.
const MOST: usize = 20;

/// The field of a dead letter that says what it was before somebody edited it.
const EDITED: &str = "dead_before";

/// Reads what a place is about.
pub(super) async fn read(place: &Place, desk: &Desk) -> anyhow::Result<Page> {
    let rows = match place.about.as_ref().context("there is nothing to show")? {
        Subject::Job { queue, id, .. } => job(&desk.broker.queue(queue.clone()), id, desk).await?,
        Subject::Worker { name, .. } => worker(name, desk).await?,
        Subject::Task { queue, id, .. } => task(&desk.broker.queue(queue.clone()), id, desk).await?,
        Subject::Sought { queue, id } => sought(queue.as_ref(), id, desk).await?,
        Subject::Queue { .. }
        | Subject::Group { .. }
        | Subject::Gate { .. }
        | Subject::Step { .. }
        | Subject::Past(_) => Vec::new(),
    };
    Ok(Page { rows, ..Page::default() })
}

/// A row about the whole.
fn fact(subject: &Subject, name: &str, value: impl Into<String>) -> Row {
    Row { subject: subject.clone(), cells: vec![Cell::from(name), Cell::from(value)], note: String::new() }
}

/// Rows for the facts that there are. Each line of a value is a row. All are about the same: keys on any of them act on it.
pub(super) fn facts(subject: &Subject, facts: Vec<(&'static str, Option<String>)>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, value) in facts {
        let value = value.filter(|value| !value.is_empty());
        for (nth, line) in value.iter().flat_map(|value| value.lines()).enumerate() {
            rows.push(fact(subject, if nth == 0 { name } else { "" }, line));
        }
    }
    rows
}

/// Everything about a job: from the history, if Redis has no record of it any more.
pub(super) async fn job(queue: &Queue, id: &str, desk: &Desk) -> anyhow::Result<Vec<Row>> {
    let id: JobId = id.parse()?;
    let Some(status) = jobs::find(queue, &id).await? else {
        if let Some(lives) = lives(queue, &id, desk).await? {
            return Ok(lives);
        }
        return Err(jobs::unknown(queue, &id).await.into());
    };
    let fields = queue.fields(&status).await;
    let input = fields.map(|fields| fields.map(|fields| Input::of(&fields, false)));
    let job = jobs::status((&desk.broker, &desk.configured[..]), (queue, &status), input).await?;
    let is_edited = is_edited(queue, &job).await;
    let subject = Subject::Job {
        queue: queue.name().clone(),
        id: job.id.clone(),
        job_type: job.job_type.clone(),
        letter: job.dead_letter.clone().filter(|_| job.state == State::Dead.as_str()),
        is_edited,
    };
    let mut rows = facts(&subject, job_facts(&job, is_edited));
    if job.steps.is_some() {
        let steps = steps::list(queue, &id).await?;
        let job_id = steps.id.clone();
        rows.extend(steps.steps.iter().map(|step| {
            let waits = steps.undecided.contains(&step.step);
            let error = step.errors.last().map_or_else(String::new, |error| format!(": {}", error.error));
            let decide = if waits { "; d decides" } else { "" };
            let subject = if waits {
                let (queue, job, step) = (queue.name().clone(), job_id.clone(), step.step.clone());
                Subject::Step { queue, job, step }
            } else {
                subject.clone()
            };
            let value = format!("{} ({}) {}{error}{decide}", step.step, step.kind, step.state);
            fact(&subject, "step", value)
        }));
    }
    Ok(rows)
}

/// Whether the dead letter of a job has edits that can be taken back. The page is complete without it, so errors count as no.
async fn is_edited(queue: &Queue, job: &Job) -> bool {
    let Some(Ok(id)) = job.dead_letter.as_ref().map(|letter| letter.parse::<JobId>()) else { return false };
    let letters = queue.dead_letters();
    // Few letters are edited: only these are read with their large fields.
    let bare = dead::find(letters.bare(), queue, &id).await;
    if !bare.is_ok_and(|letter| !letter.text(EDITED).is_empty()) {
        return false;
    }
    let letter = dead::find(letters, queue, &id).await;
    // The letter also keeps edits that were taken back.
    letter.is_ok_and(|letter| LetterEdit::default().undo().job(&letter).is_ok())
}

fn job_facts(job: &Job, is_edited: bool) -> Vec<(&'static str, Option<String>)> {
    let text = |text: &str| Some(text.to_owned());
    let attempts = job.attempts.iter().rev().take(MOST).map(|attempt| {
        let error = attempt.error.as_deref().map_or_else(String::new, |error| format!(": {error}"));
        format!("{} {} after {} ms{error}", attempt.started, attempt.outcome, attempt.duration_ms)
    });
    let log = job.log.iter().rev().take(MOST).map(|line| format!("{} {}", line.at, line.text));
    let input = job.input.as_ref();
    let headers = input.map(|input| {
        input.headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
    });
    let pool = job.pool_down.as_ref().map(ToString::to_string);
    let cause = job.queue_cause.as_ref().map(|cause| cause.text.clone());
    vec![
        ("state", text(job.state)),
        ("error", job.error.clone()),
        ("waits for", job.unserved.clone().or(pool).or(cause)),
        ("type", text(&job.job_type)),
        ("lane", text(job.lane)),
        ("gate", job.gate.clone()),
        ("created", job.created.clone()),
        ("due", job.due.clone()),
        ("worker", job.worker.clone()),
        ("progress", job.progress.as_ref().map(|at| format!("{}% {}", at.percent, at.note))),
        ("cancelled by", job.cancelled_by.clone()),
        ("letter", job.dead_letter.clone()),
        ("edited", is_edited.then(|| "yes; u takes all edits back".to_owned())),
        ("steps", job.steps.clone()),
        ("headers", headers),
        ("payload", input.and_then(|input| input.shown.clone()).or_else(|| job.remark.clone())),
        ("result", job.result.as_ref().map(ToString::to_string)),
        ("attempts", Some(attempts.collect::<Vec<_>>().join("\n"))),
        ("log", Some(log.collect::<Vec<_>>().join("\n"))),
    ]
}

async fn worker(name: &str, desk: &Desk) -> anyhow::Result<Vec<Row>> {
    let (list, _) = workers::list(&desk.broker).await?;
    let found = list.items.into_iter().find(|worker| worker.consumer == name);
    let worker = found.with_context(|| format!("the worker {name} is gone"))?;
    let subject = Subject::Worker { name: worker.consumer.clone(), drains: worker.drain.is_some() };
    let drain =
        worker.drain.as_ref().map(|drain| format!("by {} since {}: {}", drain.by, drain.since, drain.why));
    let pools: Vec<String> = worker.pools_down.iter().map(ToString::to_string).collect();
    Ok(facts(
        &subject,
        vec![
            ("state", Some(worker.state.clone())),
            ("drain", drain),
            ("running", Some(format!("{} of {}", worker.running, worker.slots))),
            ("queues", Some(worker.queues.join(", "))),
            ("types", Some(worker.types.join("\n"))),
            ("version", Some(worker.version.clone())),
            ("config", worker.config.clone()),
            ("started", worker.started.clone()),
            ("pools down", Some(pools.join("\n"))),
        ],
    ))
}

async fn task(queue: &Queue, id: &str, desk: &Desk) -> anyhow::Result<Vec<Row>> {
    let task = tasks::show(queue, id).await?;
    let is_paused = task.state == "paused";
    let has_moved = super::tasks::has_moved(&task);
    let subject = Subject::Task { queue: queue.name().clone(), id: task.id.clone(), is_paused, has_moved };
    let replay = &task.replay;
    let jobs = replay.running.map(|running| {
        let count = |count: Option<u64>| count.unwrap_or(0);
        format!(
            "{} succeeded, {} died of the same error, {} of another, {running} still running",
            count(replay.succeeded),
            count(replay.died),
            count(replay.died_otherwise)
        )
    });
    let kept = task.kept.iter().map(|(why, count)| format!("{count}: {why}")).collect::<Vec<_>>().join("\n");
    Ok(facts(
        &subject,
        vec![
            ("kind", Some(task.kind.to_owned())),
            ("state", Some(task.state.to_owned())),
            ("why", Some(task.why.clone())),
            ("hint", task.hint.clone()),
            ("filter", Some(task.filter.clone())),
            ("begun", Some(format!("{} by {}", desk.clock.time(task.task.begun), task.who))),
            ("reason", Some(task.reason.clone())),
            ("canary", replay.canary.map(|canary| canary.to_string())),
            ("looked at", Some(format!("{} of {}", task.looked, task.total))),
            ("left", task.left.map(|left| left.to_string())),
            ("done", Some(task.done.to_string()).filter(|_| replay.replayed.is_none())),
            ("replayed", replay.replayed.map(|replayed| replayed.to_string())),
            ("jobs", jobs),
            ("left alone", Some(kept)),
            ("error", task.error.clone()),
        ],
    ))
}
