//! `streamfleet cron add`: adds a recurring job from flags.

use streamfleet::Queue;
use streamfleet::cron::Missed;
use streamfleet::job::{CronName, Encoding, JobType, Lane};
use streamfleet_operations::Error;
use streamfleet_operations::cron::{self, NewRecurringJob, RecurringAdded};

use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::times::Clock;
use crate::{Context, Wrong, enqueue};

/// How `cron add` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet cron add report.nightly --schedule '0 3 * * *' --timezone Europe/Berlin --type report.generate
  streamfleet cron add mail.digest --schedule @hourly --type mail.send --payload '{\"digest\":true}' --missed one";

/// The arguments of `cron add`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The name of the recurring job, such as report.nightly.
    name: CronName,
    /// A cron expression: five fields, as in "0 3 * * *", or six, starting with the second.
    #[arg(long, value_name = "EXPRESSION")]
    schedule: String,
    /// The time zone of the schedule, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    timezone: String,
    /// The type of the jobs it submits.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: JobType,
    /// The payload: text, @FILE, or - for stdin.
    #[arg(long)]
    payload: Option<String>,
    /// The encoding of the payload: json (checked), msgpack (JSON is converted) or raw.
    #[arg(long, default_value = "json", value_parser = enqueue::encoding)]
    encoding: Encoding,
    /// The priority lane: high, normal or low.
    #[arg(long, default_value = "normal")]
    lane: Lane,
    /// What happens to ticks while no worker runs: skip, one (a job for the last of them) or all.
    #[arg(long, default_value = "skip")]
    missed: Missed,
    /// Replace an existing recurring job of this name.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    actor: ActorArgs,
}

impl Args {
    /// Adds the recurring job.
    pub(super) async fn run(self, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
        let Self { name, schedule, timezone, job_type, payload, encoding, lane, missed, replace, actor } =
            self;
        let payload = payload.map(|payload| enqueue::payload(payload, encoding)).transpose()?;
        let payload = payload.map(|payload| (payload, encoding));
        let input =
            NewRecurringJob { name, schedule, timezone, job_type, payload, lane, missed, replaces: replace };
        let added = match cron::add(queue, &actor.actor(), &input, &context.schemas()?).await {
            Err(Error::Doubtful(why)) => {
                let hint = "`streamfleet cron list` shows it, --replace replaces it";
                return Err(Wrong(format!("{why}; {hint}")).into());
            }
            added => told(added?),
        };
        let show = |added: &RecurringAdded| line(added, &context.clock);
        context.output.print_named(&added, |added| vec![added.name.clone()], show)?;
        Ok(Exit::Done)
    }
}

fn line(RecurringAdded { name, queue, done, next_ms, now, .. }: &RecurringAdded, clock: &Clock) -> String {
    let next = next_ms.map_or_else(|| "never".to_owned(), |tick| clock.with_age(tick, *now));
    format!("{name} is {done} in the queue {queue}; next: {next}")
}
