//! `streamfleet pause` and `streamfleet resume`: close the gate of a queue, a type or a field's value, and open it again.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::job::{GateName, InvalidName, JobType, QueueName};
use streamfleet_engine::admin::Action;

use super::actor::{ActorArgs, note};
use super::exit::Exit;
use super::output::harmless;
use super::times::{duration, short};
use super::{Context, Wrong, queues};

/// How `pause` is used.
const PAUSE_EXAMPLES: &str = "\
Examples:
  streamfleet pause --queue mail --reason 'the relay is down'
  streamfleet pause --queue mail --for 1h --by ann
  streamfleet pause --type report.generate
  streamfleet pause --key h.tenant=9";

/// How `resume` is used.
const RESUME_EXAMPLES: &str = "\
Examples:
  streamfleet resume --queue mail
  streamfleet resume --queue mail --type report.generate
  streamfleet resume --key h.tenant=9";

/// What is paused or resumed.
#[derive(clap::Args)]
struct Target {
    /// The queue. Default with --type or --key: `default`.
    #[arg(long, short)]
    queue: Option<QueueName>,
    /// Only the jobs of this type.
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "key")]
    job_type: Option<JobType>,
    /// Only the jobs with this value of a field or header; without a value, all jobs that have the field.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = key)]
    key: Option<GateName>,
}

/// The arguments of `pause`.
#[derive(clap::Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    target: Target,
    /// Resume by itself after this time, such as 1h. Default: somebody must resume.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Who pauses, for those who look at it. Default: the user of this machine, such as ann@ops-1.
    #[arg(long)]
    by: Option<String>,
    /// Why, for those who look at it.
    #[arg(long, default_value = "")]
    reason: String,
}

/// The arguments of `resume`.
#[derive(clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    actor: ActorArgs,
}

/// What became of it, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Paused)]
pub(crate) struct Changed {
    queue: String,
    gate: String,
    /// `paused` or `resumed`.
    done: &'static str,
    /// False if it was already so.
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_ms: Option<u64>,
}

/// Reads the gate of a field, or of one of its values.
pub(crate) fn key(text: &str) -> Result<GateName, String> {
    format!("key:{text}").parse().map_err(|error: InvalidName| {
        format!(
            "{error}; expected a field and a value of at most 128 bytes, such as h.tenant=9 or limit_key=a"
        )
    })
}

impl Target {
    /// Returns the queue and the gate. An empty target is not the whole default queue.
    fn gate(self) -> Result<(QueueName, GateName), Wrong> {
        let Self { queue, job_type, key } = self;
        let gate = key.or_else(|| job_type.as_ref().map(GateName::of_type));
        let gate = match (gate, &queue) {
            (Some(gate), _) => gate,
            (None, Some(_)) => GateName::queue(),
            (None, None) => {
                let what = "nothing was named: give --queue for a whole queue, or --type or --key for some of its jobs";
                return Err(Wrong(what.to_owned()));
            }
        };
        let default =
            || "default".parse().map_err(|_| Wrong("`default` is not a valid queue name".to_owned()));
        Ok((queue.map_or_else(default, Ok)?, gate))
    }
}

/// Pauses.
pub(crate) async fn pause(args: PauseArgs, context: &Context) -> anyhow::Result<Exit> {
    let PauseArgs { target, time, by, reason } = args;
    let (queue, gate) = target.gate()?;
    let broker = context.broker().await?;
    let queue = broker.queue(queue);
    queues::report_before_change(&broker, &queue, context).await;
    print(&close(&queue, &gate, &ActorArgs::of(by, reason).action("pause"), time).await?, context)
}

/// Pauses what has passed this gate so far, and notes it in the audit.
pub(crate) async fn close(
    queue: &Queue,
    gate: &GateName,
    action: &Action,
    time: Option<Duration>,
) -> anyhow::Result<Changed> {
    let closed = queue.gates().close(gate, &action.who, &action.why, time).await;
    closed.with_context(|| format!("{gate} was not paused"))?;
    note(queue, &action.clone().target(gate.to_string())).await;
    let for_ms = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let (queue, gate) = (queue.name().to_string(), gate.to_string());
    Ok(Changed { queue, gate, done: "paused", changed: true, for_ms })
}

/// Resumes.
pub(crate) async fn resume(args: ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    let (queue, gate) = args.target.gate()?;
    let broker = context.broker().await?;
    let queue = broker.queue(queue);
    queues::report_before_change(&broker, &queue, context).await;
    print(&open(&queue, &gate, &args.actor.action("resume")).await?, context)
}

/// Resumes what this gate has paused, and notes it in the audit.
pub(crate) async fn open(queue: &Queue, gate: &GateName, action: &Action) -> anyhow::Result<Changed> {
    let changed = queue.gates().open(gate).await.with_context(|| format!("{gate} was not resumed"))?;
    if changed {
        note(queue, &action.clone().target(gate.to_string())).await;
    }
    let (queue, gate) = (queue.name().to_string(), gate.to_string());
    Ok(Changed { queue, gate, done: "resumed", changed, for_ms: None })
}

fn print(changed: &Changed, context: &Context) -> anyhow::Result<Exit> {
    context.output.print_named(changed, |changed| vec![changed.gate.clone()], line)?;
    Ok(Exit::Done)
}

fn line(Changed { queue, gate, done, changed, for_ms }: &Changed) -> String {
    let what = if gate == "queue" {
        format!("the queue {queue}")
    } else {
        format!("{} of the queue {queue}", harmless(gate))
    };
    let time = for_ms.map(|ms| format!(" for {}", short(Duration::from_millis(ms)))).unwrap_or_default();
    match (*done, changed) {
        ("paused", _) => format!("{what} is paused{time}: no further job starts, and running ones finish"),
        (_, true) => format!("{what} is resumed"),
        (_, false) => format!("{what} was not paused"),
    }
}
