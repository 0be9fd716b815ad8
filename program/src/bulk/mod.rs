//! Commands about many jobs at once: `cancel`, `run-now` and `move` with a filter. Each shows a plan, asks, notes in the audit
//! what it is about to do, and does it page by page, so that a signal stops it between two pages.

mod hasten;
mod relocate;
mod report;

use anyhow::Context as _;
use indicatif::ProgressBar;
use streamfleet::job::{QueueName, State};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::{
    Action, BulkAction, BulkCursor, BulkError, BulkPlan, BulkSelection, BulkTally, BulkTerms, Filter,
};
use streamfleet_service::config::Effective;

pub(crate) use self::hasten::Args as RunNowArgs;
pub(crate) use self::hasten::run as run_now;
pub(crate) use self::relocate::Args as MoveArgs;
pub(crate) use self::relocate::run as move_jobs;
pub(crate) use self::report::Report;
use super::actor::{self, ActorArgs};
use super::exit::Exit;
use super::filter::FilterArgs;
use super::times::Clock;
use super::{Context, Wrong, confirm, jobs, output, queues};

/// The arguments of commands about many jobs.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct BulkArgs {
    /// Select all jobs that are in the queue now. Jobs that are submitted meanwhile are left alone.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only jobs in these states, such as waiting,scheduled. Default: all states that this command works on.
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = jobs::state)]
    pub(crate) state: Vec<State>,
    /// Show the plan, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Why it is done, for the audit.
    #[arg(long, value_name = "TEXT", visible_alias = "why")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// What a command is about to do.
pub(crate) struct Order<'a> {
    pub(crate) action: BulkAction,
    /// The name of the command, for the audit.
    pub(crate) command: &'static str,
    pub(crate) args: &'a BulkArgs,
    /// Who gives the command, if that was said.
    pub(crate) name: Option<String>,
}

impl BulkArgs {
    /// Returns true if no job is selected in this way.
    pub(crate) fn selects_nothing(&self) -> bool {
        let has_filter = !self.filter.filter(&Clock::utc()).is_ok_and(|filter| filter.is_empty());
        !self.all && !self.dry_run && self.state.is_empty() && !has_filter
    }

    /// Refuses what nobody can have meant.
    pub(crate) fn check(&self, filter: &Filter, action: &BulkAction) -> Result<(), Wrong> {
        if filter.is_empty() && !self.all {
            return Err(Wrong("select jobs by a filter, or add --all for all jobs of the queue".to_owned()));
        }
        let possible = action.states();
        if let Some(state) = self.state.iter().find(|state| !possible.contains(state)) {
            let names: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
            return Err(Wrong(format!("--state cannot be {state} here, only {}", names.join(", "))));
        }
        confirm::must_be_possible(self.yes || self.dry_run)
    }
}

/// Carries out an order.
pub(crate) async fn run(
    order: Order<'_>,
    broker: &Broker,
    queue: &Queue,
    context: &Context,
) -> anyhow::Result<Exit> {
    let filter = order.args.filter.filter(&context.clock)?;
    order.args.check(&filter, &order.action)?;
    let bulk = queue.bulk();
    bulk.check(&order.action).map_err(refused)?;
    let states = Some(&order.args.state[..]).filter(|states| !states.is_empty());
    let selected = bulk.select(order.action.clone(), filter, states).await;
    let selection = selected.context("failed to read the clock of Redis")?;
    let Some(plan) = planned(queue, &selection, context).await? else {
        output::print_stderr("interrupted: nothing was changed");
        return Ok(Exit::Failed);
    };
    let mut report = Report::new(queue, &selection, &plan, order.args.dry_run);
    if plan.jobs == 0 && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Exit::NotFound);
    }
    if let BulkAction::Move(to) = &order.action {
        report.note_target(queue, &broker.queue(to.clone()), max_depth(&context.effective, to)).await;
    }
    if order.args.dry_run || plan.jobs == 0 {
        context.output.print(&report, report::plan)?;
        return Ok(Exit::Done);
    }
    if !order.args.yes {
        output::print_stderr(&report::plan(&report));
        let answer = confirm::answer_unless_stopped("Proceed? [y/N] ".to_owned(), context).await?;
        if !answer.as_deref().is_some_and(confirm::is_yes) {
            return Err(anyhow::anyhow!("cancelled: nothing was changed"));
        }
    }
    carry_out(&order, &selection, queue, context, &mut report).await?;
    context.output.print(&report, report::outcome)?;
    Ok(if report.is_complete() { Exit::Done } else { Exit::Failed })
}

/// Makes the plan; `None` if the shutdown was requested before it was complete.
pub(crate) async fn planned(
    queue: &Queue,
    selection: &BulkSelection,
    context: &Context,
) -> anyhow::Result<Option<BulkPlan>> {
    let bar = output::progress(context.output, None, "jobs looked at");
    let plan = tokio::select! {
        biased;
        () = context.shutdown.requested() => None,
        plan = queue.bulk().plan(selection, |read| bar.set_position(read)) => Some(plan),
    };
    bar.finish_and_clear();
    plan.transpose().context("failed to read the jobs")
}

/// Does it, and notes it in the audit: once before, and once with the outcome.
pub(crate) async fn carry_out(
    order: &Order<'_>,
    selection: &BulkSelection,
    queue: &Queue,
    context: &Context,
    report: &mut Report,
) -> anyhow::Result<()> {
    let action = noted(order, selection).count(report.planned);
    actor::note(queue, &action).await;
    let bar = output::progress(context.output, Some(report.planned), "jobs");
    let walked = walk(selection, &action.who, queue, (context, &bar)).await;
    bar.finish_and_clear();
    let count = walked.tally.changed + walked.tally.requested;
    actor::note(queue, &action.count(count).outcome(walked.outcome())).await;
    report.take(walked.tally, walked.is_interrupted);
    walked.result
}

/// How far a command came.
pub(crate) struct Walked {
    pub(crate) tally: BulkTally,
    pub(crate) is_interrupted: bool,
    pub(crate) result: anyhow::Result<()>,
}

impl Walked {
    /// How it ended, for the audit.
    pub(crate) fn outcome(&self) -> &'static str {
        match (&self.result, self.is_interrupted) {
            (Err(_), _) => "ended early",
            (Ok(()), true) => "interrupted",
            (Ok(()), false) => "done",
        }
    }
}

/// Does it page by page, until a signal comes.
pub(crate) async fn walk(
    selection: &BulkSelection,
    by: &str,
    queue: &Queue,
    (context, bar): (&Context, &ProgressBar),
) -> Walked {
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let max_depth = match &selection.action {
        BulkAction::Move(to) => max_depth(&context.effective, to),
        BulkAction::Cancel | BulkAction::RunNow | BulkAction::Drop | BulkAction::Purge => None,
    };
    let terms = BulkTerms::new(by).retention(retention).max_depth(max_depth);
    let (mut tally, mut next, mut result) = (BulkTally::default(), Some(BulkCursor::default()), Ok(()));
    while let Some(from) = next.filter(|_| !context.shutdown.is_requested()) {
        match queue.bulk().advance(selection, &terms, from).await {
            Ok(page) => {
                tally.add(page.tally);
                bar.set_position(tally.changed + tally.requested + tally.gone);
                next = page.next;
            }
            Err(error) => {
                let done = tally.changed + tally.requested;
                result = Err(refused(error).context(format!("stopped after {done} jobs")));
                break;
            }
        }
    }
    Walked { tally, is_interrupted: result.is_ok() && next.is_some(), result }
}

/// The most jobs that a queue accepts by the configuration.
pub(crate) fn max_depth(effective: &Effective, queue: &QueueName) -> Option<u64> {
    effective.config.queues.get(queue).and_then(|queue| queue.served.max_depth)
}

/// Describes the order for the audit.
fn noted(order: &Order<'_>, selection: &BulkSelection) -> Action {
    let mut target = match selection.filter.to_string() {
        filter if filter.is_empty() => "--all".to_owned(),
        filter => filter,
    };
    if !order.args.state.is_empty() {
        let states: Vec<&str> = selection.states.iter().map(|state| state.as_str()).collect();
        target = format!("--state {} {target}", states.join(","));
    }
    if let BulkAction::Move(to) = &order.action {
        target = format!("--to {to} {target}");
    }
    let why = order.args.reason.clone().unwrap_or_default();
    ActorArgs::of(order.name.clone(), why).action(order.command).target(target)
}

/// Names the error of Redis, if it is one, for the exit code.
pub(crate) fn refused(error: BulkError) -> anyhow::Error {
    if let BulkError::Redis(error) = error {
        return anyhow::Error::from(error).context("failed to change the jobs");
    }
    if matches!(error, BulkError::SameQueue(_)) { Wrong(error.to_string()).into() } else { error.into() }
}
