//! `streamfleet cron list`: the recurring jobs, up to when their ticks are handled, and when they are due next.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Broker;
use streamfleet::cron::Entry;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet_engine::admin::{CronStatus, Listed};

use crate::output::{self, Column, List, Listing, View, harmless};
use crate::times::{Clock, rfc3339};
use crate::{Context, queues};

/// One recurring job, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RecurringJob)]
pub(crate) struct Recurring {
    queue: String,
    name: String,
    /// Why this program cannot read it; if set, most other fields are missing.
    error: Option<String>,
    schedule: Option<String>,
    timezone: Option<String>,
    #[serde(rename = "type")]
    job_type: Option<String>,
    lane: Option<&'static str>,
    missed: Option<&'static str>,
    /// `config`: from a worker's configuration; `command`: somebody added it.
    source: Option<&'static str>,
    paused: bool,
    /// Up to when ticks are handled: the last one, or when it was added or resumed.
    handled: String,
    handled_ms: u64,
    /// A tick that is due but not yet submitted.
    overdue: Option<String>,
    overdue_ms: Option<u64>,
    next: Vec<String>,
    next_ms: Vec<u64>,
    /// The next ticks in local time of the time zone.
    next_local: Vec<String>,
    #[serde(skip)]
    times: Times,
}

/// The times for output to people.
struct Times {
    now: Timestamp,
    handled: Timestamp,
    overdue: Option<Timestamp>,
    next: Vec<Timestamp>,
}

/// Lists the recurring jobs.
pub(super) async fn look(
    broker: &Broker,
    named: Option<&QueueName>,
    next: usize,
    context: &Context,
) -> anyhow::Result<Listing> {
    let Listed { found: queues, missing } = match named {
        Some(queue) => Listed { found: vec![queue.clone()], missing: Vec::new() },
        None => broker.queues().await.context("failed to list the queues")?,
    };
    let (count, mut all, mut failed) = (queues.len(), Vec::new(), Vec::new());
    for name in queues {
        let queue = broker.queue(name.clone());
        match queue.cron().table().await {
            Ok(table) => {
                all.extend(table.entries.into_iter().map(|status| recurring(&name, status, table.now, next)))
            }
            Err(error) => failed.push((name, queue.with_keys(&error), error)),
        }
    }
    // A queue that cannot be read does not hide the others.
    if missing.is_empty()
        && failed.len() == count
        && let Some((_, _, error)) = failed.pop()
    {
        return Err(error).context("failed to list the recurring jobs");
    }
    if let (Some(name), true) = (named, all.is_empty() && failed.is_empty())
        && queues::report_unknown(broker, name, context).await
    {
        return Ok(Listing::not_found());
    }
    let names = |all: &List<Recurring>| all.items.iter().map(|one| one.name.clone()).collect();
    let show = |all: &List<Recurring>| show(&all.items, &context.clock);
    let mut listing = Listing::new(context.output.rendered(&List::from(all), names, show)?);
    for (name, why, _) in failed {
        let message = format!("failed to list the recurring jobs of the queue {name}: {why}");
        listing = listing.remark(harmless(&message));
    }
    Ok(listing.without(&missing))
}

/// Describes a recurring job, with this many of its next ticks.
pub(crate) fn recurring(queue: &QueueName, status: CronStatus, now: Timestamp, count: usize) -> Recurring {
    let overdue = status.overdue(now);
    let CronStatus { name, entry, handled, paused, .. } = status;
    let (entry, error) = match entry {
        Ok(entry) => (Some(entry), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let schedule = entry.as_ref().filter(|_| !paused).map(Entry::schedule);
    let next: Vec<_> = schedule.iter().flat_map(|schedule| schedule.upcoming(now).take(count)).collect();
    let text = |text: fn(&Entry) -> String| entry.as_ref().map(text);
    Recurring {
        queue: queue.to_string(),
        name: name.to_string(),
        error,
        schedule: text(|entry| entry.schedule().expression.to_string()),
        timezone: text(|entry| entry.schedule().zone.to_string()),
        job_type: text(|entry| entry.job_type().to_string()),
        lane: entry.as_ref().map(|entry| entry.lane().as_str()),
        missed: entry.as_ref().map(|entry| entry.missed().as_str()),
        source: entry.as_ref().map(|entry| entry.source().as_str()),
        paused,
        handled: rfc3339(handled),
        handled_ms: handled.as_ms(),
        overdue: overdue.map(rfc3339),
        overdue_ms: overdue.map(Timestamp::as_ms),
        next: next.iter().copied().map(rfc3339).collect(),
        next_ms: next.iter().map(|tick| tick.as_ms()).collect(),
        next_local: next.iter().filter_map(|tick| Some(schedule?.zone.shown(*tick))).collect(),
        times: Times { now, handled, overdue, next },
    }
}

fn show(all: &[Recurring], clock: &Clock) -> View {
    if all.is_empty() {
        return "there are no recurring jobs".to_owned().into();
    }
    let mut table = output::table(&[
        Column::from("queue"),
        Column::from("name"),
        Column::from("schedule"),
        Column::wide("zone"),
        Column::wide("type"),
        Column::wide("lane"),
        Column::wide("missed"),
        Column::state("next"),
        Column::wide("handled up to"),
        Column::wide("from"),
    ]);
    for one in all {
        let cell = |text: &Option<String>| harmless(text.as_deref().unwrap_or("?"));
        table.add_row([
            one.queue.clone(),
            one.name.clone(),
            cell(&one.schedule),
            cell(&one.timezone),
            cell(&one.job_type),
            one.lane.unwrap_or("?").to_owned(),
            one.missed.unwrap_or("?").to_owned(),
            one.next_cell(clock),
            clock.with_age(one.times.handled, one.times.now),
            one.source.unwrap_or("?").to_owned(),
        ]);
    }
    table.into()
}

impl Recurring {
    fn next_cell(&self, clock: &Clock) -> String {
        if let Some(error) = &self.error {
            return harmless(error);
        }
        if self.paused {
            return "paused".to_owned();
        }
        let overdue = self.times.overdue.iter().map(|tick| format!("overdue: {}", clock.time(*tick)));
        let next = self.times.next.iter().map(|tick| clock.with_age(*tick, self.times.now));
        overdue.chain(next).collect::<Vec<_>>().join("\n")
    }
}
