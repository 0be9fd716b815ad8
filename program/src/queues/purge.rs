//! `streamfleet queues purge`: empties a queue. Its waiting and delayed jobs are cancelled, its dead letters are dropped.

use streamfleet::job::QueueName;
use streamfleet_operations::queues::{self, Parts, Purge, Purged};

use super::report_unknown;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::tasks::{self, WaitArgs};
use crate::{Context, Wrong, bulk, confirm, output};

/// How `queues purge` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet queues purge mail
  streamfleet queues purge mail --waiting --delayed --dry-run
  streamfleet queues purge mail --dead --confirm mail --reason 'a test that went wrong'";

/// The arguments of `queues purge`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue.
    name: QueueName,
    /// Cancel the waiting jobs. Their records show who did it.
    #[arg(long)]
    waiting: bool,
    /// Cancel the delayed jobs and the retries.
    #[arg(long)]
    delayed: bool,
    /// Drop the dead letters.
    #[arg(long)]
    dead: bool,
    /// The name of the queue again, so that the command does not ask for it.
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Show what would be emptied, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Empties the queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    if report_unknown(&broker, &args.name, context).await {
        return Ok(Exit::NotFound);
    }
    let queue = broker.queue(args.name.clone());
    let parts = wanted(&args, context).await?;
    let mut planned = queues::plan_purge(&queue, parts).await?;
    planned.dry_run = args.dry_run;
    if args.dry_run {
        context.output.print(&planned, plan)?;
        return Ok(Exit::Done);
    }
    if args.confirm.is_none() {
        output::print_stderr(&plan(&planned));
    }
    confirm::queue_name(queue.name().as_str(), args.confirm.as_deref(), context).await?;
    if planned.planned() == 0 {
        context.output.print(&planned, show)?;
        return Ok(Exit::Done);
    }
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let begun = queues::purge(&queue, &args.actor.actor(), &Purge { parts, retention }, &planned).await;
    let begun = told(begun?);
    if args.wait.detach {
        return tasks::print(&begun, context);
    }
    let ended = tasks::wait(&queue, &begun, context).await?;
    planned.take(&ended);
    context.output.print(&planned, show)?;
    Ok(tasks::exit(&ended))
}

/// Returns what to empty, and asks if that was not said.
async fn wanted(args: &Args, context: &Context) -> anyhow::Result<Parts> {
    let parts = Parts { waiting: args.waiting, delayed: args.delayed, dead: args.dead };
    if !parts.is_empty() {
        return Ok(parts);
    }
    if !confirm::can_ask() {
        return Err(Wrong("say what to empty: --waiting, --delayed or --dead".to_owned()).into());
    }
    let question = "What should be emptied (waiting, delayed, dead)? ".to_owned();
    let typed = confirm::answer_unless_stopped(question, context).await?;
    let parts = typed.as_deref().and_then(parse);
    parts.ok_or_else(confirm::cancelled)
}

/// Reads the names that a person types.
fn parse(text: &str) -> Option<Parts> {
    let mut parts = Parts::default();
    for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
        match name {
            "waiting" => parts.waiting = true,
            "delayed" => parts.delayed = true,
            "dead" => parts.dead = true,
            _ => return None,
        }
    }
    Some(parts).filter(|parts| !parts.is_empty())
}

/// Shows what is about to happen.
fn plan(purged: &Purged) -> String {
    let named = [
        ("waiting jobs would be cancelled", purged.waiting),
        ("delayed jobs would be cancelled", purged.delayed),
        ("dead letters would be dropped", purged.dead),
    ];
    let lines = named.into_iter().filter_map(|(what, count)| Some(format!("{} {what}", count?)));
    let lines: Vec<String> = lines.collect();
    format!("{} of the queue {}", lines.join(", "), purged.queue)
}

/// Shows what became of the queue.
fn show(purged: &Purged) -> String {
    let mut line = format!("{} jobs cancelled or dead letters dropped", purged.changed);
    if purged.failed > 0 {
        line.push_str(&format!(", {} failed: {}", purged.failed, purged.errors.join("; ")));
    }
    match &purged.task {
        Some(task) => format!("{line}\nby the task {task}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_names_of_parts_may_be_typed([waiting, delayed, dead] in any::<[bool; 3]>()) {
            let parts = Parts { waiting, delayed, dead };
            let typed = parts.names().join(" ");
            prop_assert_eq!(parse(&typed), Some(parts).filter(|parts| !parts.is_empty()));
            prop_assert_eq!(parse(&typed.replace(' ', ", ")), parse(&typed));
        }
    }

    #[test]
    fn an_unknown_name_means_nothing() {
        for text in ["", " ", "all", "waiting, running"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
