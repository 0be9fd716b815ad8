//! `streamfleet cron`: recurring jobs, looked at and changed while the fleet runs.

mod add;
mod list;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::broker::Queue;
use streamfleet::job::{CronName, QueueName};

use super::Context;
use super::exit::Exit;
use super::output;

/// The arguments of `cron`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The queue. Default: `default`; for list: all of them.
    #[arg(long, short, global = true)]
    queue: Option<QueueName>,
    #[command(subcommand)]
    action: Action,
}

/// What to do with recurring jobs.
#[derive(clap::Subcommand)]
enum Action {
    /// Add one. It begins now.
    Add(Box<add::Args>),
    /// List them, with their next ticks.
    List {
        /// Show so many next ticks of each.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
        next: u16,
    },
    /// Submit nothing until it is resumed.
    Pause {
        /// Which one.
        name: CronName,
    },
    /// Let it go on from now. What was due meanwhile is not made up for.
    Resume {
        /// Which one.
        name: CronName,
    },
    /// Submit one job now, out of turn, even if it is paused.
    Run {
        /// Which one.
        name: CronName,
    },
    /// Forget it. Its jobs stay. One of a worker's configuration comes back when such a worker starts.
    Remove {
        /// Which one.
        name: CronName,
    },
}

/// What became of a recurring job, as programs get it.
#[derive(Serialize)]
struct Changed {
    name: String,
    queue: String,
    /// `paused`, `resumed`, `submitted` or `removed`.
    done: &'static str,
    /// False where it was so already.
    changed: bool,
    /// The job that was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

/// Does it.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { queue: named, action } = args;
    let broker = || context.broker();
    let queue = named.clone().map_or_else(|| "default".parse().context("default is a queue name"), Ok)?;
    let (name, done) = match action {
        Action::Add(args) => {
            let entry = args.entry(queue.clone())?;
            let queue = broker().await?.queue(queue);
            return args.keep(&queue, &entry, context).await;
        }
        Action::List { next } => return list::run(&broker().await?, named, next.into(), context).await,
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
    let failed = || format!("the recurring job {name} is not {done}");
    let mut id = None;
    let changed = match done {
        "paused" => queue.pause_cron(name).await.with_context(failed)?,
        "resumed" => queue.resume_cron(name).await.with_context(failed)?,
        "removed" => queue.remove_cron(name).await.with_context(failed)?.then_some(true),
        _ => {
            id = queue.run_cron(name).await.with_context(failed)?.map(|id| id.to_string());
            id.is_some().then_some(true)
        }
    };
    let Some(changed) = changed else { return unknown(queue, name).await };
    let changed = Changed { name: name.to_string(), queue: queue.name().to_string(), done, changed, id };
    context.output.print(&changed, Changed::line)?;
    Ok(Exit::Done)
}

async fn unknown(queue: &Queue, name: &CronName) -> anyhow::Result<Exit> {
    let table = queue.cron().await.context("the recurring jobs cannot be listed")?;
    let names: Vec<&str> = table.entries.iter().map(|status| status.name.as_str()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    output::complain(&format!("the queue {} has no recurring job {name}; it has: {known}", queue.name()));
    Ok(Exit::NotFound)
}

impl Changed {
    fn line(&self) -> String {
        let Self { name, queue, done, .. } = self;
        match (&self.id, self.changed) {
            (Some(id), _) => id.clone(),
            (None, true) => format!("{name} is {done} in the queue {queue}"),
            (None, false) => format!("{name} was {done} already in the queue {queue}"),
        }
    }
}
