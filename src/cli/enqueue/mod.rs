//! `streamfleet enqueue`: one job from flags, or many from stdin.

mod bulk;
mod draft;
mod line;
mod wait;

use std::io::Read;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bulk::BadLine;
use draft::{Draft, When};
use serde::Serialize;
use streamfleet::Producer;
use streamfleet::job::{Encoding, JobId, JobType, Lane, QueueName, State, Timestamp};

use super::exit::Exit;
use super::output::{self, Output};
use super::times;
use super::{Context, Wrong};

/// The arguments of `enqueue`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What handler the job needs, like report.generate.
    #[arg(value_name = "TYPE", required_unless_present = "bulk")]
    job_type: Option<JobType>,
    /// The payload: a text, @FILE, or - for stdin.
    payload: Option<String>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// How the payload is written: json (checked), msgpack (JSON is converted) or raw.
    #[arg(long, default_value = "json", value_parser = encoding)]
    encoding: Encoding,
    /// The job's id, of your choice. Default: derived from its stream entry.
    #[arg(long)]
    id: Option<JobId>,
    /// The priority lane: high, normal or low.
    #[arg(long, default_value = "normal")]
    lane: Lane,
    /// Not before this long from now, like 10s or 1h30m.
    #[arg(long, value_parser = times::duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Not before this instant, like 2026-12-01T10:00:00Z.
    #[arg(long, value_parser = times::instant)]
    at: Option<Timestamp>,
    /// How many failures bury the job, in place of its type's limit.
    #[arg(long)]
    max_attempts: Option<NonZeroU32>,
    /// How long one attempt may run, in place of its type's limit.
    #[arg(long, value_parser = timeout)]
    timeout: Option<Duration>,
    /// For how long a job of this --id is not accepted again, also where the first one ends sooner. Default: 24h.
    #[arg(long, value_parser = times::duration, requires = "id", value_name = "LENGTH")]
    idempotent_for: Option<Duration>,
    /// Do not start it at or after this instant.
    #[arg(long, value_parser = times::instant)]
    expires_at: Option<Timestamp>,
    /// Keep a record of the job even if it never fails.
    #[arg(long)]
    track: bool,
    /// Wait for the job's end and print its result; --wait=30s waits so long at most. The job leaves a record. Exit code
    /// 0: it is done; 1: it is dead or cancelled; 6: it goes on, and the time is up.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = times::duration)]
    wait: Option<Option<Duration>>,
    /// A header for the handler, NAME=VALUE. May be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Read jobs from stdin, one JSON object per line.
    #[arg(long, conflicts_with_all = SINGLE, long_help = BULK)]
    bulk: bool,
    /// With --bulk: skip lines that are no jobs, and tell them at the end.
    #[arg(long, requires = "bulk")]
    skip_bad: bool,
}

/// The help of --bulk.
const BULK: &str = "Read jobs from stdin, one JSON object per line: {\"type\": …, \"payload\": …} and, if wanted, encoding, id, \
    idempotent_for, lane, delay (milliseconds, or a text like \"10s\"), at, max_attempts, timeout, expires_at, track, headers. A line that is no job ends it: \
    the lines before it are sent, or some of them, and it is said how many.";

/// What describes one job, and has no meaning for many.
const SINGLE: [&str; 14] = [
    "job_type",
    "payload",
    "encoding",
    "id",
    "idempotent_for",
    "lane",
    "delay",
    "at",
    "max_attempts",
    "timeout",
    "expires_at",
    "headers",
    "track",
    "wait",
];

/// What was submitted.
#[derive(Serialize)]
struct Report {
    id: String,
    queue: String,
    lane: &'static str,
    state: &'static str,
    /// True where a job of this id was there already, and was left as it is.
    existing: bool,
}

/// Where jobs are sent.
struct Target {
    name: QueueName,
    producer: Producer,
    max_payload: usize,
}

impl Target {
    async fn open(name: QueueName, context: &Context) -> anyhow::Result<Self> {
        let limits = context.effective.config.queues.get(&name).cloned().unwrap_or_default();
        let producer = Producer::new(context.broker().await?.queue(name.clone()));
        let producer = match limits.max_depth {
            Some(jobs) => producer.max_depth(jobs),
            None => producer,
        };
        Ok(Self { name, producer, max_payload: limits.max_payload })
    }
}

/// Submits.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    if args.bulk {
        let bad_line = if args.skip_bad { BadLine::Skip } else { BadLine::Stop };
        return bulk::run(Target::open(args.queue, context).await?, bad_line, context).await;
    }
    let (lane, name, wait) = (args.lane, args.queue.clone(), args.wait);
    let draft = args.draft()?;
    let state = if draft.when == When::Now { State::Waiting } else { State::Scheduled };
    let max_payload = context.effective.config.queues.get(&name).cloned().unwrap_or_default().max_payload;
    let submission = draft.submission(max_payload).map_err(draft::refused)?;
    let target = Target::open(name, context).await?;
    if let Some(longest) = wait {
        let longest = longest.unwrap_or(Duration::MAX);
        return wait::run(&target.producer, submission, (&target.name, longest), context.output).await;
    }
    let submitted = target.producer.submit_or_find(submission).await;
    let submitted = submitted.map_err(draft::refused).context("the job is not submitted")?;
    let existing = submitted.existing();
    let report = Report {
        id: submitted.id.to_string(),
        queue: target.name.to_string(),
        lane: lane.as_str(),
        state: existing.unwrap_or(state).as_str(),
        existing: existing.is_some(),
    };
    if let (Some(state), Output::People) = (existing, context.output) {
        output::complain(&format!("a job with this id is {state}; it was left as it is"));
    }
    context.output.print(&report, |report| report.id.clone())?;
    Ok(Exit::Done)
}

impl Args {
    fn draft(self) -> anyhow::Result<Draft> {
        let job_type = self.job_type.ok_or_else(|| Wrong("the type is missing".to_owned()))?;
        let payload = self.payload.map(|payload| self::payload(payload, self.encoding)).transpose()?;
        Ok(Draft {
            job_type: job_type.to_string(),
            payload,
            encoding: self.encoding,
            id: self.id,
            window: self.idempotent_for,
            lane: self.lane,
            when: match (self.delay, self.at) {
                (Some(delay), _) => When::In(delay),
                (None, Some(time)) => When::At(time),
                (None, None) => When::Now,
            },
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            expires_at: self.expires_at,
            track: self.track,
            headers: self.headers,
        })
    }
}

/// The payload that an argument means, in its encoding.
pub(super) fn payload(payload: String, encoding: Encoding) -> anyhow::Result<Vec<u8>> {
    draft::encode(read(payload)?, encoding).map_err(|why| Wrong(why).into())
}

/// The payload's bytes from where the argument says.
fn read(payload: String) -> anyhow::Result<Vec<u8>> {
    if payload == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("the payload cannot be read from stdin")?;
        return Ok(bytes);
    }
    let Some(path) = payload.strip_prefix('@').map(PathBuf::from) else { return Ok(payload.into_bytes()) };
    let read = std::fs::read(&path);
    read.map_err(|error| Wrong(format!("the payload {} cannot be read: {error}", path.display())).into())
}

pub(super) fn encoding(name: &str) -> Result<Encoding, String> {
    Encoding::parse(name).ok_or_else(|| "an encoding is json, msgpack or raw".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    times::duration(text).and_then(draft::timeout_in_bounds)
}

fn header(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "a header is NAME=VALUE".to_owned())
}
