//! `steps decide`: a person's decision about a step that the fleet cannot decide about.

use streamfleet::job::{JobId, QueueName, StepName, Verdict};
use streamfleet_operations::steps::{self, Decision, StepDecided};

use crate::Context;
use crate::actor::{ActorArgs, told};
use crate::exit::Exit;

/// How `steps decide` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet steps decide order-7 charge done --reason \"the bank has it\" --result '{\"receipt\":17}'
  streamfleet steps decide order-7 charge run --queue gifts";

/// The arguments of `steps decide`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The job's id, or the entry id that XADD returned.
    id: JobId,
    /// The step.
    step: StepName,
    /// done: its work is done. run: run it again. give-up: it will not be done, and neither will the steps after it.
    #[arg(value_name = "done|run|give-up")]
    verdict: Verdict,
    /// The step's result for later steps, as JSON; only with done. Without it, they get none. If you forgot it, decide again with
    /// it, as long as no step after this one runs or is done.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    #[command(flatten)]
    actor: ActorArgs,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// Stores the decision.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let Args { id: job, step, verdict, result, actor, queue } = args;
    let queue = context.broker().await?.queue(queue);
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let input = Decision { job, step, verdict, result, retention };
    let decided = told(steps::decide(&queue, &actor.actor(), &input).await?);
    context.output.print_named(&decided, |decided| vec![decided.id.clone()], line)?;
    Ok(Exit::Done)
}

fn line(StepDecided { id, step, verdict, job, .. }: &StepDecided) -> String {
    let then = match *job {
        "written" => "the job stays where it is",
        "replayed" => "the job continues",
        _ => "all its steps are done, and so is the job",
    };
    format!("{step} of {id}: {verdict}; {then}")
}
