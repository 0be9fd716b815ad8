//! `steps decide`: a person's decision about a step that the fleet cannot decide about.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{JobId, QueueName, StepName, Verdict};
use streamfleet_engine::admin::{Action, DecideError, Decided};

use crate::actor::{self, ActorArgs};
use crate::exit::Exit;
use crate::output;
use crate::{Context, Wrong};

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
    /// The reason; it is kept with the state of the step and in the audit, together with your name.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// The step's result for later steps, as JSON; only with done. Without it, they get none. If you forgot it, decide again with
    /// it, as long as no step after this one runs or is done.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    /// Who decides. Default: the user of this machine, such as ann@ops-1.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
}

/// What a decision led to, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Decided)]
pub(crate) struct Report {
    id: String,
    queue: String,
    step: String,
    verdict: &'static str,
    /// `written`, `replayed` or `done`: what became of the job.
    job: &'static str,
}

/// Stores the decision.
pub(super) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let queue = context.broker().await?.queue(args.queue);
    let order =
        Order { id: &args.id, step: &args.step, verdict: args.verdict, result: args.result.as_deref() };
    let by = ActorArgs::of(args.name, args.reason).action("steps decide");
    let (report, decided) = match decide(&queue, order, &by, context).await? {
        Ok(done) => done,
        Err(DecideError::Redis(error)) => return Err(error).context("failed to write the decision"),
        Err(error @ (DecideError::NoLedger { .. } | DecideError::NoStep { .. })) => {
            output::print_stderr(&error.to_string());
            return Ok(Exit::NotFound);
        }
        Err(error @ DecideError::BadResult(_)) => return Err(Wrong(format!("--result: {error}")).into()),
        Err(error) => return Err(error.into()),
    };
    context.output.print_named(&report, |report| vec![report.id.clone()], |report| show(report, decided))?;
    Ok(Exit::Done)
}

/// A decision about one step.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// The job.
    pub(crate) id: &'a JobId,
    pub(crate) step: &'a StepName,
    pub(crate) verdict: Verdict,
    /// The step's result, as JSON.
    pub(crate) result: Option<&'a str>,
}

/// Stores a decision and its note, and returns what it led to. The inner error says why it was refused.
pub(crate) async fn decide(
    queue: &Queue,
    Order { id, step, verdict, result }: Order<'_>,
    by: &Action,
    context: &Context,
) -> anyhow::Result<Result<(Report, Decided), DecideError>> {
    let found = super::find(queue, id).await?;
    let id = found.map_or_else(|| id.clone(), |(id, _)| id);
    let retention = context.effective.config.fleet_config().worker.retention_of(queue.name());
    let decided = match queue.steps().decide(&id, (step, verdict), result, by, retention).await {
        Ok(decided) => actor::told(decided),
        Err(error) => return Ok(Err(error)),
    };
    let report = Report {
        id: id.to_string(),
        queue: queue.name().to_string(),
        step: step.to_string(),
        verdict: verdict.as_str(),
        job: match decided {
            Decided::Written => "written",
            Decided::Replayed(_) => "replayed",
            Decided::Done => "done",
        },
    };
    Ok(Ok((report, decided)))
}

fn show(report: &Report, decided: Decided) -> String {
    let Report { id, step, verdict, .. } = report;
    let then = match decided {
        Decided::Written => "the job stays where it is",
        Decided::Replayed(_) => "the job continues",
        Decided::Done => "all its steps are done, and so is the job",
    };
    format!("{step} of {id}: {verdict}; {then}")
}
