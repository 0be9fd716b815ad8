//! What `dead replay` and `dead drop` do to the letters that a person names.

use streamfleet::job::{JobId, QueueName};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::dead::{self, Sweep, Swept};

use super::{Letters, plan};
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::{Context, Wrong, bulk, confirm, output};

/// The arguments of `dead replay` and `dead drop`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The ids of the dead letters, or of their jobs.
    #[arg(value_name = "ID", conflicts_with = "all")]
    pub(super) ids: Vec<JobId>,
    /// All dead letters that exist now and that the filter matches. Those that arrive meanwhile are left alone.
    #[arg(long)]
    all: bool,
    /// Only the oldest that the filter matches: at most this many.
    #[arg(long, value_name = "LETTERS", conflicts_with = "ids", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: Option<u64>,
    /// Show the plan, and change nothing.
    #[arg(long, conflicts_with = "ids")]
    pub(super) dry_run: bool,
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

/// Says what a replay of all steps does.
pub(super) fn warn(way: Sweep) {
    if way == Sweep::ReplayAllSteps {
        output::print_stderr(
            "the states of all steps are discarded: steps of the kind `once` that are done run again",
        );
    }
}

/// Replays or drops the letters that are named.
pub(super) async fn run(args: Args, way: Sweep, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
    args.check(&args.letters.filter(&context.clock)?, way)?;
    let actor = super::actor(&args.actor)?;
    warn(way);
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    let queue = broker.queue(queue);
    // A person who names a letter means it, but may not know which of its steps are done.
    if way == Sweep::ReplayAllSteps && !args.yes {
        plan::confirm(question(way), args.ids.len() as u64, &queue, context).await?;
    }
    report(told(dead::sweep(&queue, &actor, way, &args.ids, &context.shutdown).await), way, context)
}

/// Prints what became of the letters.
fn report(mut swept: Swept, way: Sweep, context: &Context) -> anyhow::Result<Exit> {
    swept.errors.iter().chain(&swept.remarks).for_each(|line| output::print_stderr(line));
    if let Some(failure) = swept.failure.take() {
        return Err(failure.into());
    }
    context.output.print(&swept, |swept| show(swept, way))?;
    Ok(match (swept.failed, swept.done() + swept.gone) {
        (0, _) if swept.interrupted => Exit::Failed,
        (0, _) if swept.gone > 0 => Exit::NotFound,
        (0, _) => Exit::Done,
        (_, 0) => Exit::Redis,
        (_, _) => Exit::Failed,
    })
}

impl Args {
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
        if self.yes || self.dry_run || confirm::can_ask() {
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
