//! `streamfleet history`: jobs that ended long ago, from the database that `[history]` names: `list`, `show` and `stats` display them,
//! `restore` and `replay` bring them back.

mod list;
mod replay;
mod restore;
mod show;
mod stats;
mod wanted;

use std::sync::Arc;

use clap::{Args as ClapArgs, Subcommand};
use streamfleet::Queue;
use streamfleet::job::JobId;
use streamfleet_sql::{Database, LazyDatabase, Options};

use super::exit::Exit;
use super::{Context, Wrong};
pub(crate) use stats::now_ms;

/// How `history` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history list --state dead --since 7d
  streamfleet history list --key customer=9 --since 7d -o wide
  streamfleet history show order-7
  streamfleet history stats --since 1d
  streamfleet history replay --state dead --type mail.send --since 30d --canary 5";

/// The arguments of `history`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.action, Action::Restore(_) | Action::Replay(_))
    }
}

#[derive(Subcommand)]
enum Action {
    /// List jobs that ended, the latest first.
    List(Box<list::Args>),
    /// Show all that the history has about a job's id.
    Show(show::Args),
    /// Bring jobs that ended back as dead letters. Those that were done or cancelled become new jobs, to run again.
    Restore(Box<restore::Args>),
    /// Bring jobs that ended back, and replay them by a task, as `dead replay` does.
    Replay(Box<replay::Args>),
    /// Count the jobs that ended in a time, by type and state.
    Stats(stats::Args),
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let database = open(context).await?;
    let done = match args.action {
        Action::List(args) => list::run(*args, &database, context).await,
        Action::Show(args) => show::run(args, &database, context).await,
        Action::Restore(args) => restore::run(*args, &database, context).await,
        Action::Replay(args) => replay::run(*args, &database, context).await,
        Action::Stats(args) => stats::run(args, &database, context).await,
    };
    database.close().await;
    done
}

/// Shows what the history has about a job that Redis does not have any more. Returns false if it has nothing, or there is none.
pub(crate) async fn has_shown(queue: &Queue, id: &JobId, context: &Context) -> anyhow::Result<bool> {
    if context.effective.config.history.is_none() {
        return Ok(false);
    }
    let database = open(context).await?;
    let shown = show::found(&database, (queue.name(), id), context).await;
    database.close().await;
    shown
}

/// Says which jobs are not in a list because only the history has them, and what lists them; `None` if no history is configured.
pub(crate) fn elsewhere(which: &str, command: &str, context: &Context) -> Option<String> {
    context.effective.config.history.as_ref()?;
    Some(format!("{which} are in the history: streamfleet history {command}"))
}

/// The database of the history, which is opened when it is needed; `None` if no history is configured.
pub(crate) fn lazy(context: &Context) -> Option<Arc<LazyDatabase>> {
    let config = context.effective.config.history.clone()?;
    Some(Arc::new(LazyDatabase::new(move || config.address(), Options::reading())))
}

/// Connects to the database of the history, to read.
async fn open(context: &Context) -> anyhow::Result<Database> {
    let Some(history) = &context.effective.config.history else {
        let why =
            "no history is configured: add [history] with url_file, the file with the address of a database";
        return Err(Wrong(why.to_owned()).into());
    };
    Ok(streamfleet_sql::open(history.address(), &Options::reading()).await?)
}
