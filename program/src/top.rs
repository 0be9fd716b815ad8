//! `streamfleet top`: the queues and the jobs that run longest, shown again and again.

use std::time::Duration;

use streamfleet::job::QueueName;

use super::exit::Exit;
use super::output::{Listing, Repeat};
use super::{Context, Wrong, jobs, queues};

/// How `top` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet top
  streamfleet top mail report --every 5s --limit 20";

/// The arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these queues. Default: every queue of the namespace.
    names: Vec<QueueName>,
    /// The time between two looks.
    #[arg(long, value_name = "INTERVAL", default_value = "2s", value_parser = Repeat::interval)]
    every: Duration,
    /// The maximum number of running jobs.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
}

/// Shows the queues and their running jobs until it is interrupted.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if context.output.is_json() {
        let why = "top is for people: use `queues` and `jobs --running` for JSON";
        return Err(Wrong(why.to_owned()).into());
    }
    let broker = context.broker().await?;
    let repeat = Repeat::every(args.every);
    let queues = queues::Watched::new(args.names);
    let running = jobs::Running::new(args.limit, repeat);
    let look = async || {
        let listed: Listing = queues.list(&broker, context).await?;
        if !listed.has_text() {
            return Ok(listed);
        }
        let jobs = running.list(queues.names(), &broker, context).await?;
        anyhow::Ok(listed.above(jobs))
    };
    repeat.run(context.output, look).await
}
