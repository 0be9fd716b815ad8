//! `streamfleet history restore`: ended jobs come back as dead letters of one group.

use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_operations::Control;
use streamfleet_operations::history::{self, PastCount, Restore, RestorePlan, Restored};
use streamfleet_sql::Database;

use super::wanted::WantedArgs;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::output::{self, counted};
use crate::{Context, bulk, confirm, dead};

/// How `history restore` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet history restore --state dead --type mail.send --since 30d --reason 'the mail server is back'
  streamfleet history restore --state done --worker-version 1.4.2 --since 2d --limit 5000 --dry-run
  streamfleet history restore --state dead --since 30d --into 0b5ff10951f305e7 --yes";

/// The arguments of `history restore`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) restore: RestoreArgs,
    /// Show the plan, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Which jobs come back, and how.
#[derive(clap::Args)]
pub(super) struct RestoreArgs {
    /// The queue.
    #[arg(long, short, default_value = "default")]
    pub(super) queue: QueueName,
    #[command(flatten)]
    wanted: WantedArgs,
    /// The most jobs that are looked at, the latest end first.
    #[arg(long, value_name = "JOBS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// Start after this place, to go on where an earlier restore ended.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Add the dead letters to the group of an earlier restore. Default: a new group.
    #[arg(long, value_name = "GROUP")]
    pub(super) into: Option<String>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    pub(super) actor: ActorArgs,
}

/// Brings the jobs back, and says how they are replayed or dropped.
pub(super) async fn run(args: Args, database: &Database, context: &Context) -> anyhow::Result<Exit> {
    let Args { restore: args, dry_run } = args;
    if dry_run {
        let plan = args.plan(database, context).await?;
        context.output.print(&plan, |plan| shown(plan, context))?;
        return Ok(if plan.looked == 0 { Exit::NotFound } else { Exit::Done });
    }
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    let restored = args.run(&broker.queue(args.queue.clone()), database, context).await?;
    context.output.print_named(&restored, |restored| vec![restored.group.clone()], report)?;
    Ok(exit(&restored))
}

/// The exit code of a restore.
pub(super) fn exit(restored: &Restored) -> Exit {
    match (restored.interrupted, restored.looked) {
        (true, _) => Exit::Failed,
        (false, 0) => Exit::NotFound,
        (false, _) => Exit::Done,
    }
}

impl RestoreArgs {
    fn input(&self, context: &Context) -> Restore {
        Restore {
            wanted: self.wanted.wanted(context),
            after: self.after.clone(),
            limit: self.limit,
            group: self.into.clone(),
            limits: dead::limits(&self.queue, &context.effective),
        }
    }

    async fn plan(&self, database: &Database, context: &Context) -> anyhow::Result<RestorePlan> {
        let bar = output::progress(context.output, Some(self.limit), "jobs looked at");
        let control = Control { stop: &context.shutdown, progress: &|looked| bar.set_position(looked) };
        let plan = history::plan_restore(database, &self.queue, &self.input(context), control).await;
        bar.finish_and_clear();
        Ok(plan?)
    }

    /// Shows the plan and asks, unless that was confirmed, and brings the jobs back.
    ///
    /// # Errors
    ///
    /// An error if nobody agrees, or something ends it early. Then stderr says how to go on.
    pub(super) async fn run(
        &self,
        queue: &Queue,
        database: &Database,
        context: &Context,
    ) -> anyhow::Result<Restored> {
        confirm::must_be_possible(self.yes)?;
        self.input(context).check()?;
        if !self.yes {
            let plan = self.plan(database, context).await?;
            output::print_stderr(&shown(&plan, context));
            if plan.planned > 0 {
                self.confirm(plan.planned, context).await?;
            }
        }
        let group = self.into.clone().unwrap_or_else(history::new_group);
        output::print_stderr(&format!(
            "restoring to the group {group}; if this ends early, --into {group} goes on"
        ));
        let input = Restore { group: Some(group), ..self.input(context) };
        let bar = output::progress(context.output, Some(self.limit), "jobs looked at");
        let control = Control { stop: &context.shutdown, progress: &|looked| bar.set_position(looked) };
        let restored = history::restore(database, queue, &self.actor.actor(), input, control).await;
        bar.finish_and_clear();
        let mut restored = told(restored?);
        match restored.failure.take() {
            None => Ok(restored),
            Some(failure) => {
                if restored.filed > 0 {
                    output::print_stderr(&report(&restored));
                }
                Err(failure.into())
            }
        }
    }

    async fn confirm(&self, jobs: u64, context: &Context) -> anyhow::Result<()> {
        let jobs = counted(jobs, "job", "jobs");
        let question = format!("Bring back {jobs} of the queue {} as dead letters?", self.queue);
        confirm::proceed(&question, context).await
    }
}

/// Says what would come back.
fn shown(plan: &RestorePlan, context: &Context) -> String {
    if plan.looked == 0 {
        return "the history has no such job".to_owned();
    }
    let mut lines = vec![format!(
        "{} of {} can come back, unless Redis knows them",
        plan.planned,
        counted(plan.looked, "job", "jobs")
    )];
    if let (Some(first), Some(last)) = (plan.first_ms, plan.last_ms) {
        let [first, last] = [first, last].map(|ms| context.clock.time(ms));
        lines.push(format!("they ended from {first} to {last}"));
    }
    lines.extend(plan.kept.iter().map(|(why, jobs)| kept(why, *jobs)));
    if let Some(next) = &plan.next {
        lines.push(format!("more jobs match: raise --limit, or go on with --after {next}"));
    }
    let table = output::table_of(
        &plan.counts,
        &[
            ("TYPE".into(), &|count: &PastCount| count.job_type.clone()),
            ("STATE".into(), &|count: &PastCount| count.state.to_owned()),
            ("JOBS".into(), &|count: &PastCount| count.jobs.to_string()),
        ],
    );
    if !plan.counts.is_empty() {
        lines.push(table.to_string());
    }
    lines.join("\n")
}

/// Says what has come back, and what to do next.
pub(super) fn report(restored: &Restored) -> String {
    let Restored { queue, group, filed, next, interrupted, .. } = restored;
    if restored.looked + filed == 0 && !interrupted {
        return "the history has no such job".to_owned();
    }
    let mut lines = vec![format!("{} restored to the group {group}", counted(*filed, "job", "jobs"))];
    lines.extend(restored.kept.iter().map(|(why, jobs)| kept(why, *jobs)));
    lines.extend(restored.errors.iter().cloned());
    let after = next.as_ref().map_or_else(String::new, |next| format!(" --after {next}"));
    if *interrupted {
        lines.push(format!("interrupted; to go on: the same command with --into {group}{after}"));
    } else if next.is_some() {
        lines.push(format!("more jobs match; to go on: the same command with --into {group}{after}"));
    }
    if *filed > 0 {
        lines.push(format!(
            "to run them: streamfleet dead replay --queue {queue} --group {group} --canary 5\n\
             to look at them: streamfleet dead list --queue {queue} --group {group}\n\
             to give them up: streamfleet dead drop --queue {queue} --group {group}"
        ));
    }
    lines.join("\n")
}

/// Says how many jobs do not come back, and why.
fn kept(why: &str, jobs: u64) -> String {
    let why = match why {
        "no_payload" => "the history has no payload (`history.payloads` says which ones it keeps)",
        "masked" => "the history has the payload without its secrets",
        "too_large" => "the payload was too large for the history",
        "ended_later" => "the job has ended again since",
        "exists" => "Redis knows a job with this id",
        _ => "it was not a job, or cannot be read",
    };
    format!("{jobs} left alone: {why}")
}
