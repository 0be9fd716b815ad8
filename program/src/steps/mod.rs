//! `streamfleet steps`: the steps of one job, and what a person decides about them.

mod decide;

use streamfleet::job::{JobId, QueueName};
use streamfleet_operations::steps::{JobStep, JobSteps, list};

use super::exit::Exit;
use super::output::{self, Column, View, harmless};
use super::times::Clock;
use super::{Context, Wrong};

/// How `steps` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet steps order-7
  streamfleet steps decide order-7 charge done --reason \"receipt 17 of the bank\"";

/// The arguments of `steps`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The job's id, or the entry id that XADD returned.
    #[arg(required = true)]
    id: Option<JobId>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// What to do with steps, except show them.
#[derive(clap::Subcommand)]
enum Action {
    /// Decide about a step that failed, or that may or may not have done its work.
    Decide(decide::Args),
}

/// Shows the steps, or decides about one.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match (args.action, args.id) {
        (Some(Action::Decide(decide)), _) => decide::run(decide, context).await,
        (None, Some(id)) => show_steps(&id, args.queue, context).await,
        (None, None) => Err(Wrong("the job id is missing: streamfleet steps ID".to_owned()).into()),
    }
}

async fn show_steps(id: &JobId, queue: QueueName, context: &Context) -> anyhow::Result<Exit> {
    let report = list(&context.broker().await?.queue(queue), id).await?;
    let names = |report: &JobSteps| report.steps.iter().map(|line| line.step.clone()).collect();
    context.output.print_named(&report, names, |report| show(report, &context.clock))?;
    Ok(Exit::Done)
}

fn show(report: &JobSteps, clock: &Clock) -> View {
    let state = |line: &JobStep| {
        let decided = line.decision.as_ref().map(|decision| {
            let why = if decision.reason.is_empty() { "" } else { ": " };
            let (by, reason) = (harmless(&decision.by), harmless(&decision.reason));
            format!(" ({} by {by}{why}{reason})", decision.verdict)
        });
        format!("{}{}", line.state, decided.unwrap_or_default())
    };
    let when = |line: &JobStep| line.since_ms.map(|since| clock.with_age(since, report.now));
    let table = output::table_of(
        &report.steps,
        &[
            (Column::from("step"), &|line| line.step.clone()),
            (Column::from("kind"), &|line| line.kind.to_owned()),
            (Column::wide("after"), &|line| line.after.join(", ")),
            (Column::state("state"), &state),
            (Column::wide("attempts"), &|line| line.attempts.to_string()),
            (Column::wide("beside"), &|line| line.beside.join(", ")),
            (Column::from("when"), &|line| when(line).unwrap_or_default()),
            (Column::from("last error"), &|line| harmless(line.errors.last().map_or("", |last| &last.error))),
        ],
    );
    let hint = report
        .undecided
        .first()
        .map(|step| format!("decide with: streamfleet steps decide {} {step} done|run|give-up", report.id));
    View::from(table).then(hint)
}
