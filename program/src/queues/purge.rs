//! `streamfleet queues purge`: empties a queue. Its waiting and delayed jobs are cancelled, its dead letters are dropped.

use streamfleet::job::QueueName;
use streamfleet_operations::Control;
use streamfleet_operations::queues::{self, Parts, Purge, Purged};

use super::report_unknown;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::{Context, Wrong, confirm, output};

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
    actor: ActorArgs,
}

/// Empties the queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    if report_unknown(&broker, &args.name, context).await {
        return Ok(Exit::NotFound);
    }
    let queue = broker.queue(args.name.clone());
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let plan_only = Purge { parts: wanted(&args, context).await?, dry_run: true, retention };
    let (actor, stop) = (args.actor.actor(), &context.shutdown);
    let planned = queues::purge(&queue, &actor, &plan_only, Control { stop, progress: &|_| {} }).await?.value;
    if args.dry_run {
        context.output.print(&planned, plan)?;
        return Ok(Exit::Done);
    }
    if args.confirm.is_none() {
        output::print_stderr(&plan(&planned));
    }
    confirm::queue_name(queue.name().as_str(), args.confirm.as_deref(), context).await?;
    let bar = output::progress(context.output, Some(planned.planned()), "jobs");
    let progress = |done| bar.set_position(done);
    let input = Purge { dry_run: false, ..plan_only };
    let purged = queues::purge(&queue, &actor, &input, Control { stop, progress: &progress }).await;
    bar.finish_and_clear();
    let mut purged = told(purged?);
    if let Some(failure) = purged.failure.take() {
        return Err(failure.into());
    }
    context.output.print(&purged, show)?;
    Ok(if purged.is_complete() { Exit::Done } else { Exit::Failed })
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
    parts.ok_or_else(|| anyhow::anyhow!("cancelled: nothing was changed"))
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
    let mut parts =
        vec![format!("{} jobs cancelled, {} dead letters dropped", purged.cancelled, purged.dropped)];
    if purged.gone > 0 {
        parts.push(format!("{} gone already", purged.gone));
    }
    if purged.failed > 0 {
        parts.push(format!("{} failed: {}", purged.failed, purged.errors.join("; ")));
    }
    let mut lines = vec![parts.join(", ")];
    lines.extend(purged.unread.iter().cloned());
    if purged.interrupted {
        lines.push("interrupted; to continue, give the same command again".to_owned());
    }
    lines.join("\n")
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
