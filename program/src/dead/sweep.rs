//! What `dead replay` and `dead drop` do: for the named letters, or for those that a filter matches and that exist now. The
//! newest is noted before anybody is asked, because a replayed job may die again and come back as a new letter after it.

use anyhow::Context as _;
use indicatif::ProgressBar;
use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::Control;
use streamfleet_operations::dead::{self, Sweep, Swept};

use super::{Letters, plan};
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::output;
use crate::{Context, Wrong, confirm};

/// The arguments of `dead replay` and `dead drop`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The ids of the dead letters, or of their jobs.
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub(super) ids: Vec<JobId>,
    /// All dead letters that exist now and that the filter matches. Those that arrive meanwhile are left alone.
    #[arg(long)]
    all: bool,
    /// Only the oldest that the filter matches: at most this many. Letters that are gone meanwhile do not count.
    #[arg(long, value_name = "LETTERS", conflicts_with = "ids", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) actor: ActorArgs,
    #[command(flatten)]
    pub(super) letters: Letters,
}

/// The question that is asked beforehand.
pub(super) fn question(way: Sweep) -> &'static str {
    match way {
        Sweep::Replay => "Replay",
        Sweep::ReplayAllSteps => "Run all steps again, including those of the kind `once`, of",
        Sweep::Drop => "Delete",
    }
}

/// Replays or drops.
pub(super) async fn run(args: Args, way: Sweep, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
    let filter = args.letters.filter(&context.clock)?;
    args.check(&filter, way)?;
    let actor = super::actor(&args.actor)?;
    if way == Sweep::ReplayAllSteps {
        output::print_stderr(
            "the states of all steps are discarded: steps of the kind `once` that are done run again",
        );
    }
    let broker = tokio::select! {
        biased;
        () = context.shutdown.requested() => return Ok(Exit::Failed),
        broker = context.broker() => broker?,
    };
    let queue = broker.queue(queue);
    let letters = args.chosen(filter, way, &queue, context).await?;
    let bar = match &letters {
        dead::Letters::Named(_) => ProgressBar::hidden(),
        dead::Letters::Selected { selection, .. } => {
            output::progress(context.output, Some(selection.total), "dead letters")
        }
    };
    let progress = |read: u64| bar.set_position(read);
    let control = Control { stop: &context.shutdown, progress: &progress };
    let swept = dead::sweep(&queue, &actor, way, &letters, control).await;
    bar.finish_and_clear();
    report(told(swept), way, !args.ids.is_empty(), context)
}

/// Prints what became of the letters.
fn report(mut swept: Swept, way: Sweep, is_named: bool, context: &Context) -> anyhow::Result<Exit> {
    swept.errors.iter().chain(&swept.remarks).for_each(|line| output::print_stderr(line));
    if let Some(failure) = swept.failure.take() {
        return Err(failure.into());
    }
    context.output.print(&swept, |swept| show(swept, way))?;
    Ok(match (swept.failed, swept.done() + swept.gone) {
        (0, _) if swept.interrupted => Exit::Failed,
        (0, _) if swept.gone > 0 && is_named => Exit::NotFound,
        (0, _) => Exit::Done,
        (_, 0) => Exit::Redis,
        (_, _) => Exit::Failed,
    })
}

impl Args {
    /// Returns which letters are meant. Shows a plan and asks first, unless that was confirmed or a person has named them.
    async fn chosen(
        &self,
        filter: Filter,
        way: Sweep,
        queue: &Queue,
        context: &Context,
    ) -> anyhow::Result<dead::Letters> {
        if !self.ids.is_empty() {
            // A person who names a letter means it, but may not know which of its steps are done.
            if way == Sweep::ReplayAllSteps && !self.yes {
                plan::confirm(question(way), self.ids.len() as u64, queue, context).await?;
            }
            return Ok(dead::Letters::Named(self.ids.clone()));
        }
        let selected = queue.dead_letters().select(filter).await;
        let selection = selected.context("failed to read the dead letters")?;
        if !self.yes {
            let planned = plan::show(queue, &selection, way, context).await?;
            let planned = planned.min(self.limit.unwrap_or(u64::MAX));
            if planned > 0 {
                plan::confirm(question(way), planned, queue, context).await?;
            }
        }
        Ok(dead::Letters::Selected { selection, limit: self.limit })
    }

    /// Refuses what nobody can have meant.
    pub(super) fn check(&self, filter: &Filter, way: Sweep) -> Result<(), Wrong> {
        if !self.ids.is_empty() {
            if !filter.is_empty() {
                let why = "a filter selects dead letters by itself: it does not work with ids";
                return Err(Wrong(why.to_owned()));
            }
            if way != Sweep::ReplayAllSteps {
                return Ok(());
            }
        } else if filter.is_empty() && !self.all {
            return Err(Wrong(
                "name dead letters, or select them by a filter, or add --all for all of them".to_owned(),
            ));
        }
        if self.yes || confirm::can_ask() {
            return Ok(());
        }
        Err(Wrong(match way {
            Sweep::Replay => return confirm::must_be_possible(self.yes),
            Sweep::ReplayAllSteps => {
                "--steps all also repeats steps of the kind `once`: add --yes if stdin is not a terminal"
                    .to_owned()
            }
            Sweep::Drop => {
                "dropping dead letters deletes jobs for good: add --yes if stdin is not a terminal".to_owned()
            }
        }))
    }
}

pub(super) fn show(swept: &Swept, way: Sweep) -> String {
    let done = match way {
        Sweep::Replay => format!("{} replayed", swept.replayed),
        Sweep::ReplayAllSteps => format!("{} replayed with all their steps", swept.replayed),
        Sweep::Drop => format!("{} dropped", swept.dropped),
    };
    let deciding = match swept.needs_decision {
        0 => String::new(),
        count => format!("\n{count} of them {}", plan::DECIDE),
    };
    let gone = if swept.gone > 0 { format!(", {} gone or unknown", swept.gone) } else { String::new() };
    let undecided = match swept.undecided {
        0 => String::new(),
        count => format!(", {count} left alone because the filter cannot read their payloads"),
    };
    let failed = if swept.failed > 0 { format!(", {} failed", swept.failed) } else { String::new() };
    let more = match &swept.task {
        Some(task) => format!("\nby the task {task}"),
        None if swept.interrupted => "\ninterrupted; to continue, give the same command again".to_owned(),
        None => String::new(),
    };
    format!("{done}{gone}{undecided}{failed}{deciding}{more}")
}
