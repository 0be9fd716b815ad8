//! `streamfleet delayed`: the jobs that are due later, and how to change or stop one of them.

mod amend;

pub(crate) use amend::Amended;

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::job::{Encoding, JobId, QueueName, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{Due, Upcoming};

use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View, harmless};
use super::times::{self, Clock, Moment, rfc3339};
use super::{Context, cancel, enqueue, queues};

/// The arguments of `delayed`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet delayed list --queue mail\n  streamfleet delayed run order-7 --queue mail"
)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
}

/// What to do with delayed jobs.
#[derive(clap::Subcommand)]
enum Action {
    /// List delayed jobs, the next due first.
    #[command(
        after_help = "Examples:\n  streamfleet delayed list --limit 10\n  streamfleet delayed list --queue mail --watch"
    )]
    List {
        /// The maximum number of jobs.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// How many jobs to skip.
        #[arg(long, default_value_t = 0)]
        skip: u64,
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Change when a delayed job or a retry is due. Its attempts stay counted.
    #[command(
        after_help = "Examples:\n  streamfleet delayed reschedule order-7 --delay 1h30m\n  streamfleet delayed reschedule order-7 --at 2026-12-01T10:00:00Z"
    )]
    Reschedule {
        /// The job's id.
        id: JobId,
        /// Due after this long, such as 10s or 1h30m.
        #[arg(long, value_parser = times::duration, required_unless_present = "at", conflicts_with = "at")]
        delay: Option<Duration>,
        /// Due at this time: as it is shown, such as '2026-12-01 11:00', or with a zone, such as 2026-12-01T10:00:00Z.
        #[arg(long, value_name = "TIME", value_parser = times::moment)]
        at: Option<Moment>,
    },
    /// Make a delayed job or a retry due at once.
    #[command(after_help = "Example:\n  streamfleet delayed run order-7 --queue mail")]
    Run {
        /// The job's id.
        id: JobId,
    },
    /// Replace the payload of a delayed job or a retry.
    #[command(
        after_help = "Example:\n  streamfleet delayed edit order-7 --payload '{\"to\":\"bob@example.com\"}'"
    )]
    Edit {
        /// The job's id.
        id: JobId,
        /// The new payload: text, @FILE, or - for stdin.
        #[arg(long)]
        payload: String,
        /// The encoding of the payload: json (checked), msgpack (JSON is converted) or raw.
        #[arg(long, default_value = "json", value_parser = enqueue::encoding)]
        encoding: Encoding,
    },
    /// Cancel a delayed job, as `streamfleet cancel` does.
    #[command(after_help = "Example:\n  streamfleet delayed cancel order-7")]
    Cancel {
        /// The job's id.
        id: JobId,
    },
}

/// A page of the delayed set, for JSON output. `next` is the value of `--skip` for the next page.
type Page = List<Delayed, Facts, u64>;

/// What is known about all delayed jobs, for JSON output.
#[derive(Serialize)]
struct Facts {
    queue: String,
    total: u64,
}

/// One delayed job, for JSON output.
#[derive(Serialize)]
struct Delayed {
    id: String,
    #[serde(rename = "type")]
    job_type: String,
    lane: Option<&'static str>,
    due: String,
    due_ms: u64,
    /// Failures so far.
    failures: u64,
    #[serde(skip)]
    due_time: Timestamp,
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    match args.action {
        Action::List { limit, skip, repeat } => {
            let look = async || list(&broker, &queue, (skip, limit), context).await;
            repeat.run(context.output, look).await
        }
        Action::Reschedule { id, delay, at } => {
            let due =
                delay.map(Due::In).or(at.map(|at| Due::At(context.clock.instant(at)))).unwrap_or(Due::Now);
            amend::run(&queue, &id, amend::Change::Due(due), context).await
        }
        Action::Run { id } => amend::run(&queue, &id, amend::Change::Due(Due::Now), context).await,
        Action::Edit { id, payload, encoding } => {
            let payload = enqueue::payload(payload, encoding)?;
            amend::run(&queue, &id, amend::Change::Payload(payload, encoding), context).await
        }
        Action::Cancel { id } => cancel::one(&queue, &id, cancel::COMMAND_LINE, context).await,
    }
}

async fn list(
    broker: &Broker,
    queue: &Queue,
    (skip, limit): (u64, u64),
    context: &Context,
) -> anyhow::Result<Listing> {
    let upcoming = queue.delayed().page(skip, limit).await.context("failed to list the delayed jobs")?;
    let snapshot = queue.snapshot().await.context("failed to count the delayed jobs")?;
    if snapshot.delayed == 0 && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Listing::not_found());
    }
    let end = skip + upcoming.len() as u64;
    let page = Page {
        next: (end < snapshot.delayed && !upcoming.is_empty()).then_some(end),
        items: upcoming.into_iter().map(delayed).collect(),
        facts: Facts { queue: queue.name().to_string(), total: snapshot.delayed },
        former: Some("jobs"),
    };
    let names = |page: &Page| page.items.iter().map(|job| job.id.clone()).collect();
    let show = |page: &Page| show(page, snapshot.now, &context.clock);
    Ok(Listing::new(context.output.rendered(&page, names, show)?))
}

fn delayed(upcoming: Upcoming) -> Delayed {
    let (lane, fields) = upcoming.fields.unzip();
    let text = |name: &str| {
        let value = fields.as_ref().and_then(|fields| fields.get(name.as_bytes())).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    Delayed {
        id: upcoming.id,
        job_type: text("type"),
        lane: lane.map(|lane| lane.as_str()),
        due: rfc3339(upcoming.due),
        due_ms: upcoming.due.as_ms(),
        failures: text("attempt").parse().unwrap_or(0),
        due_time: upcoming.due,
    }
}

fn show(page: &Page, now: Timestamp, clock: &Clock) -> View {
    let Facts { queue, total } = &page.facts;
    if page.items.is_empty() {
        return format!("the queue {queue} has {total} delayed jobs, none of them on this page").into();
    }
    let mut table = output::table(&[
        Column::from("job"),
        Column::from("type"),
        Column::wide("lane"),
        Column::from("due"),
        Column::from("failures"),
    ]);
    for job in &page.items {
        table.add_row([
            harmless(&job.id),
            harmless(&job.job_type),
            job.lane.unwrap_or("?").to_owned(),
            clock.with_age(job.due_time, now),
            job.failures.to_string(),
        ]);
    }
    let more = page.next.map_or_else(String::new, |next| format!("; next page: --skip {next}"));
    View::from(table).then(format!("{} of {total} delayed jobs{more}", page.items.len()))
}
