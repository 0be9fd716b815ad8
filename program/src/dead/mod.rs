//! `streamfleet dead`: the dead letters of a queue. `list` and `show` display them; `sweep` replays and drops them.

mod list;
mod show;
mod sweep;

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::admin::DeadLetter;
use streamfleet::job::{DeadReason, EntryId, JobId, JobType, QueueName};

use super::Context;
use super::exit::Exit;
use super::status;

/// The arguments of `dead`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
}

/// The ways to use `dead replay` and `dead drop`. Those that clap derives leave out `--all`.
const REPLAY: &str = "\
streamfleet dead replay [OPTIONS] <ID>...
       streamfleet dead replay [OPTIONS] --all";
const DROP: &str = "\
streamfleet dead drop [OPTIONS] <ID>...
       streamfleet dead drop [OPTIONS] --all";

/// What to do with dead letters.
#[derive(clap::Subcommand)]
enum Action {
    /// List dead letters, newest first.
    List(list::Args),
    /// Show all fields of a dead letter.
    #[command(
        after_help = "Examples:\n  streamfleet dead show 1700000000000-0\n  streamfleet dead show order-7 --queue mail"
    )]
    Show {
        /// The id of the letter, or of its job.
        id: JobId,
    },
    /// Run jobs again, with their counters at zero. Each letter is replayed once, even if several people replay it.
    #[command(override_usage = REPLAY)]
    #[command(
        after_help = "Examples:\n  streamfleet dead replay 1700000000000-0\n  streamfleet dead replay --all --reason exhausted --type mail.send"
    )]
    Replay(sweep::Replay),
    /// Delete dead letters and their jobs.
    #[command(override_usage = DROP)]
    #[command(
        after_help = "Examples:\n  streamfleet dead drop order-7 --queue mail\n  streamfleet dead drop --all --reason malformed --yes"
    )]
    Drop(sweep::Args),
}

/// Selects letters.
#[derive(clap::Args, Debug, Clone)]
struct Filter {
    /// Only jobs of this type.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<JobType>,
    /// Only letters with this reason: exhausted, fatal, lost, expired, malformed,
    /// unroutable or `needs_decision`.
    #[arg(long, value_parser = reason)]
    reason: Option<DeadReason>,
    /// Only letters whose last failure was of this kind.
    #[arg(long, value_parser = KINDS)]
    kind: Option<String>,
}

/// The values of `dead_kind`.
const KINDS: [&str; 8] =
    ["error", "timeout", "panic", "unknown", "lost", "expired", "malformed", "unroutable"];

impl Filter {
    fn admits(&self, letter: &DeadLetter) -> bool {
        let named = |name: &str, want: Option<&str>| {
            want.is_none_or(|want| letter.fields.get(name.as_bytes()) == Some(want.as_bytes()))
        };
        named("type", self.job_type.as_ref().map(JobType::as_str))
            && named("dead_reason", self.reason.map(DeadReason::as_str))
            && named("dead_kind", self.kind.as_deref())
    }

    fn is_empty(&self) -> bool {
        self.job_type.is_none() && self.reason.is_none() && self.kind.is_none()
    }
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let connect = async |name| anyhow::Ok(context.broker().await?.queue(name));
    match args.action {
        Action::List(list) => list::run(list, &context.broker().await?, args.queue, context).await,
        Action::Show { id } => show::run(&id, &connect(args.queue).await?, context).await,
        Action::Replay(replay) => {
            let (sweep, action) = replay.action();
            sweep::run(sweep, action, args.queue, context).await
        }
        Action::Drop(sweep) => sweep::run(sweep, sweep::SweepAction::Drop, args.queue, context).await,
    }
}

/// Finds the letter with this id, or of the job with this id.
async fn find(queue: &Queue, id: &JobId) -> anyhow::Result<Option<DeadLetter>> {
    const FAILED: &str = "failed to read the dead letter";
    if let Ok(entry) = id.to_string().parse::<EntryId>()
        && let Some(letter) = queue.dead_letters().get(entry).await.context(FAILED)?
    {
        return Ok(Some(letter));
    }
    let Some(entry) = status::find(queue, id).await?.and_then(|status| status.dead) else { return Ok(None) };
    queue.dead_letters().get(entry).await.context(FAILED)
}

fn reason(name: &str) -> Result<DeadReason, String> {
    let known = DeadReason::ALL.into_iter().find(|reason| reason.as_str() == name);
    known.ok_or_else(|| {
        format!("a reason must be one of {}", DeadReason::ALL.map(DeadReason::as_str).join(", "))
    })
}
