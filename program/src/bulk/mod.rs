//! Commands about many jobs at once: `cancel`, `run-now` and `move` with a filter. Each shows a plan, asks, begins a task, and carries
//! it on.

mod move_jobs;
mod report;
mod run_now;

use streamfleet::job::{JobId, QueueName, State};
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::jobs::bulk::{self, Bulk, Change};
use streamfleet_operations::{Control, Error};
use streamfleet_service::config::Effective;

pub(crate) use self::move_jobs::Args as MoveArgs;
pub(crate) use self::move_jobs::run as move_jobs;
pub(crate) use self::run_now::Args as RunNowArgs;
pub(crate) use self::run_now::one as run_one_now;
pub(crate) use self::run_now::run as run_now;
use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::filter::FilterArgs;
use super::tasks::{self, TaskArgs};
use super::times::Clock;
use super::{Context, Wrong, cancel, confirm, jobs, output, queues};

/// The arguments of commands about many jobs.
#[derive(clap::Args)]
pub(crate) struct BulkArgs {
    /// Select all jobs that are in the queue now. Jobs that are submitted meanwhile are left alone.
    #[arg(long)]
    all: bool,
    /// Only jobs in these states, such as waiting,scheduled. Default: all states that this command works on.
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = jobs::state)]
    state: Vec<State>,
    /// Show the plan, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    filter: FilterArgs,
}

impl BulkArgs {
    /// Refuses anything that selects jobs beside an id.
    pub(crate) fn check_id_alone(&self) -> Result<(), Wrong> {
        let has_filter = !self.filter.filter(&Clock::utc()).is_ok_and(|filter| filter.is_empty());
        if self.all || self.dry_run || !self.state.is_empty() || has_filter || self.task.are_given() {
            let why = "an id works only without a filter, --all, --dry-run, --rate and --detach";
            return Err(Wrong(why.to_owned()));
        }
        Ok(())
    }
}

/// Does it; `None` if a signal came first.
pub(crate) async fn unless_stopped<T>(
    context: &Context,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<Option<T>> {
    tokio::select! {
        biased;
        () = context.shutdown.requested() => Ok(None),
        done = work => done.map(Some),
    }
}

/// Connects to Redis; `None` if a signal came first.
pub(crate) async fn connect(context: &Context) -> anyhow::Result<Option<Broker>> {
    unless_stopped(context, context.broker()).await
}

/// A change of the jobs that a filter matches, within the bounds of the configuration.
pub(crate) fn bounded(change: Change, filter: Filter, queue: &QueueName, effective: &Effective) -> Bulk {
    let to =
        if let Change::Move { to, .. } = &change { effective.config.queues.get(to.name()) } else { None };
    Bulk {
        max_depth: to.and_then(|to| to.served.max_depth),
        retention: cancel::retention(queue, effective),
        change,
        filter,
        all: false,
        states: Vec::new(),
        rate: None,
    }
}

/// Changes one job, or all that the filter matches.
pub(crate) async fn one_or_many(
    change: Change,
    (id, queue, args): (Option<JobId>, QueueName, &BulkArgs),
    one: impl AsyncFnOnce(&Queue, &JobId) -> anyhow::Result<Exit>,
    context: &Context,
) -> anyhow::Result<Exit> {
    let Some(broker) = connect(context).await? else { return Ok(Exit::Failed) };
    let queue = broker.queue(queue);
    let Some(id) = id else { return run(change, args, (&broker, &queue), context).await };
    args.check_id_alone()?;
    Ok(unless_stopped(context, one(&queue, &id)).await?.unwrap_or(Exit::Failed))
}

/// Shows the plan, asks, and begins the task.
async fn run(
    change: Change,
    args: &BulkArgs,
    (broker, queue): (&Broker, &Queue),
    context: &Context,
) -> anyhow::Result<Exit> {
    let filter = args.filter.filter(&context.clock)?;
    let input = Bulk {
        all: args.all,
        states: args.state.clone(),
        rate: args.task.rate,
        ..bounded(change, filter, queue.name(), &context.effective)
    };
    confirm::must_be_possible(args.yes || args.dry_run)?;
    let bar = output::progress(context.output, None, "jobs looked at");
    let progress = |read: u64| bar.set_position(read);
    let control = Control { stop: &context.shutdown, progress: &progress };
    let planned = bulk::plan(queue, &input, control).await;
    bar.finish_and_clear();
    let mut planned = planned?;
    planned.report.dry_run = args.dry_run;
    if planned.report.planned == 0 && queues::report_unknown(broker, queue.name(), context).await {
        return Ok(Exit::NotFound);
    }
    if args.dry_run || planned.report.planned == 0 {
        context.output.print(&planned.report, |planned| report::plan(planned, &input.change))?;
        return Ok(Exit::Done);
    }
    if !args.yes {
        output::print_stderr(&report::plan(&planned.report, &input.change));
        confirm::proceed("Proceed?", context).await?;
    }
    let begun = match bulk::begin(queue, &args.actor.actor(), &input, &planned).await {
        Err(Error::Doubtful(doubt)) => {
            return Err(Wrong(format!("{doubt}: add --unserved if that is meant")).into());
        }
        begun => told(begun?),
    };
    if args.task.wait.detach {
        return tasks::print(&begun, context);
    }
    let ended = tasks::wait(queue, &begun, context).await?;
    planned.report.take(&ended);
    context.output.print(&planned.report, |report| report::outcome(report, &input.change))?;
    Ok(tasks::exit(&ended))
}
