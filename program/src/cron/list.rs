//! `streamfleet cron list`: the recurring jobs, up to when their ticks are handled, and when they are due next.

use anyhow::Context as _;
use streamfleet::Broker;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::Listed;
use streamfleet_operations::cron::{self, RecurringJob};

use crate::output::{self, Column, List, Listing, View, harmless};
use crate::times::Clock;
use crate::{Context, queues};

/// Lists the recurring jobs.
pub(super) async fn look(
    broker: &Broker,
    named: Option<&QueueName>,
    ticks: usize,
    context: &Context,
) -> anyhow::Result<Listing> {
    let Listed { found: queues, missing } = match named {
        Some(queue) => Listed { found: vec![queue.clone()], missing: Vec::new() },
        None => broker.queues().await.context("failed to list the queues")?,
    };
    let (count, mut all, mut failed) = (queues.len(), Vec::new(), Vec::new());
    for name in queues {
        match cron::list(&broker.queue(name), ticks).await {
            Ok(jobs) => all.extend(jobs.items),
            Err(error) => failed.push(anyhow::Error::from(error)),
        }
    }
    // A queue that cannot be read does not hide the others.
    if missing.is_empty()
        && failed.len() == count
        && let Some(error) = failed.pop()
    {
        return Err(error);
    }
    if let (Some(name), true) = (named, all.is_empty() && failed.is_empty())
        && queues::report_unknown(broker, name, context).await
    {
        return Ok(Listing::not_found());
    }
    let names = |all: &List<RecurringJob>| all.items.iter().map(|one| one.name.clone()).collect();
    let show = |all: &List<RecurringJob>| show(&all.items, &context.clock);
    let mut listing = Listing::new(context.output.rendered(&List::from(all), names, show)?);
    for error in failed {
        listing = listing.remark(harmless(&format!("{error:#}")));
    }
    Ok(listing.without(&missing))
}

fn show(all: &[RecurringJob], clock: &Clock) -> View {
    if all.is_empty() {
        return "there are no recurring jobs".to_owned().into();
    }
    let cell = |text: &Option<String>| harmless(text.as_deref().unwrap_or("?"));
    let table = output::table_of(
        all,
        &[
            (Column::from("queue"), &|one| one.queue.clone()),
            (Column::from("name"), &|one| one.name.clone()),
            (Column::from("schedule"), &|one| cell(&one.schedule)),
            (Column::wide("zone"), &|one| cell(&one.timezone)),
            (Column::wide("type"), &|one| cell(&one.job_type)),
            (Column::wide("lane"), &|one| one.lane.unwrap_or("?").to_owned()),
            (Column::wide("missed"), &|one| one.missed.unwrap_or("?").to_owned()),
            (Column::state("next"), &|one| next(one, clock)),
            (Column::wide("handled up to"), &|one| clock.with_age(one.ticks.handled, one.ticks.now)),
            (Column::wide("from"), &|one| one.source.unwrap_or("?").to_owned()),
        ],
    );
    table.into()
}

/// The next ticks, or why there are none.
fn next(job: &RecurringJob, clock: &Clock) -> String {
    if let Some(error) = &job.error {
        return harmless(error);
    }
    if job.paused {
        return "paused".to_owned();
    }
    let overdue = job.ticks.overdue.iter().map(|tick| format!("overdue: {}", clock.time(*tick)));
    let next = job.ticks.next.iter().map(|tick| clock.with_age(*tick, job.ticks.now));
    overdue.chain(next).collect::<Vec<_>>().join("\n")
}
