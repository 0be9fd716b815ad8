//! `streamfleet pause` and `streamfleet resume`: close the gate of a queue, a type or a field's value, and open it again.

use std::time::Duration;

use streamfleet::job::{GateName, JobType, QueueName};
use streamfleet_operations::Error;
use streamfleet_operations::gates::{self, Pause, Paused, value_gate};

use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::output::harmless;
use super::times::{duration, short};
use super::{Context, Wrong, confirm, queues};

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
    #[arg(long, value_name = "FIELD=VALUE", value_parser = value_gate)]
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
    /// Do not ask before a queue that does not exist or a type that no live worker knows is paused, or the pause of another person is
    /// replaced.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    actor: ActorArgs,
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
    let PauseArgs { target, time, yes, actor } = args;
    let (queue, gate) = target.gate()?;
    let broker = context.broker().await?;
    let queue = broker.queue(queue);
    queues::check_before_change(&broker, &queue, !yes, context).await?;
    let (actor, mut input) = (actor.actor(), Pause { gate, time, is_sure: yes });
    let paused = match gates::pause(&queue, &actor, &input).await {
        Err(Error::Doubtful(doubt)) => {
            confirm::doubt(&doubt)?;
            input.is_sure = true;
            gates::pause(&queue, &actor, &input).await
        }
        paused => paused,
    };
    print(&told(paused?), context)
}

/// Resumes.
pub(crate) async fn resume(args: ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    let (queue, gate) = args.target.gate()?;
    let broker = context.broker().await?;
    let queue = broker.queue(queue);
    queues::check_before_change(&broker, &queue, false, context).await?;
    print(&told(gates::resume(&queue, &args.actor.actor(), &gate).await?), context)
}

fn print(paused: &Paused, context: &Context) -> anyhow::Result<Exit> {
    context.output.print_named(paused, |paused| vec![paused.gate.clone()], line)?;
    Ok(Exit::Done)
}

fn line(Paused { queue, gate, done, changed, for_ms, .. }: &Paused) -> String {
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
