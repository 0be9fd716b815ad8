//! `streamfleet cron add`: adds a recurring job from flags.

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Queue;
use streamfleet::cron::{Entry, Invalid, Missed, Schedule};
use streamfleet::job::{CronName, Encoding, JobType, Lane, QueueName, Timestamp};
use streamfleet_engine::admin::{Kept, MAX_ENTRIES};

use crate::exit::Exit;
use crate::times::{Clock, rfc3339};
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
}

/// What was saved, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = RecurringAdded)]
pub(crate) struct Added {
    name: String,
    queue: String,
    /// `added`, `replaced` or `unchanged`.
    done: String,
    next: Option<String>,
    next_ms: Option<u64>,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    tick: Option<Timestamp>,
}

impl Args {
    /// Returns the recurring job that these arguments describe.
    pub(super) fn entry(&self, queue: QueueName) -> anyhow::Result<Entry> {
        let schedule = Schedule::new(&self.schedule, &self.timezone).map_err(|error| refused(&error))?;
        let entry = Entry::new(self.name.as_str(), schedule, self.job_type.as_str());
        let entry = entry.map_err(|error| refused(&error))?;
        let entry = entry.in_queue(queue).by_lane(self.lane).when_missed(self.missed);
        let Some(payload) = self.payload.clone() else { return Ok(entry) };
        let payload = enqueue::payload(payload, self.encoding)?;
        entry.payload(&payload, self.encoding).map_err(|error| refused(&error).into())
    }

    /// Saves the recurring job.
    pub(super) async fn store(
        &self,
        queue: &Queue,
        entry: &Entry,
        context: &Context,
    ) -> anyhow::Result<Exit> {
        let kept = if self.replace { queue.cron().put(entry).await } else { queue.cron().add(entry).await };
        let kept = kept.with_context(|| format!("failed to save the recurring job {}", entry.name()))?;
        match kept {
            Kept::Taken => {
                let why = format!(
                    "the queue {} already has a different recurring job {}; `streamfleet cron list` shows it, --replace replaces it",
                    queue.name(),
                    entry.name()
                );
                return Err(Wrong(why).into());
            }
            Kept::TooMany => {
                let why = format!(
                    "the queue {} already has {MAX_ENTRIES} recurring jobs, the maximum",
                    queue.name()
                );
                return Err(Wrong(why).into());
            }
            Kept::Added | Kept::Replaced | Kept::Unchanged => {}
        }
        let added = Added::of(queue, entry, kept).await?;
        context.output.print_named(
            &added,
            |added| vec![added.name.clone()],
            |added| added.line(&context.clock),
        )?;
        Ok(Exit::Done)
    }
}

/// Refuses a payload that does not fit the schema of its type.
pub(super) fn check_schema(entry: &Entry, context: &Context) -> Result<(), Wrong> {
    let (job_type, schemas) = (entry.job_type(), context.schemas()?);
    let checked = schemas.check(job_type, entry.payload_bytes(), entry.encoding());
    checked.map_err(|invalid| Wrong(format!("the payload does not fit the schema of {job_type}: {invalid}")))
}

impl Added {
    /// Says what became of a recurring job that was saved, and when it is due next.
    pub(crate) async fn of(queue: &Queue, entry: &Entry, kept: Kept) -> anyhow::Result<Self> {
        let table = queue.cron().table().await;
        let now = table.context("the recurring job is saved, but reading it back failed")?.now;
        let tick = entry.schedule().next(now);
        Ok(Self {
            name: entry.name().to_string(),
            queue: queue.name().to_string(),
            done: kept.to_string(),
            next: tick.map(rfc3339),
            next_ms: tick.map(Timestamp::as_ms),
            now,
            tick,
        })
    }

    fn line(&self, clock: &Clock) -> String {
        let next = self.tick.map_or_else(|| "never".to_owned(), |tick| clock.with_age(tick, self.now));
        format!("{} is {} in the queue {}; next: {next}", self.name, self.done, self.queue)
    }
}

/// Returns the error, with a mark under the invalid part if there is one.
fn refused(error: &Invalid) -> Wrong {
    let pointed = error.pointed().unwrap_or_default();
    let lines = pointed.lines().map(|line| format!("\n  {line}"));
    Wrong(format!("{error}{}", lines.collect::<String>()))
}
