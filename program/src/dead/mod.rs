//! `streamfleet dead`: the dead letters of a queue. `list`, `groups`, `watch` and `show` display them, `export` writes them
//! out; `sweep` replays and drops them, after a `plan`; `edit` changes one.

mod campaign;
mod edit;
mod export;
mod groups;
mod kept;
mod list;
mod plan;
mod replay;
mod show;
mod sweep;
mod watch;

pub(crate) use campaign::Report as CampaignBegun;
pub(crate) use edit::{Report as LetterEdited, encoding};
pub(crate) use groups::{Group, Page as GroupPage, group, page as groups_page};
pub(crate) use kept::Kept;
pub(crate) use list::{Page as LetterPage, Wanted as WantedLetters, page as letters_page};
pub(crate) use show::{Report as LetterReport, report as letter_report};
pub(crate) use sweep::Swept;

use anyhow::Context as _;
use streamfleet::job::{EntryId, JobId, QueueName};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{DeadLetter, Filter};
use streamfleet_operations::jobs;

use super::exit::Exit;
use super::filter::{FilterArgs, LetterArgs};
use super::times::Clock;
use super::{Context, Wrong, output};

/// The arguments of `dead`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet dead groups --queue mail\n  streamfleet dead replay --type mail.send --rate 50/s --canary 5"
)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
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
    Drop(Box<sweep::Args>),
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

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connect = async |name| anyhow::Ok(context.broker().await?.queue(name));
    match args.action {
        Action::List(list) => list::run(*list, &context.broker().await?, args.queue, context).await,
        Action::Groups(groups) => groups::run(groups, &context.broker().await?, args.queue, context).await,
        Action::Watch(watch) => watch::run(watch, &context.broker().await?, args.queue, context).await,
        Action::Show { id } => show::run(&id, &connect(args.queue).await?, context).await,
        Action::Export(export) => export::run(*export, &connect(args.queue).await?, context).await,
        Action::Replay(replay) => replay.run(args.queue, context).await,
        Action::Drop(sweep) => sweep::run(*sweep, sweep::SweepAction::Drop, args.queue, context).await,
        Action::Edit(edit) => edit::run(*edit, &connect(args.queue).await?, context).await,
    }
}

/// Finds the letter with this id, or of the job with this id.
pub(crate) async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<DeadLetter>> {
    const FAILED: &str = "failed to read the dead letter";
    if let Ok(entry) = id.to_string().parse::<EntryId>()
        && let Some(letter) = queue.dead_letters().get(entry).await.context(FAILED)?
    {
        return Ok(Some(letter));
    }
    let Some(entry) = jobs::find(queue, id).await?.and_then(|status| status.dead) else { return Ok(None) };
    queue.dead_letters().get(entry).await.context(FAILED)
}

/// Reports that there is no letter with this id. If somebody edited it, says what became of it.
async fn report_missing(queue: &Queue, id: &JobId) -> anyhow::Result<()> {
    let edited = match id.to_string().parse() {
        Ok(entry) => queue.dead_letters().edited(entry).await.context("failed to look it up")?,
        Err(_) => None,
    };
    match edited {
        Some(edited) => report_edited(queue, id, edited).await?,
        None => output::print_stderr(&format!(
            "the queue {} has no dead letter {id}, and none of a job with this id",
            queue.name()
        )),
    }
    Ok(())
}

/// Reports that somebody edited a letter, and whether the one that took its place still exists.
async fn report_edited(queue: &Queue, id: &JobId, edited: EntryId) -> Result<(), RedisError> {
    output::print_stderr(&match queue.dead_letters().get(edited).await? {
        Some(_) => format!("{id} was edited: its dead letter is now {edited}"),
        None => format!("{id} was edited: the dead letter {edited} took its place, and is gone, too"),
    });
    Ok(())
}
