//! `streamfleet cron`: lists and changes recurring jobs while the fleet runs.

mod add;
mod list;

pub(crate) use add::Added;
pub(crate) use list::{Recurring, recurring};

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{CronName, QueueName};

use super::Context;
use super::exit::Exit;
use super::output::{self, Repeat};

/// The arguments of `cron`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  streamfleet cron list\n  streamfleet cron pause report.nightly")]
pub(crate) struct Args {
    /// The queue. Default: `default`; for list, all queues.
    #[arg(long, short, global = true)]
    queue: Option<QueueName>,
    #[command(subcommand)]
    action: Action,
}

/// What to do with recurring jobs.
#[derive(clap::Subcommand)]
enum Action {
    /// Add a recurring job. It starts now.
    Add(Box<add::Args>),
    /// List recurring jobs, with their next ticks.
    #[command(
        after_help = "Examples:\n  streamfleet cron list\n  streamfleet cron list --queue mail --next 5 -o wide"
    )]
    List {
        /// How many of the next ticks to show for each.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
        next: u16,
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Pause a recurring job: it submits nothing until it is resumed.
    #[command(after_help = "Example:\n  streamfleet cron pause report.nightly")]
    Pause {
        /// The name of the recurring job.
        name: CronName,
    },
    /// Resume a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
    #[command(after_help = "Example:\n  streamfleet cron resume report.nightly")]
    Resume {
        /// The name of the recurring job.
        name: CronName,
    },
    /// Submit one job now, regardless of the schedule, even if the recurring job is paused.
    #[command(after_help = "Example:\n  streamfleet cron run report.nightly --queue reports")]
    Run {
        /// The name of the recurring job.
        name: CronName,
    },
    /// Remove a recurring job. Jobs that it has submitted stay. If a worker's configuration has it, the next start of such a
    /// worker adds it again.
    #[command(after_help = "Example:\n  streamfleet cron remove report.nightly")]
    Remove {
        /// The name of the recurring job.
        name: CronName,
    },
}

/// What became of a recurring job, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RecurringChanged)]
pub(crate) struct Changed {
    pub(crate) name: String,
    pub(crate) queue: String,
    /// `paused`, `resumed`, `submitted` or `removed`.
    pub(crate) done: &'static str,
    /// False if it was already so.
    pub(crate) changed: bool,
    /// The job that was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { queue: named, action } = args;
    let broker = || context.broker();
    let queue =
        named.clone().map_or_else(|| "default".parse().context("`default` is not a valid queue name"), Ok)?;
    let (name, done) = match action {
        Action::Add(args) => {
            let entry = args.entry(queue.clone())?;
            add::check_schema(&entry, context)?;
            let queue = broker().await?.queue(queue);
            return args.store(&queue, &entry, context).await;
        }
        Action::List { next, repeat } => {
            let broker = broker().await?;
            let look = async || list::look(&broker, named.as_ref(), next.into(), context).await;
            return repeat.run(context.output, look).await;
        }
        Action::Pause { name } => (name, "paused"),
        Action::Resume { name } => (name, "resumed"),
        Action::Run { name } => (name, "submitted"),
        Action::Remove { name } => (name, "removed"),
    };
    change(&broker().await?.queue(queue), &name, done, context).await
}

async fn change(
    queue: &Queue,
    name: &CronName,
    done: &'static str,
    context: &Context,
) -> anyhow::Result<Exit> {
    let failed = || format!("the recurring job {name} was not {done}");
    let mut id = None;
    let changed = match done {
        "paused" => queue.cron().pause(name).await.with_context(failed)?,
        "resumed" => queue.cron().resume(name).await.with_context(failed)?,
        "removed" => queue.cron().remove(name).await.with_context(failed)?.then_some(true),
        _ => {
            id = queue.cron().run(name).await.with_context(failed)?.map(|id| id.to_string());
            id.is_some().then_some(true)
        }
    };
    let Some(changed) = changed else { return unknown(queue, name).await };
    let changed = Changed { name: name.to_string(), queue: queue.name().to_string(), done, changed, id };
    let names = |changed: &Changed| vec![changed.id.clone().unwrap_or_else(|| changed.name.clone())];
    context.output.print_named(&changed, names, Changed::line)?;
    Ok(Exit::Done)
}

async fn unknown(queue: &Queue, name: &CronName) -> anyhow::Result<Exit> {
    let table = queue.cron().table().await.context("failed to list the recurring jobs")?;
    let names: Vec<&str> = table.entries.iter().map(|status| status.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    output::print_stderr(&format!("the queue {} has no recurring job {name}; it has: {known}", queue.name()));
    Ok(Exit::NotFound)
}

impl Changed {
    fn line(&self) -> String {
        let Self { name, queue, done, .. } = self;
        match (&self.id, self.changed) {
            (Some(id), _) => id.clone(),
            (None, true) => format!("{name} is {done} in the queue {queue}"),
            (None, false) => format!("{name} was already {done} in the queue {queue}"),
        }
    }
}
