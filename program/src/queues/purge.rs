//! `streamfleet queues purge`: empties a queue. Its waiting and delayed jobs are cancelled, its dead letters are dropped.

use anyhow::Context as _;
use indicatif::ProgressBar;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{QueueName, State};
use streamfleet_engine::admin::{Action, Filter, Selection};
use streamfleet_operations::dead::{Swept, drop_selected};
use streamfleet_operations::jobs::bulk::{self, Bulk, Change};
use streamfleet_operations::{Actor, Control};

use crate::actor::{self, ActorArgs};
use crate::bulk::bounded;
use crate::exit::Exit;
use crate::{Context, Wrong, confirm, output, queues};

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
    /// Who does this, for the audit. Default: the user of this machine, such as ann@ops-1.
    #[arg(long = "as", value_name = "WHO", visible_alias = "by")]
    actor: Option<String>,
    /// Why it is done, for the audit.
    #[arg(long, value_name = "TEXT", visible_alias = "why")]
    reason: Option<String>,
}

/// What to empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) waiting: bool,
    pub(crate) delayed: bool,
    pub(crate) dead: bool,
}

impl Parts {
    pub(crate) fn is_empty(self) -> bool {
        !self.waiting && !self.delayed && !self.dead
    }

    /// Reads the names that a person types.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = Self { waiting: false, delayed: false, dead: false };
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

    /// The states of the jobs to cancel.
    fn states(self) -> Vec<State> {
        let waiting = self.waiting.then_some(State::Waiting);
        let delayed = [State::Scheduled, State::Retrying].into_iter().filter(|_| self.delayed);
        waiting.into_iter().chain(delayed).collect()
    }

    /// The arguments that mean them.
    fn flags(self) -> String {
        let named = [("--waiting", self.waiting), ("--delayed", self.delayed), ("--dead", self.dead)];
        named
            .into_iter()
            .filter(|(_, is_meant)| *is_meant)
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// What became of the queue, for JSON output.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
#[schema(as = QueuePurged)]
pub(crate) struct Purged {
    queue: String,
    dry_run: bool,
    /// How many waiting jobs, delayed jobs and dead letters there were; `null` for what is not emptied.
    waiting: Option<u64>,
    delayed: Option<u64>,
    dead: Option<u64>,
    cancelled: u64,
    /// How many letters were dropped.
    dropped: u64,
    /// How many jobs and letters had gone by themselves.
    gone: u64,
    failed: u64,
    errors: Vec<String>,
    unread: Vec<String>,
    interrupted: bool,
}

/// Empties the queue.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    if queues::report_unknown(&broker, &args.name, context).await {
        return Ok(Exit::NotFound);
    }
    let queue = broker.queue(args.name.clone());
    let parts = wanted(&args, context).await?;
    let mut purged = Purged::plan(&queue, parts, args.dry_run).await?;
    if args.dry_run {
        context.output.print(&purged, plan)?;
        return Ok(Exit::Done);
    }
    if args.confirm.is_none() {
        output::print_stderr(&plan(&purged));
    }
    confirm::queue_name(queue.name().as_str(), args.confirm.as_deref(), context).await?;
    let why = args.reason.clone().unwrap_or_default();
    let action = ActorArgs::of(args.actor.clone(), why).action("queues purge");
    purge(&action, parts, &queue, context, &mut purged).await?;
    context.output.print(&purged, show)?;
    let is_complete = !purged.interrupted && purged.failed == 0 && purged.unread.is_empty();
    Ok(if is_complete { Exit::Done } else { Exit::Failed })
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
    let parts = typed.as_deref().and_then(Parts::parse);
    parts.ok_or_else(|| anyhow::anyhow!("cancelled: nothing was changed"))
}

impl Purged {
    /// Counts what would be emptied.
    pub(crate) async fn plan(queue: &Queue, parts: Parts, dry_run: bool) -> anyhow::Result<Self> {
        let snapshot = queue.snapshot().await.context("failed to count the jobs")?;
        Ok(Self {
            queue: queue.name().to_string(),
            dry_run,
            waiting: parts.waiting.then(|| snapshot.waiting()),
            delayed: parts.delayed.then_some(snapshot.delayed),
            dead: parts.dead.then_some(snapshot.dead),
            ..Self::default()
        })
    }
}

/// Empties these parts, and notes it in the audit: once before, and once with the outcome.
pub(crate) async fn purge(
    action: &Action,
    parts: Parts,
    queue: &Queue,
    context: &Context,
    purged: &mut Purged,
) -> anyhow::Result<()> {
    let planned = [purged.waiting, purged.delayed, purged.dead].into_iter().flatten().sum::<u64>();
    let action = action.clone().target(parts.flags()).count(planned);
    actor::note(queue, &action).await;
    let bar = output::progress(context.output, Some(planned), "jobs");
    let result = empty(parts, &action.who, queue, (context, &bar), purged).await;
    bar.finish_and_clear();
    let outcome = match (&result, purged.interrupted) {
        (Err(_), _) => "ended early",
        (Ok(()), true) => "interrupted",
        (Ok(()), false) => "done",
    };
    actor::note(queue, &action.count(purged.cancelled + purged.dropped).outcome(outcome)).await;
    result
}

async fn empty(
    parts: Parts,
    by: &str,
    queue: &Queue,
    (context, bar): (&Context, &ProgressBar),
    purged: &mut Purged,
) -> anyhow::Result<()> {
    let states = parts.states();
    if !states.is_empty() {
        let input = bounded(Change::Cancel, Filter::new(), queue.name(), &context.effective);
        let input = Bulk { all: true, states, ..input };
        let progress = |done: u64| bar.set_position(done);
        let control = Control { stop: &context.shutdown, progress: &progress };
        let planned = bulk::select(queue, &input).await?;
        let report = bulk::walk(queue, &Actor::new(by, ""), &input, planned, control).await;
        (purged.cancelled, purged.gone) = (report.changed + report.requested, report.gone);
        (purged.failed, purged.errors, purged.unread) = (report.failed, report.errors, report.unread);
        purged.interrupted = report.interrupted;
        if let Some(failure) = report.failure {
            return Err(failure.into());
        }
    }
    if parts.dead && !purged.interrupted {
        let selection =
            queue.dead_letters().select(Filter::new()).await.context("failed to read the dead letters")?;
        drop_letters(selection, queue, (context, bar), purged).await?;
    }
    Ok(())
}

/// Drops the letters that existed when they were selected. One that Redis refuses stays, and stops nothing.
async fn drop_letters(
    selection: Selection,
    queue: &Queue,
    (context, bar): (&Context, &ProgressBar),
    purged: &mut Purged,
) -> anyhow::Result<()> {
    let before = purged.cancelled;
    let progress = |read: u64| bar.set_position(before + read);
    let control = Control { stop: &context.shutdown, progress: &progress };
    let Swept { dropped, gone, failed, errors, interrupted, failure, .. } =
        drop_selected(queue, selection, control).await;
    (purged.dropped, purged.interrupted) = (dropped, interrupted);
    (purged.gone, purged.failed) = (purged.gone + gone, purged.failed + failed);
    purged.errors.extend(errors);
    failure.map_or(Ok(()), |failure| Err(failure.into()))
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
        fn typed_names_mean_the_same_as_arguments([waiting, delayed, dead] in any::<[bool; 3]>()) {
            let parts = Parts { waiting, delayed, dead };
            let typed = parts.flags().replace("--", "");
            prop_assert_eq!(Parts::parse(&typed), Some(parts).filter(|parts| !parts.is_empty()));
            prop_assert_eq!(Parts::parse(&typed.replace(' ', ", ")), Parts::parse(&typed));
            prop_assert_eq!(parts.states().len(), usize::from(waiting) + 2 * usize::from(delayed));
        }
    }

    #[test]
    fn an_unknown_name_means_nothing() {
        for text in ["", " ", "all", "waiting, running"] {
            assert_eq!(Parts::parse(text), None, "{text}");
        }
    }
}
