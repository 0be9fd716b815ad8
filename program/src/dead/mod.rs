//! `streamfleet dead`: the dead letters of a queue. `list`, `groups`, `watch` and `show` display them, `export` writes them
//! out; `begin` and `sweep` replay and drop them, after a `plan`; `edit` changes one.

mod begin;
mod edit;
mod export;
mod groups;
mod list;
mod plan;
mod replay;
mod show;
mod sweep;
mod watch;

use streamfleet::job::{DeadReason, JobId, QueueName};
use streamfleet_engine::admin::{Filter, LetterLimits};
use streamfleet_operations::Actor;
use streamfleet_service::config::Effective;

pub(crate) use self::begin::RulesArgs;
use super::actor::ActorArgs;
use super::exit::Exit;
use super::filter::{FilterArgs, LetterArgs};
use super::times::Clock;
use super::{Context, Wrong};

/// The arguments of `dead`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet dead --queue mail\n  streamfleet dead groups --queue mail\n  streamfleet dead replay --type mail.send --rate 50/s --canary 5"
)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    /// Default: list the newest.
    #[command(subcommand)]
    action: Option<Action>,
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.action, Some(Action::Replay(_) | Action::Drop(_)))
    }
}

/// The ways to use `dead replay` and `dead drop`. Those that clap derives leave out some.
const REPLAY: &str = "\
streamfleet dead replay [OPTIONS] <ID>...
       streamfleet dead replay [OPTIONS] --all
       streamfleet dead replay [OPTIONS] <FILTER>";
const DROP: &str = "\
streamfleet dead drop [OPTIONS] <ID>...
       streamfleet dead drop [OPTIONS] --all
       streamfleet dead drop [OPTIONS] <FILTER>";

/// What to do with dead letters.
#[derive(clap::Subcommand)]
enum Action {
    /// List dead letters, newest first.
    List(Box<list::Args>),
    /// Count the dead letters by what killed their jobs.
    Groups(groups::Args),
    /// Show how often jobs die of what, live.
    Watch(watch::Args),
    /// Show all fields of a dead letter.
    #[command(
        after_help = "Examples:\n  streamfleet dead show 1700000000000-0\n  streamfleet dead show order-7 --queue mail"
    )]
    Show {
        /// The id of the dead letter, or of its job.
        id: JobId,
    },
    /// Write dead letters with all their fields as JSON, one per line, oldest first.
    Export(Box<export::Args>),
    /// Run jobs again, with their counters at zero. Each dead letter is replayed once, even if several people replay it.
    #[command(override_usage = REPLAY)]
    #[command(
        after_help = "Examples:\n  streamfleet dead replay 1700000000000-0\n  streamfleet dead replay --dead-reason exhausted --type mail.send\n  streamfleet dead replay --all --limit 10\n  streamfleet dead replay --type mail.send --rate 50/s --canary 5 --stop-at 5%\n  streamfleet dead replay --all --yes --reason 'the mail server is back'"
    )]
    Replay(Box<replay::Replay>),
    /// Delete dead letters and their jobs.
    #[command(override_usage = DROP)]
    #[command(
        after_help = "Examples:\n  streamfleet dead drop order-7 --queue mail\n  streamfleet dead drop --dead-reason malformed --older-than 7d --yes"
    )]
    Drop(Box<replay::Drop>),
    /// Change the payload, the type or other fields of a dead letter, before it is replayed.
    Edit(Box<edit::Args>),
}

/// Selects letters.
#[derive(clap::Args, Debug, Clone, Default)]
struct Letters {
    #[command(flatten)]
    jobs: FilterArgs,
    #[command(flatten)]
    letters: LetterArgs,
}

impl Letters {
    /// Converts the arguments.
    fn filter(&self, clock: &Clock) -> Result<Filter, Wrong> {
        self.letters.add_to(self.jobs.filter(clock)?)
    }
}

/// Who changes letters, and why.
///
/// # Errors
///
/// [`Wrong`] if the reason is one for which jobs die: `--reason` once selected letters by it.
fn actor(args: &ActorArgs) -> Result<Actor, Wrong> {
    let actor = args.actor();
    match DeadReason::named(actor.reason()) {
        Some(reason) => Err(Wrong(format!(
            "--reason says why you do this: to select dead letters by their reason, use --dead-reason {reason}"
        ))),
        None => Ok(actor),
    }
}

/// Which letters a queue keeps by the configuration of this process. The leader of the queue may have another one.
pub(crate) fn limits(queue: &QueueName, effective: &Effective) -> LetterLimits {
    let served = effective.config.queues.get(queue).map(|section| &section.served);
    let (retention, most) = served.map_or((None, None), |served| (served.dead_retention, served.dead_max));
    LetterLimits::default().retention(retention).most(most)
}

/// Runs the subcommand.
pub(crate) async fn run(Args { queue, action }: Args, context: &Context) -> anyhow::Result<Exit> {
    let action = action.unwrap_or_else(|| Action::List(Box::default()));
    let connect = async |name| anyhow::Ok(context.broker().await?.queue(name));
    match action {
        Action::List(list) => list::run(*list, &context.broker().await?, queue, context).await,
        Action::Groups(groups) => groups::run(groups, &context.broker().await?, queue, context).await,
        Action::Watch(watch) => watch::run(watch, &context.broker().await?, queue, context).await,
        Action::Show { id } => show::run(&id, &connect(queue).await?, context).await,
        Action::Export(export) => export::run(*export, &connect(queue).await?, context).await,
        Action::Replay(replay) => replay.run(queue, context).await,
        Action::Drop(drop) => drop.run(queue, context).await,
        Action::Edit(edit) => edit::run(*edit, &connect(queue).await?, context).await,
    }
}
