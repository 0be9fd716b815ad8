//! `streamfleet history replay`: ended jobs come back as dead letters, and a task replays these.

use streamfleet_engine::admin::Filter;
use streamfleet_operations::dead::{Selected, Sweep};
use streamfleet_sql::Database;

use super::restore::{RestoreArgs, exit, report};
use crate::dead::RulesArgs;
use crate::exit::Exit;
use crate::{Context, bulk, output};

/// How `history replay` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history replay --state dead --type mail.send --since 30d --rate 50/s --canary 5
  streamfleet history replay --state done --worker-version 1.4.2 --since 2d --canary 20 --reason 'it computed wrong totals'
  streamfleet history replay --state done --id order-7 --yes --detach";

/// The arguments of `history replay`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    restore: RestoreArgs,
    #[command(flatten)]
    rules: RulesArgs,
}

/// Brings the jobs back, begins the task, and waits for its end.
pub(super) async fn run(args: Args, database: &Database, context: &Context) -> anyhow::Result<Exit> {
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    let queue = broker.queue(args.restore.queue.clone());
    let restored = args.restore.run(&queue, database, context).await?;
    output::print_stderr(&report(&restored));
    if restored.interrupted {
        return Ok(Exit::Failed);
    }
    let mut letters = Selected::now(&queue, Filter::new().group(&restored.group)?, None).await?;
    match args.restore.into {
        None => letters.planned = Some(restored.filed),
        Some(_) => letters.count_few(&queue).await?,
    }
    if letters.is_none() {
        output::print_stderr("there is nothing to replay");
        return Ok(exit(&restored));
    }
    args.rules.replay(Sweep::Replay, (&queue, &args.restore.actor.actor()), &letters, context).await
}
