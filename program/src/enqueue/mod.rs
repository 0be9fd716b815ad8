//! `streamfleet enqueue`: submits one job from flags, or many from stdin.

mod bulk;
mod members;
mod refusal;
mod wait;

use std::io::Read;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bulk::BadLine;
use refusal::not_submitted;
pub(crate) use refusal::refused;
use streamfleet::job::{
    BatchId, Encoding, JobId, JobType, Lane, Priority, QueueName, TraceContext, TraceState, UniqueKey,
};
use streamfleet::{Broker, Durability, Producer, Queue, UniqueMode, UniqueScope};
use streamfleet_operations::submit::{self, Chain, Draft, Follow, Receipt, When};
pub(crate) use streamfleet_operations::submit::{Length, encode};
use streamfleet_operations::unserved;
use streamfleet_service::config::{Effective, QueueSection};
pub(crate) use wait::WaitReport;

use super::exit::Exit;
use super::output;
use super::times::{self, Clock, Moment};
use super::{Context, Wrong};

/// The ways to use `enqueue`. The one that clap derives leaves out `--bulk`.
const USAGE: &str = "\
streamfleet enqueue [OPTIONS] <TYPE> [PAYLOAD]
       streamfleet enqueue [OPTIONS] --bulk < FILE";

/// How `enqueue` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet enqueue mail.send '{\"to\":\"ann@example.com\"}'
  streamfleet enqueue report.generate @order.json --id report-7 --delay 10m
  streamfleet enqueue mail.send '{\"to\":\"ann@example.com\"}' --wait=30s
  streamfleet enqueue --bulk < jobs.jsonl
  streamfleet enqueue --bulk --batch invoices-2026-11 --follow '{\"type\":\"invoice.total\"}' < invoices.jsonl";

/// The arguments of `enqueue`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = USAGE)]
pub(crate) struct Args {
    /// The job's type, such as report.generate. It selects the handler.
    #[arg(value_name = "TYPE", required_unless_present = "bulk")]
    job_type: Option<JobType>,
    /// The payload: text, @FILE, or - for stdin.
    payload: Option<String>,
    /// The queue.
    #[arg(long, short, default_value = "default")]
    queue: QueueName,
    /// The encoding of the payload: json (checked), msgpack (JSON is converted) or raw.
    #[arg(long, default_value = "json", value_parser = encoding)]
    encoding: Encoding,
    /// An id of your choice for the job. Default: derived from its stream entry.
    #[arg(long)]
    id: Option<JobId>,
    /// The priority lane: high, normal or low.
    #[arg(long, default_value = "normal")]
    lane: Lane,
    /// In place of --lane, a number: 1 to 3 is the low lane, 4 to 7 the normal one, 8 to 10 the high one. Of the delayed jobs
    /// of a lane that are due in the same millisecond, higher numbers come first.
    #[arg(long, value_name = "1..10", conflicts_with = "lane")]
    priority: Option<Priority>,
    /// Run the job after this long, such as 10s or 1h30m.
    #[arg(long, value_parser = times::duration, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Run the job at this time: as it is shown, such as '2026-12-01 11:00', or with a zone, such as 2026-12-01T10:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = times::moment)]
    at: Option<Moment>,
    /// After how many failures the job becomes a dead letter, instead of its type's limit.
    #[arg(long, value_parser = attempts)]
    max_attempts: Option<NonZeroU32>,
    /// How long one attempt may run, instead of its type's limit.
    #[arg(long, value_parser = timeout)]
    timeout: Option<Duration>,
    /// For how long another job with this --id is not accepted, even if the first one ends sooner. Default: 24h.
    #[arg(long, value_parser = times::duration, requires = "id", value_name = "LENGTH")]
    idempotent_for: Option<Duration>,
    /// Do not start the job at or after this time.
    #[arg(long, value_name = "TIME", value_parser = times::moment, conflicts_with = "expires_in")]
    expires_at: Option<Moment>,
    /// Do not start the job later than this long from now.
    #[arg(long, value_parser = times::duration, value_name = "LENGTH")]
    expires_in: Option<Duration>,
    /// A unique key: while it is held, other jobs with the same key are not accepted (see --unique-mode).
    #[arg(long, value_name = "KEY")]
    unique: Option<UniqueKey>,
    /// How long the job holds its unique key: waiting (until its first attempt starts), running (until it has ended), or the
    /// length of a window from now, such as 30s.
    #[arg(long, value_name = "SCOPE", requires = "unique", default_value = "running", value_parser = submit::scope)]
    unique_scope: UniqueScope,
    /// What to do if another job holds the key: reject (this job is not accepted), replace (the other job is cancelled,
    /// unless it is running) or debounce (the other job, if it is delayed, gets this one's payload and time).
    #[arg(long, value_name = "MODE", requires = "unique", default_value = "reject", value_parser = submit::mode)]
    unique_mode: UniqueMode,
    /// Where the job must be stored before it counts as submitted: memory, replicas:N, or aof (the server's disk; Redis 7.2).
    #[arg(long, default_value = "memory", value_name = "WHERE")]
    durability: Durability,
    /// How long to wait until it is stored there, at most 1m. Exit code 8: the job is accepted, but its durability is not confirmed.
    #[arg(long, default_value = "5s", value_parser = times::duration, value_name = "LENGTH")]
    confirm_within: Duration,
    /// Keep a record of the job even if it never fails.
    #[arg(long)]
    track: bool,
    /// Wait for the job's end and print its result; --wait=30s waits for at most 30 s. The job leaves a record. Exit code
    /// 0: it is done; 1: it is dead or cancelled; 3: Redis could not be reached when the time was up; 6: the wait timed out or was
    /// interrupted, and the job continues.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = times::duration)]
    wait: Option<Option<Duration>>,
    /// The type of a job to submit if this one succeeds.
    #[arg(long, value_name = "TYPE")]
    on_success: Option<String>,
    /// The type of a job to submit if this one dies.
    #[arg(long, value_name = "TYPE")]
    on_failure: Option<String>,
    /// Jobs to run one after the other if this one succeeds: [{"type": …, "payload": …}, …].
    #[arg(long, value_name = "JSON", value_parser = submit::chain)]
    then: Option<Chain>,
    /// A header for the handler, NAME=VALUE. May be given several times.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The W3C trace context that the jobs belong to. An invalid one is ignored.
    #[arg(long, env = "TRACEPARENT", hide_env_values = true)]
    traceparent: Option<String>,
    /// The W3C trace state of that trace context. An invalid one is ignored.
    #[arg(long, env = "TRACESTATE", hide_env_values = true)]
    tracestate: Option<String>,
    /// Read jobs from stdin, one JSON object per line.
    #[arg(long, conflicts_with_all = SINGLE, long_help = BULK)]
    bulk: bool,
    /// With --bulk: skip invalid lines, and report them at the end.
    #[arg(long, requires = "bulk")]
    skip_bad: bool,
    /// With --bulk: the jobs are the members of a batch of this name. When all of them have succeeded, the job of --follow is
    /// submitted. After an error, submit the same jobs again: none is accepted twice.
    #[arg(long, value_name = "NAME", requires_all = ["bulk", "follow_up"], conflicts_with = "skip_bad")]
    batch: Option<BatchId>,
    /// The job that follows the batch, as a line of --bulk: {"type": …, "payload": …}.
    #[arg(long = "follow", value_name = "JSON", requires = "batch")]
    follow_up: Option<String>,
}

/// The help of --bulk.
const BULK: &str = "Read jobs from stdin, one JSON object per line: {\"type\": …, \"payload\": …} and, optionally, encoding, id, \
    idempotent_for, lane or priority (1 to 10), delay (milliseconds, or text such as \"10s\"), at, max_attempts, timeout, expires_at or expires_in, unique, unique_scope, unique_mode, durability, on_success, on_failure, then, track, headers, traceparent, tracestate. Reading stops at the first invalid line: \
    all or some of the lines before it are submitted, and the error says how many.";

/// The options that describe one job and cannot be combined with --bulk.
const SINGLE: [&str; 21] = [
    "job_type",
    "payload",
    "encoding",
    "id",
    "idempotent_for",
    "lane",
    "priority",
    "delay",
    "at",
    "max_attempts",
    "timeout",
    "expires_at",
    "expires_in",
    "unique",
    "durability",
    "on_success",
    "on_failure",
    "then",
    "headers",
    "track",
    "wait",
];

/// Where jobs are sent.
struct Target {
    broker: Broker,
    to: submit::Target,
}

impl Target {
    async fn open(
        name: QueueName,
        longest: Duration,
        (trace, state): Trace,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let broker = context.broker().await?;
        let to = target(broker.queue(name), &context.effective);
        let producer = to.producer.confirm_within(longest);
        let producer = trace.into_iter().fold(producer, Producer::within);
        let producer = state.into_iter().fold(producer, Producer::with_trace_state);
        Ok(Self { broker, to: submit::Target { producer, ..to } })
    }

    fn name(&self) -> &QueueName {
        self.to.queue.name()
    }

    /// Returns remarks on what keeps jobs of these types from running.
    async fn remarks(&self, types: impl IntoIterator<Item = &JobType>, context: &Context) -> Vec<String> {
        let configured: Vec<QueueName> = context.effective.config.queues.keys().cloned().collect();
        unserved::remarks_on_wait((&self.broker, &configured[..]), &self.to.queue, types).await
    }
}

/// Where the jobs of a queue go, with its configured limits.
pub(crate) fn target(queue: Queue, effective: &Effective) -> submit::Target {
    let max_payload = max_payload(queue.name(), effective);
    submit::Target { producer: producer(queue.clone(), effective), queue, max_payload }
}

fn limits(queue: &QueueName, effective: &Effective) -> QueueSection {
    effective.config.queues.get(queue).cloned().unwrap_or_default()
}

/// The most bytes that a payload for this queue may have.
fn max_payload(queue: &QueueName, effective: &Effective) -> usize {
    limits(queue, effective).max_payload
}

/// Creates a producer with the configured limits of its queue.
pub(crate) fn producer(queue: Queue, effective: &Effective) -> Producer {
    let QueueSection { served, max_payload, .. } = limits(queue.name(), effective);
    let producer = Producer::new(queue).max_payload(max_payload);
    match served.max_depth {
        Some(jobs) => producer.max_depth(jobs),
        None => producer,
    }
}

/// Submits one job or many.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let trace = args.trace();
    if args.bulk {
        let bad_line = if args.skip_bad { BadLine::Skip } else { BadLine::Stop };
        let target = Target::open(args.queue, args.confirm_within, trace, context).await?;
        if let (Some(batch), Some(follow)) = (args.batch, &args.follow_up) {
            return members::run(target, batch, follow, context).await;
        }
        return bulk::run(target, bad_line, context).await;
    }
    let (name, wait) = (args.queue.clone(), args.wait);
    let (expires_in, confirm_within) = (args.expires_in, args.confirm_within);
    let job_type = args.job_type.clone();
    let mut draft = args.draft(&context.clock)?;
    // An invalid job is refused before connecting to Redis.
    let described = draft.clone().submission(max_payload(&name, &context.effective)).map_err(refused)?;
    described.fits_schema(&context.schemas()?).map_err(refused)?;
    let target = Target::open(name, confirm_within, trace, context).await?;
    if let Some(length) = expires_in {
        let now = target.to.queue.clock().await.context("failed to read the server's clock")?;
        draft.expires_at = Some(now.after(length));
    }
    for remark in target.remarks(&job_type, context).await {
        output::print_stderr(&format!("the job waits: {remark}"));
    }
    // Without a record, nobody would learn the job's end.
    draft.track |= wait.is_some();
    let receipt = submit::submit(&target.to, draft).await.map_err(not_submitted)?;
    if let Some(longest) = wait {
        return wait::run(&target.to, &receipt, longest.unwrap_or(Duration::MAX), context.output).await;
    }
    if !context.output.is_json() {
        print_remarks(&receipt);
    }
    let id = |receipt: &Receipt| receipt.id.clone();
    context.output.print_named(&receipt, |receipt| vec![id(receipt)], id)?;
    Ok(Exit::Done)
}

/// Prints remarks on what was unusual about the submission.
fn print_remarks(receipt: &Receipt) {
    if receipt.existing {
        output::print_stderr(&format!(
            "the job existed already and was not changed: {} is {}",
            receipt.id, receipt.state
        ));
    }
    if let Some(other) = &receipt.replaced {
        output::print_stderr(&format!("it replaces {other}, which is cancelled"));
    }
    if receipt.debounced {
        output::print_stderr("the existing job got the new payload and time");
    }
}

/// The trace that the jobs belong to, and its state.
type Trace = (Option<TraceContext>, Option<TraceState>);

impl Args {
    fn trace(&self) -> Trace {
        let context = self.traceparent.as_ref().and_then(|text| TraceContext::parse(text.as_bytes()));
        let state = self.tracestate.as_ref().and_then(|text| TraceState::parse(text.as_bytes()));
        (context, state)
    }

    fn draft(self, clock: &Clock) -> anyhow::Result<Draft> {
        let job_type = self.job_type.ok_or_else(|| Wrong("the type is missing".to_owned()))?;
        let payload = self.payload.map(|payload| self::payload(payload, self.encoding)).transpose()?;
        Ok(Draft {
            job_type: job_type.to_string(),
            payload,
            encoding: self.encoding,
            id: self.id,
            window: self.idempotent_for,
            lane: self.lane,
            priority: self.priority,
            when: match (self.delay, self.at) {
                (Some(delay), _) => When::In(delay),
                (None, Some(time)) => When::At(clock.instant(time)),
                (None, None) => When::Now,
            },
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            expires_at: self.expires_at.map(|time| clock.instant(time)),
            durability: self.durability,
            unique: self.unique.map(|key| (key, self.unique_scope, self.unique_mode)),
            follow: Follow { on_success: self.on_success, on_failure: self.on_failure, then: self.then },
            track: self.track,
            headers: self.headers,
            // The target has both.
            trace: None,
            trace_state: None,
        })
    }
}

/// Reads and encodes the payload that an argument specifies.
pub(super) fn payload(payload: String, encoding: Encoding) -> anyhow::Result<Vec<u8>> {
    encode(read(payload)?, encoding).map_err(|why| Wrong(why).into())
}

/// Reads the payload's bytes from the source that the argument names.
fn read(payload: String) -> anyhow::Result<Vec<u8>> {
    if payload == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("failed to read the payload from stdin")?;
        return Ok(bytes);
    }
    let Some(path) = payload.strip_prefix('@').map(PathBuf::from) else { return Ok(payload.into_bytes()) };
    let read = std::fs::read(&path);
    read.map_err(|error| Wrong(format!("failed to read the payload {}: {error}", path.display())).into())
}

/// Returns the encoding of this name.
pub(super) fn encoding(name: &str) -> Result<Encoding, String> {
    Encoding::parse(name).ok_or_else(|| "an encoding must be json, msgpack or raw".to_owned())
}

fn attempts(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "expected a number of at least 1".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    times::duration(text).and_then(submit::timeout_in_bounds)
}

fn header(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "a header must be NAME=VALUE".to_owned())
}
