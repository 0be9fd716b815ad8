//! `dead replay` and `dead drop`: for the named letters, or for all that exist now. One script handles each letter, so two
//! concurrent sweeps never replay a letter twice.

use std::io::{IsTerminal, Write};

use anyhow::Context as _;
use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;
use streamfleet::admin::{DeadLetter, Replayed};
use streamfleet::job::{EntryId, JobId, QueueName, State};
use streamfleet::{Queue, RedisError};

use super::Filter;
use crate::exit::Exit;
use crate::output;
use crate::{Context, Wrong};

/// How many letters are read at once.
const PAGE: u64 = 200;

/// How many scripts are in flight at once.
const AT_ONCE: usize = 32;

/// The arguments of `dead replay` and `dead drop`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The ids of the letters, or of their jobs.
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<JobId>,
    /// All letters that exist now. Letters that arrive meanwhile are left alone.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
}

/// The arguments of `dead replay`.
#[derive(clap::Args)]
pub(super) struct Replay {
    #[command(flatten)]
    args: Args,
    /// Which steps of a job to run: those that have not succeeded, or all of them. With `all`, steps that are done
    /// run again, including steps of the kind `once`.
    #[arg(long, value_name = "WHICH", default_value = "failed")]
    steps: Which,
}

/// Which steps a replay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Those that have not succeeded. A `once` step that has been started waits for a decision.
    Failed,
    /// All of them: the ledger is discarded.
    All,
}

impl Replay {
    /// Returns the arguments that both commands share, and what is done to each letter.
    pub(super) fn action(self) -> (Args, SweepAction) {
        match self.steps {
            Which::Failed => (self.args, SweepAction::Replay),
            Which::All => (self.args, SweepAction::StartOver),
        }
    }
}

/// What is done to each letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepAction {
    /// Back to its lane.
    Replay,
    /// Back to its lane, with all its steps to run again.
    StartOver,
    /// Deleted for good.
    Drop,
}

/// What became of the letters, for JSON output.
#[derive(Serialize, Default)]
struct Swept {
    queue: String,
    replayed: u64,
    dropped: u64,
    /// Letters that somebody else replayed or dropped meanwhile, and ids without a letter.
    gone: u64,
}

/// Replays or drops.
pub(super) async fn run(
    args: Args,
    action: SweepAction,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    if args.all && action == SweepAction::Drop && !args.yes && !std::io::stdin().is_terminal() {
        let why = "dropping all dead letters deletes jobs for good: add --yes if stdin is not a terminal";
        return Err(Wrong(why.to_owned()).into());
    }
    if args.all && action == SweepAction::StartOver && !args.yes && !std::io::stdin().is_terminal() {
        let why = "--steps all also repeats steps of the kind `once`: add --yes if stdin is not a terminal";
        return Err(Wrong(why.to_owned()).into());
    }
    if !args.all && !args.filter.is_empty() {
        return Err(Wrong("--type, --reason and --kind only work with --all, not with ids".to_owned()).into());
    }
    if action == SweepAction::StartOver {
        output::print_stderr("the ledgers are discarded: steps of the kind `once` that are done run again");
    }
    let mut sweep = Sweep::new(context.broker().await?.queue(queue), action);
    if args.all {
        sweep.all(&args, context).await?;
    } else {
        sweep.named(&args.ids).await?;
    }
    context.output.print(&sweep.swept, |swept| show(swept, action))?;
    let missing = !args.all && sweep.swept.gone > 0;
    Ok(if missing { Exit::NotFound } else { Exit::Done })
}

struct Sweep {
    queue: Queue,
    action: SweepAction,
    swept: Swept,
}

impl Sweep {
    fn new(queue: Queue, action: SweepAction) -> Self {
        let swept = Swept { queue: queue.name().to_string(), ..Swept::default() };
        Self { queue, action, swept }
    }

    async fn named(&mut self, ids: &[JobId]) -> anyhow::Result<()> {
        for id in ids {
            match super::find(&self.queue, id).await? {
                Some(letter) => self.sweep(vec![letter]).await?,
                None => {
                    self.swept.gone += 1;
                    let status = self.queue.status(id).await.context("failed to look up the job")?;
                    report_gone(id, status.map(|status| status.state));
                }
            }
        }
        Ok(())
    }

    /// Sweeps every letter that exists now. The last one is noted at the start, because a replayed job may die again and
    /// come back as a new letter after it.
    async fn all(&mut self, args: &Args, context: &Context) -> anyhow::Result<()> {
        const FAILED: &str = "failed to read the dead letters";
        let newest = self.queue.dead_letters().recent(None, 1).await.context(FAILED)?.pop();
        let Some(last) = newest.map(|letter| letter.entry) else { return Ok(()) };
        let total = self.queue.snapshot().await.context("failed to count the dead letters")?.dead;
        if !args.yes && !self.confirmed(&args.filter, total)? {
            return Err(anyhow::anyhow!("cancelled: nothing was changed"));
        }
        let bar = output::progress(context.output, Some(total), "dead letters");
        let mut from = None;
        loop {
            let page = self.queue.dead_letters().page(from, PAGE).await.context(FAILED)?;
            let read = page.len() as u64;
            let end = page.last().map(|letter| letter.entry);
            let meant = |letter: &DeadLetter| letter.entry <= last && args.filter.admits(letter);
            self.sweep(page.into_iter().filter(meant).collect()).await?;
            bar.inc(read);
            from = end.map(|end| EntryId::new(end.ms, end.seq.saturating_add(1)));
            if read == 0 || end.is_none_or(|end| end >= last) {
                break;
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Asks for confirmation if stdin is a terminal. Otherwise the command line is confirmation enough.
    fn confirmed(&self, filter: &Filter, total: u64) -> anyhow::Result<bool> {
        if !std::io::stdin().is_terminal() {
            return Ok(true);
        }
        let action = match self.action {
            SweepAction::Replay => "Replay",
            SweepAction::StartOver => "Run all steps again, including those of the kind `once`, of",
            SweepAction::Drop => "Delete",
        };
        let which = if filter.is_empty() { format!("all {total}") } else { format!("some of {total}") };
        let mut stderr = std::io::stderr().lock();
        write!(stderr, "{action} {which} dead letters of the queue {}? [y/N] ", self.queue.name())?;
        stderr.flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    async fn sweep(&mut self, letters: Vec<DeadLetter>) -> anyhow::Result<()> {
        let (queue, action) = (self.queue.clone(), self.action);
        let actions = letters.iter().map(|letter| apply(&queue, action, letter));
        let mut actions = futures_util::stream::iter(actions).buffer_unordered(AT_ONCE);
        loop {
            let (replayed, dropped) = (self.swept.replayed, self.swept.dropped);
            let done = actions.try_next().await;
            match done.with_context(|| format!("after {} replayed or dropped", replayed + dropped))? {
                None => return Ok(()),
                Some(false) => self.swept.gone += 1,
                Some(true) if action != SweepAction::Drop => self.swept.replayed += 1,
                Some(true) => self.swept.dropped += 1,
            }
        }
    }
}

/// Returns true if the letter still existed.
async fn apply(queue: &Queue, action: SweepAction, letter: &DeadLetter) -> Result<bool, RedisError> {
    match action {
        SweepAction::Replay => {
            Ok(is_replayed(queue.dead_letters().replay(letter.entry, &letter.job()).await?, letter))
        }
        SweepAction::StartOver => {
            Ok(is_replayed(queue.dead_letters().replay_all_steps(letter.entry, &letter.job()).await?, letter))
        }
        SweepAction::Drop => queue.dead_letters().drop(letter.entry, &letter.job()).await,
    }
}

/// Returns true if this call replayed the letter. If somebody else replayed it meanwhile, reports where its job is.
fn is_replayed(replayed: Replayed, letter: &DeadLetter) -> bool {
    if let Replayed::Gone(state) = replayed {
        report_gone(&letter.job(), state);
    }
    replayed.is_done()
}

/// Reports that the letter does not exist, and what became of the job.
fn report_gone(id: &JobId, state: Option<State>) {
    let job =
        state.map_or_else(|| "no record of the job exists".to_owned(), |state| format!("the job is {state}"));
    output::print_stderr(&format!("{id} has no dead letter: {job}"));
}

fn show(swept: &Swept, action: SweepAction) -> String {
    let done = match action {
        SweepAction::Replay => format!("{} replayed", swept.replayed),
        SweepAction::StartOver => format!("{} replayed with all their steps", swept.replayed),
        SweepAction::Drop => format!("{} dropped", swept.dropped),
    };
    let gone = if swept.gone > 0 { format!(", {} gone or unknown", swept.gone) } else { String::new() };
    format!("{done}{gone}")
}
