//! One job of the list, for JSON output and in the table.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{EntryId, Lane, QueueName, State, Timestamp};
use streamfleet_engine::admin::FoundJob;

use super::{Page, Search, USUAL_STATES};
use crate::output::{self, Column, View, harmless};
use crate::times::{Clock, rfc3339, short};

/// One job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = JobRow)]
pub(crate) struct Row {
    pub(super) id: String,
    queue: String,
    #[serde(rename = "type")]
    job_type: String,
    state: &'static str,
    lane: Option<&'static str>,
    /// Its entry in a lane or a room, or its dead letter.
    entry: Option<String>,
    /// The gate that does not let it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<String>,
    created: Option<String>,
    created_ms: Option<u64>,
    attempts: u64,
    due: Option<String>,
    due_ms: Option<u64>,
    died: Option<String>,
    died_ms: Option<u64>,
    error: Option<String>,
    worker: Option<String>,
    started: Option<String>,
    started_ms: Option<u64>,
    /// False if it may have started later, or not yet.
    started_exact: Option<bool>,
    /// How long ago the worker last renewed it.
    silent_ms: Option<u64>,
    deliveries: Option<u64>,
    age_ms: Option<u64>,
    #[serde(skip)]
    pub(super) age: Option<Duration>,
    #[serde(skip)]
    job: FoundJob,
    #[serde(skip)]
    now: Timestamp,
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Row {
    pub(super) fn new(queue: &QueueName, job: FoundJob, now: Timestamp) -> Self {
        let (age, holder) = (job.age(now), job.holder.as_ref());
        Self {
            id: job.id.clone(),
            queue: queue.to_string(),
            job_type: job.job_type.clone(),
            state: job.state.as_str(),
            lane: job.lane.map(Lane::as_str),
            entry: job.entry.as_ref().map(EntryId::to_string),
            gate: job.room.clone(),
            created: job.created.map(rfc3339),
            created_ms: job.created.map(Timestamp::as_ms),
            attempts: job.attempts,
            due: job.due.map(rfc3339),
            due_ms: job.due.map(Timestamp::as_ms),
            died: job.died.map(rfc3339),
            died_ms: job.died.map(Timestamp::as_ms),
            error: job.error.clone().filter(|error| !error.is_empty()),
            worker: holder.map(|holder| holder.worker.clone()),
            started: holder.map(|holder| rfc3339(holder.since)),
            started_ms: holder.map(|holder| holder.since.as_ms()),
            started_exact: holder.map(|holder| holder.is_exact),
            silent_ms: holder.map(|holder| ms(holder.silent)),
            deliveries: holder.map(|holder| holder.deliveries),
            age_ms: age.map(ms),
            age,
            job,
            now,
        }
    }

    /// Reads the job's entry, if only its place is known; `None` if the job has ended since.
    pub(super) async fn read(self, broker: Broker) -> anyhow::Result<Option<Self>> {
        let name = self.queue.parse::<QueueName>().context("a queue has no valid name")?;
        let queue = broker.queue(name.clone());
        let job = queue.read_found(self.job).await;
        let job = job.with_context(|| format!("failed to read the jobs of the queue {name}"))?;
        Ok(job.map(|job| Self::new(&name, job, self.now)))
    }

    /// Where the job is, in words.
    fn place(&self) -> String {
        let lane = self.lane.unwrap_or("?");
        match (&self.job.holder, self.job.state) {
            (Some(holder), _) => harmless(&holder.worker),
            (None, State::Scheduled | State::Retrying) => match self.job.due {
                Some(due) if due > self.now => format!("due in {}", short(due.since(self.now))),
                Some(_) | None => "due".to_owned(),
            },
            (None, State::Waiting | State::Running) => match &self.gate {
                Some(gate) => format!("gate {}", harmless(gate)),
                None => format!("lane {lane}"),
            },
            (None, State::Dead) => format!("letter {}", self.entry.as_deref().unwrap_or("?")),
            (None, State::Done | State::Cancelled) => "record".to_owned(),
        }
    }

    /// How old the job is, or how long it has been running or dead; `-` if it has not begun, as far as is known.
    fn shown_age(&self) -> String {
        if self.job.holder.as_ref().is_some_and(|holder| !holder.has_begun) {
            return "-".to_owned();
        }
        let age = self.age.map_or_else(|| "?".to_owned(), short);
        // The start of an attempt that its worker has not reported yet is not known.
        let is_exact = self.started_exact.unwrap_or(true);
        if is_exact { age } else { format!("< {age}") }
    }
}

pub(super) fn show(page: &Page, search: &Search, clock: &Clock) -> View {
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    let looked_at = page.facts.looked_at_text();
    if page.items.is_empty() {
        let filter = &search.filter;
        let which = if filter.is_empty() { String::new() } else { format!(" match {filter}") };
        if !page.facts.complete {
            return format!("no jobs{which} so far; {looked_at} were looked at{more}").into();
        }
        if search.after.is_some() {
            return format!("no more jobs{which}; {looked_at} were looked at from there on").into();
        }
        // Somebody who looks for a job that has succeeded would think that it was lost.
        let rest = if search.states == USUAL_STATES {
            ", none of them done or cancelled; for those: --state done,cancelled"
        } else {
            ""
        };
        return format!("no jobs{which}; {looked_at} were looked at{rest}").into();
    }
    let mut table = output::table(&[
        Column::from("queue"),
        Column::id("job"),
        Column::from("type"),
        Column::state("state"),
        Column::from("age"),
        Column::from("attempts"),
        Column::from("where"),
        Column::wide("created"),
        Column::wide("entry"),
        Column::wide("error"),
    ]);
    for row in &page.items {
        table.add_row([
            row.queue.clone(),
            harmless(&row.id),
            harmless(&row.job_type),
            row.state.to_owned(),
            row.shown_age(),
            row.attempts.to_string(),
            row.place(),
            row.job.created.map(|created| clock.time(created)).unwrap_or_default(),
            row.entry.clone().unwrap_or_default(),
            harmless(row.error.as_deref().unwrap_or_default()),
        ]);
    }
    let found = output::counted(page.items.len() as u64, "job", "jobs");
    View::from(table).then(format!("{found}; {looked_at} looked at{more}"))
}
