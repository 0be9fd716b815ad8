//! `streamfleet cron`: lists and changes recurring jobs while the fleet runs.

mod add;
mod list;

use anyhow::Context as _;
use streamfleet::job::{CronName, QueueName};
use streamfleet_operations::cron::{self, RecurringChanged};

use super::Context;
use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::output::Repeat;

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
    #[command(
        after_help = "Example:\n  streamfleet cron pause report.nightly --reason 'the reports are being rewritten'"
    )]
    Pause(Change),
    /// Resume a paused recurring job from now on. Ticks that were due meanwhile are not made up for.
    #[command(after_help = "Example:\n  streamfleet cron resume report.nightly")]
    Resume(Change),
    /// Submit one job now, regardless of the schedule, even if the recurring job is paused.
    #[command(after_help = "Example:\n  streamfleet cron run report.nightly --queue reports")]
    Run(Change),
    /// Remove a recurring job. Jobs that it has submitted stay. If a worker's configuration has it, the next start of such a
    /// worker adds it again.
    #[command(after_help = "Example:\n  streamfleet cron remove report.nightly")]
    Remove(Change),
}

/// Which recurring job to change, who does it, and why.
#[derive(clap::Args)]
struct Change {
    /// The name of the recurring job.
    name: CronName,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { queue: named, action } = args;
    let name =
        named.clone().map_or_else(|| "default".parse().context("`default` is not a valid queue name"), Ok)?;
    let broker = context.broker().await?;
    let queue = broker.queue(name);
    let changed = match action {
        Action::Add(args) => return args.run(&queue, context).await,
        Action::List { next, repeat } => {
            let look = async || list::look(&broker, named.as_ref(), next.into(), context).await;
            return repeat.run(context.output, look).await;
        }
        Action::Pause(Change { name, actor }) => cron::pause(&queue, &actor.actor(), &name).await?,
        Action::Resume(Change { name, actor }) => cron::resume(&queue, &actor.actor(), &name).await?,
        Action::Run(Change { name, actor }) => cron::run(&queue, &actor.actor(), &name).await?,
        Action::Remove(Change { name, actor }) => cron::remove(&queue, &actor.actor(), &name).await?,
    };
    let names = |changed: &RecurringChanged| vec![changed.id.clone().unwrap_or_else(|| changed.name.clone())];
    context.output.print_named(&told(changed), names, line)?;
    Ok(Exit::Done)
}

fn line(RecurringChanged { name, queue, done, changed, id, .. }: &RecurringChanged) -> String {
    match (id, changed) {
        (Some(id), _) => id.clone(),
        (None, true) => format!("{name} is {done} in the queue {queue}"),
        (None, false) => format!("{name} was already {done} in the queue {queue}"),
    }
}
