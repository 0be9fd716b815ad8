//! What `dead replay` and `dead drop` do: for the named letters, or for those that a filter matches and that exist now. One script
//! handles each letter, so two concurrent sweeps never replay a letter twice. A letter that Redis refuses stays, and stops
//! nothing.

use std::cell::Cell;

use anyhow::Context as _;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use streamfleet::job::{EntryId, JobId, QueueName, State};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{DeadLetter, Filter, Replayed, Selection};

use super::{Letters, plan};
use crate::actor::{self, ActorArgs};
use crate::exit::Exit;
use crate::output;
use crate::{Context, Wrong, confirm};

/// How many scripts are in flight at once.
const AT_ONCE: usize = 32;

/// The most refused letters that are named.
const MAX_ERRORS: usize = 5;

/// If a page has at least this many letters, and Redis refuses all of them, the sweep ends.
const HOPELESS: usize = 20;

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

impl SweepAction {
    /// The command, for the audit.
    fn command(self) -> &'static str {
        match self {
            Self::Replay => "dead replay",
            Self::StartOver => "dead replay --steps all",
            Self::Drop => "dead drop",
        }
    }

    /// The question that is asked beforehand.
    fn question(self) -> &'static str {
        match self {
            Self::Replay => "Replay",
            Self::StartOver => "Run all steps again, including those of the kind `once`, of",
            Self::Drop => "Delete",
        }
    }
}

/// What became of the letters, for JSON output.
#[derive(Serialize, utoipa::ToSchema, Default)]
#[schema(as = Swept)]
pub(crate) struct Swept {
    queue: String,
    replayed: u64,
    dropped: u64,
    /// Letters that somebody else replayed or dropped meanwhile, and ids without a letter.
    gone: u64,
    /// Letters that were left alone because the filter cannot judge them: their payload is too large or unreadable.
    undecided: u64,
    /// Letters that Redis refused to replay or drop.
    failed: u64,
    /// Some of the errors with which it did.
    errors: Vec<String>,
}

impl Swept {
    /// One letter was replayed.
    pub(crate) fn replayed(queue: &Queue) -> Self {
        Self { queue: queue.name().to_string(), replayed: 1, ..Self::default() }
    }

    /// One letter was dropped.
    pub(crate) fn dropped(queue: &Queue) -> Self {
        Self { queue: queue.name().to_string(), dropped: 1, ..Self::default() }
    }

    /// One letter was refused.
    fn fail(&mut self, error: &anyhow::Error) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            let why = format!("{error:#}");
            output::print_stderr(&why);
            self.errors.push(why);
        }
    }

    /// How many letters were replayed or dropped.
    fn done(&self) -> u64 {
        self.replayed + self.dropped
    }

    /// How many letters were still there, and count for a limit.
    fn tried(&self) -> u64 {
        self.done() + self.failed
    }
}

/// Replays or drops.
pub(super) async fn run(
    args: Args,
    action: SweepAction,
    queue: QueueName,
    context: &Context,
) -> anyhow::Result<Exit> {
    let filter = args.letters.filter(&context.clock)?;
    args.check(&filter, action)?;
    if action == SweepAction::StartOver {
        output::print_stderr(
            "the states of all steps are discarded: steps of the kind `once` that are done run again",
        );
    }
    let mut sweep = Sweep::new(context.broker().await?.queue(queue), action);
    if args.ids.is_empty() {
        sweep.selected(&args, filter, context).await?;
    } else {
        sweep.named(&args).await?;
    }
    context.output.print(&sweep.swept, |swept| show(swept, action))?;
    let Swept { gone, failed, .. } = sweep.swept;
    Ok(match (failed, sweep.swept.done() + gone) {
        (0, _) if gone > 0 && !args.ids.is_empty() => Exit::NotFound,
        (0, _) => Exit::Done,
        (_, 0) => Exit::Redis,
        (_, _) => Exit::Failed,
    })
}

impl Args {
    /// Returns how many letters are replayed or dropped at most.
    fn most(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }

    /// Refuses what nobody can have meant.
    pub(super) fn check(&self, filter: &Filter, action: SweepAction) -> Result<(), Wrong> {
        if !self.ids.is_empty() {
            if !filter.is_empty() {
                let why = "a filter selects dead letters by itself: it does not work with ids";
                return Err(Wrong(why.to_owned()));
            }
            // A person who names a letter means it, but may not know which of its steps are done.
            if action != SweepAction::StartOver {
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
        Err(Wrong(match action {
            SweepAction::Replay => return confirm::must_be_possible(self.yes),
            SweepAction::StartOver => {
                "--steps all also repeats steps of the kind `once`: add --yes if stdin is not a terminal"
                    .to_owned()
            }
            SweepAction::Drop => {
                "dropping dead letters deletes jobs for good: add --yes if stdin is not a terminal".to_owned()
            }
        }))
    }
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

    async fn named(&mut self, args: &Args) -> anyhow::Result<()> {
        if self.action == SweepAction::StartOver && !args.yes {
            self.confirm(args.ids.len() as u64)?;
        }
        let action = args.actor.action(self.action.command()).ids(&args.ids);
        actor::note(&self.queue, &action).await;
        for id in &args.ids {
            match super::find(&self.queue, id).await {
                Ok(Some(letter)) => self.sweep(vec![letter]).await?,
                Ok(None) => {
                    if self.action == SweepAction::Drop && self.is_taken_back(id).await? {
                        self.swept.dropped += 1;
                    } else {
                        self.swept.gone += 1;
                        self.report_missing(id).await?;
                    }
                }
                Err(error) if error.downcast_ref().is_some_and(is_of_one) => {
                    self.swept.fail(&error.context(id.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        let Swept { gone, failed, .. } = self.swept;
        if gone + failed > 0 {
            let done = self.swept.done();
            let outcome = format!("{done} replayed or dropped, {gone} gone or unknown, {failed} failed");
            actor::note(&self.queue, &action.count(done).outcome(outcome)).await;
        }
        Ok(())
    }

    /// Sweeps the letters that exist now and that the filter matches. The newest is noted at the start, because a replayed
    /// job may die again and come back as a new letter after it.
    async fn selected(&mut self, args: &Args, filter: Filter, context: &Context) -> anyhow::Result<()> {
        let dead = self.queue.dead_letters();
        let selection = dead.select(filter).await.context("failed to read the dead letters")?;
        let mut target =
            if selection.filter.is_empty() { "--all".to_owned() } else { selection.filter.to_string() };
        if let Some(limit) = args.limit {
            target.push_str(&format!(" --limit {limit}"));
        }
        let mut action = args.actor.action(self.action.command()).target(target);
        if !args.yes {
            let planned = plan::show(&self.queue, &selection, context).await?.min(args.most());
            if planned == 0 {
                return Ok(());
            }
            self.confirm(planned)?;
            action = action.count(planned);
        }
        actor::note(&self.queue, &action).await;
        let done = self.pages(&selection, args.most(), context).await;
        let outcome = if done.is_ok() { "done" } else { "ended early" };
        actor::note(&self.queue, &action.count(self.swept.done()).outcome(outcome)).await;
        done
    }

    /// Asks a person about this many letters.
    fn confirm(&self, letters: u64) -> anyhow::Result<()> {
        if plan::confirmed(self.action.question(), letters, &self.queue)? {
            return Ok(());
        }
        Err(anyhow::anyhow!("cancelled: nothing was changed"))
    }

    async fn pages(&mut self, selection: &Selection, most: u64, context: &Context) -> anyhow::Result<()> {
        let bar = output::progress(context.output, Some(selection.total), "dead letters");
        let mut after: Option<EntryId> = None;
        loop {
            let page = self.queue.dead_letters().bare().selected(selection, after).await;
            let page = page.context("failed to read the dead letters")?;
            self.swept.undecided += page.undecided;
            let (mut letters, left) = (page.letters, most.saturating_sub(self.swept.tried()));
            letters.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.sweep(letters).await?;
            bar.inc(page.read);
            after = page.next.filter(|_| self.swept.tried() < most);
            if after.is_none() {
                bar.finish_and_clear();
                return Ok(());
            }
        }
    }

    async fn sweep(&mut self, letters: Vec<DeadLetter>) -> anyhow::Result<()> {
        let (queue, action, is_ending) = (self.queue.clone(), self.action, Cell::new(false));
        let actions = letters.iter().take_while(|_| !is_ending.get()).map(|letter| {
            let done = apply(&queue, action, letter);
            async move { (letter, done.await) }
        });
        let mut actions = stream::iter(actions).buffer_unordered(AT_ONCE);
        let (mut refused, mut failure) = (0, None);
        // Also after an error: what is under way may be done, and must be counted.
        while let Some((letter, done)) = actions.next().await {
            match done {
                Ok(false) => self.swept.gone += 1,
                Ok(true) if action != SweepAction::Drop => self.swept.replayed += 1,
                Ok(true) => self.swept.dropped += 1,
                Err(error) => {
                    let goes_on = is_of_one(&error);
                    let named = format!("the dead letter {} of the job {}", letter.entry, letter.job());
                    let error = anyhow::Error::from(error).context(named);
                    if goes_on {
                        self.swept.fail(&error);
                        refused += 1;
                    }
                    // Nothing suggests that the letters of further pages will fare better.
                    let is_hopeless = refused == letters.len() && refused >= HOPELESS;
                    if !goes_on || is_hopeless {
                        is_ending.set(true);
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        let Some(error) = failure else { return Ok(()) };
        Err(error.context(format!("after {} replayed or dropped", self.swept.done())))
    }

    /// Takes back what the letter of a job held that somebody deleted by hand. Returns false if there was no such letter.
    async fn is_taken_back(&self, id: &JobId) -> anyhow::Result<bool> {
        let status = self.queue.status(id).await.context("failed to look up the job")?;
        let Some(letter) = status.and_then(|status| status.dead) else { return Ok(false) };
        self.queue.dead_letters().forget(letter, id).await.context("failed to take back what the letter held")
    }

    /// Reports what became of a letter or a job that has no letter.
    async fn report_missing(&self, id: &JobId) -> anyhow::Result<()> {
        if let Ok(entry) = id.to_string().parse::<EntryId>()
            && let Some(edited) =
                self.queue.dead_letters().edited(entry).await.context("failed to look it up")?
        {
            super::report_edited(&self.queue, id, edited).await.context("failed to look it up")?;
            return Ok(());
        }
        let status = self.queue.status(id).await.context("failed to look up the job")?;
        report_gone(id, status.map(|status| status.state));
        Ok(())
    }
}

/// Returns true if the letter still existed.
async fn apply(queue: &Queue, action: SweepAction, letter: &DeadLetter) -> Result<bool, RedisError> {
    match action {
        SweepAction::Replay => {
            is_replayed(queue, queue.dead_letters().replay(letter.entry, &letter.job()).await?, letter).await
        }
        SweepAction::StartOver => {
            let replayed = queue.dead_letters().replay_all_steps(letter.entry, &letter.job()).await?;
            is_replayed(queue, replayed, letter).await
        }
        SweepAction::Drop => queue.dead_letters().drop(letter.entry, &letter.job()).await,
    }
}

/// Returns true if Redis may refuse this letter alone, for example because the record of its job has another type.
fn is_of_one(error: &RedisError) -> bool {
    matches!(error, RedisError::Refused { .. }) && !error.is_transient()
}

/// Returns true if this call replayed the letter. If somebody else replayed or edited it meanwhile, reports that.
async fn is_replayed(queue: &Queue, replayed: Replayed, letter: &DeadLetter) -> Result<bool, RedisError> {
    match replayed {
        Replayed::As(_) => {}
        Replayed::Edited(edited) => super::report_edited(queue, &letter.job(), edited).await?,
        Replayed::Gone(state) => report_gone(&letter.job(), state),
    }
    Ok(replayed.is_done())
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
    let undecided = match swept.undecided {
        0 => String::new(),
        count => format!(", {count} left alone because the filter cannot read their payloads"),
    };
    let failed = if swept.failed > 0 { format!(", {} failed", swept.failed) } else { String::new() };
    format!("{done}{gone}{undecided}{failed}")
}
