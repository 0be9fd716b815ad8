//! `streamfleet delayed`: the jobs that are due later, and how to change or stop one of them.

use std::time::Duration;

use streamfleet::job::{Encoding, JobId, QueueName, Timestamp};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{DelayedEdit, Due, Noted};
use streamfleet_operations::Error;
use streamfleet_operations::jobs::delayed::{self, Changed, DelayedFacts, DelayedList};
use streamfleet_operations::jobs::encoding;

use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::output::{self, Column, Listing, Repeat, View, harmless};
use super::times::{self, Clock, Moment};
use super::{Context, Wrong, bulk, cancel, enqueue, queues};

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
    /// Change when a delayed job or a retry is due, or its payload, or both. Its attempts stay counted.
    #[command(
        visible_alias = "reschedule",
        after_help = "Examples:\n  streamfleet delayed edit order-7 --delay 1h30m\n  streamfleet delayed edit order-7 --payload '{\"to\":\"bob@example.com\"}' --reason 'the customer moved'"
    )]
    Edit(Box<Edit>),
    /// Make a delayed job or a retry due at once, as `streamfleet run-now` does.
    #[command(after_help = "Example:\n  streamfleet delayed run order-7 --queue mail")]
    Run {
        /// The job's id.
        id: JobId,
        #[command(flatten)]
        actor: ActorArgs,
    },
    /// Cancel a delayed job, as `streamfleet cancel` does.
    #[command(after_help = "Example:\n  streamfleet delayed cancel order-7")]
    Cancel {
        /// The job's id.
        id: JobId,
        #[command(flatten)]
        actor: ActorArgs,
    },
}

/// The arguments of `delayed edit`.
#[derive(clap::Args)]
struct Edit {
    /// The job's id.
    id: JobId,
    /// Due after this long, such as 10s or 1h30m.
    #[arg(long, value_parser = times::duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Due at this time: as it is shown, such as '2026-12-01 11:00', or with a zone, such as 2026-12-01T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = times::moment)]
    at: Option<Moment>,
    /// The new payload: text, @FILE, or - for stdin.
    #[arg(long)]
    payload: Option<String>,
    /// The encoding of the new payload: json (checked), msgpack (JSON is converted) or raw. Default: as the payload that it replaces.
    #[arg(long, value_parser = enqueue::encoding, requires = "payload")]
    encoding: Option<Encoding>,
    #[command(flatten)]
    actor: ActorArgs,
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
        Action::Edit(args) => edit(*args, &queue, context).await,
        Action::Run { id, actor } => bulk::run_one_now(&queue, &id, &actor, context).await,
        Action::Cancel { id, actor } => cancel::one(&queue, &id, &actor, context).await,
    }
}

async fn edit(args: Edit, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
    let at = args.at.map(|at| Due::At(context.clock.instant(at)));
    let mut changes = DelayedEdit::default().due(args.delay.map(Due::In).or(at));
    if changes.due.is_none() && args.payload.is_none() {
        return Err(Wrong("say what to change: --delay, --at or --payload".to_owned()).into());
    }
    let job = match delayed::read(queue, &args.id).await {
        Ok(job) => job,
        Err(error) => return print(Err(error), context),
    };
    if let Some(payload) = args.payload {
        let encoding = args.encoding.or_else(|| encoding(&job.fields)).unwrap_or_default();
        changes = changes.payload(enqueue::payload(payload, encoding)?, encoding);
    }
    let producer = enqueue::producer(queue.clone(), &context.effective).schemas(context.schemas()?);
    let edit = delayed::Edit { job: &job, changes: &changes, producer: &producer };
    print(delayed::edit(queue, &args.actor.actor(), &edit).await, context)
}

/// Prints a delayed job after a change. A job that is not delayed counts as not found.
pub(crate) fn print(changed: Result<Noted<Changed>, Error>, context: &Context) -> anyhow::Result<Exit> {
    let changed = match changed {
        Err(Error::Conflict(why)) => {
            output::print_stderr(&why);
            return Ok(Exit::NotFound);
        }
        changed => told(changed?),
    };
    let show = |job: &Changed| format!("{} is due {}", job.id, context.clock.time(job.due_ms));
    context.output.print_named(&changed, |changed| vec![changed.id.clone()], show)?;
    Ok(Exit::Done)
}

async fn list(
    broker: &Broker,
    queue: &Queue,
    (skip, limit): (u64, u64),
    context: &Context,
) -> anyhow::Result<Listing> {
    let (page, now) = delayed::list(queue, skip, limit).await?;
    let names = |page: &DelayedList| page.items.iter().map(|job| job.id.clone()).collect();
    let show = |page: &DelayedList| show(page, now, &context.clock);
    queues::listing((&page, page.facts.total == 0), (broker, queue), context, (names, show)).await
}

fn show(page: &DelayedList, now: Timestamp, clock: &Clock) -> View {
    let DelayedFacts { queue, total, .. } = &page.facts;
    if page.items.is_empty() {
        return format!("the queue {queue} has {total} delayed jobs, none of them on this page").into();
    }
    let table = output::table_of(
        &page.items,
        &[
            (Column::from("job"), &|job| harmless(&job.id)),
            (Column::from("type"), &|job| harmless(&job.job_type)),
            (Column::wide("lane"), &|job| job.lane.unwrap_or("?").to_owned()),
            (Column::from("due"), &|job| clock.with_age(job.due_ms, now)),
            (Column::from("failures"), &|job| job.failures.to_string()),
        ],
    );
    let more = page.next.map_or_else(String::new, |next| format!("; next page: --skip {next}"));
    View::from(table).then(format!("{} of {total} delayed jobs{more}", page.items.len()))
}
