//! `enqueue --bulk`: one job per line of stdin, in bounded memory. One thread reads and parses; this task sends what has
//! arrived. Fast input therefore fills whole round trips, and each line of slow input is still sent at once.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use streamfleet::job::{JobType, Timestamp};
use streamfleet::schema::Schemas;
use streamfleet::{RedisError, Submission, SubmitError, Submitted};
use streamfleet_operations::submit;
use tokio::sync::mpsc;

use super::{Target, refused};
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::{Context, times};

/// How many lines are handed over at once …
const GROUP_LINES: usize = 250;

/// … or how many bytes.
const GROUP_BYTES: usize = 1024 * 1024;

/// How many groups may wait to be sent. All waiting groups are sent together.
const GROUPS: usize = 16;

/// A longer line is invalid: even the largest payload, in its longest JSON form, is shorter.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// How many invalid lines are reported one by one.
const MAX_LISTED: usize = 100;

/// Of how many types a remark is made if no live worker knows them.
const MAX_TYPES: usize = 100;

/// What to do with an invalid line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadLine {
    /// Stop at it.
    Stop,
    /// Skip it, and report it at the end.
    Skip,
}

/// What became of the lines.
#[derive(Serialize)]
struct Summary {
    queue: String,
    accepted: u64,
    /// How many of the accepted jobs existed already.
    existing: u64,
    rejected: u64,
    /// The first of the rejected lines.
    rejected_lines: Vec<Rejected>,
    seconds: f64,
    jobs_per_second: f64,
}

/// A line that is not a valid job.
#[derive(Serialize)]
struct Rejected {
    line: u64,
    error: String,
}

/// What the reading thread hands over.
enum Part {
    /// Jobs, each with the number of its line.
    Jobs(Vec<(u64, Submission)>),
    /// A line that is skipped.
    Skipped(Rejected),
    /// An invalid line that ends the reading. The group read so far is not handed over.
    Bad(Rejected),
    /// Reading stdin failed.
    Broken(io::Error),
}

/// Submits the jobs on stdin.
pub(super) async fn run(target: Target, bad_line: BadLine, context: &Context) -> anyhow::Result<Exit> {
    let (max_payload, schemas) = (target.to.max_payload, context.schemas()?);
    let clock = (target.to.queue.clock().await.context("failed to read the server's clock")?, Instant::now());
    let (parts, mut handed) = mpsc::channel(GROUPS);
    // A separate thread, not one of the runtime: after an error nothing waits for a stdin that may never end.
    let reading = std::thread::spawn(move || {
        let stdin = BufReader::with_capacity(256 * 1024, io::stdin().lock());
        Reading { input: stdin, bad_line, max_payload, schemas, clock, parts, types: BTreeSet::new() }.run()
    });
    let started = Instant::now();
    let mut sending = Sending::new(target, context);
    let mut waiting = Vec::with_capacity(GROUPS);
    while handed.recv_many(&mut waiting, GROUPS).await > 0 {
        sending.take(std::mem::take(&mut waiting)).await?;
    }
    let types = reading.join().map_err(|_| anyhow!("{}, then reading stdin failed", sending.so_far()))?;
    let elapsed = started.elapsed();
    sending.bar.finish_and_clear();
    for remark in sending.target.remarks(&types, context).await {
        output::print_stderr(&format!("jobs wait: {remark}"));
    }
    sending.finish(elapsed, context)
}

struct Reading<R> {
    input: BufReader<R>,
    bad_line: BadLine,
    max_payload: usize,
    schemas: Schemas,
    /// The time of the server, and the local instant at which it was read.
    clock: (Timestamp, Instant),
    parts: mpsc::Sender<Part>,
    /// Some of the types that the jobs have.
    types: BTreeSet<JobType>,
}

impl<R: Read> Reading<R> {
    /// Reads until the input ends, a line is invalid, or the receiver is gone. Returns some of the types of the jobs.
    fn run(mut self) -> BTreeSet<JobType> {
        let (mut number, mut group, mut bytes) = (0, Vec::new(), 0);
        let mut text = Vec::new();
        loop {
            text.clear();
            number += 1;
            let read = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut text);
            let part = match read {
                Ok(0) => break,
                Err(error) => Some(Part::Broken(error)),
                Ok(_) if text.trim_ascii().is_empty() => None,
                Ok(_) => self.job(&text).map(|job| group.push((number, job))).err().map(|error| {
                    let rejected = Rejected { line: number, error };
                    match self.bad_line {
                        BadLine::Skip => Part::Skipped(rejected),
                        BadLine::Stop => Part::Bad(rejected),
                    }
                }),
            };
            bytes += text.len();
            let is_last = matches!(part, Some(Part::Bad(_) | Part::Broken(_)));
            if part.is_some_and(|part| self.parts.blocking_send(part).is_err()) || is_last {
                return self.types;
            }
            // With an empty buffer, the next read may block for long, so what is here goes first.
            let full = group.len() >= GROUP_LINES || bytes >= GROUP_BYTES || self.input.buffer().is_empty();
            if full && !group.is_empty() {
                bytes = 0;
                if self.parts.blocking_send(Part::Jobs(std::mem::take(&mut group))).is_err() {
                    return self.types;
                }
            }
        }
        if !group.is_empty() && self.parts.blocking_send(Part::Jobs(group)).is_err() {
            tracing::debug!("the last lines were not sent, because sending failed");
        }
        self.types
    }

    fn job(&mut self, text: &[u8]) -> Result<Submission, String> {
        if text.len() as u64 >= LONGEST_LINE {
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
        let now = self.clock.0.after(self.clock.1.elapsed());
        let (job_type, submission) =
            submit::parse(text, self.max_payload, now).map_err(|invalid| invalid.to_string())?;
        submission.fits_schema(&self.schemas).map_err(|error| error.to_string())?;
        if self.types.len() < MAX_TYPES {
            self.types.insert(job_type);
        }
        Ok(submission)
    }
}

/// What became of the job of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Accepted,
    NotAccepted,
    /// Redis did not answer.
    Unknown,
}

impl Fate {
    fn of(answer: &Result<Submitted, SubmitError>) -> Self {
        match answer {
            Ok(_) | Err(SubmitError::Unconfirmed { .. }) => Self::Accepted,
            Err(SubmitError::Broker(RedisError::Unknown { .. })) => Self::Unknown,
            Err(_) => Self::NotAccepted,
        }
    }
}

struct Sending {
    target: Target,
    bar: indicatif::ProgressBar,
    accepted: u64,
    /// How many of the accepted jobs existed already.
    existing: u64,
    /// The last line up to which all jobs are accepted.
    accepted_line: u64,
    /// How many jobs behind this line are accepted.
    accepted_behind: u64,
    rejected: u64,
    listed: Vec<Rejected>,
}

impl Sending {
    fn new(target: Target, context: &Context) -> Self {
        let bar = output::progress(context.output, None, "jobs accepted");
        Self {
            target,
            bar,
            accepted: 0,
            existing: 0,
            accepted_line: 0,
            accepted_behind: 0,
            rejected: 0,
            listed: Vec::new(),
        }
    }

    /// Sends the jobs of these parts, then fails if one of the parts is an error.
    async fn take(&mut self, parts: Vec<Part>) -> anyhow::Result<()> {
        let (mut jobs, mut lines, mut end) = (Vec::new(), Vec::new(), None);
        for part in parts {
            match part {
                Part::Jobs(group) => {
                    for (line, job) in group {
                        lines.push(line);
                        jobs.push(job);
                    }
                }
                Part::Skipped(rejected) => self.reject(rejected),
                Part::Bad(rejected) => end = Some(self.invalid_line(&rejected)),
                Part::Broken(error) => end = Some(anyhow!(error).context("failed to read stdin")),
            }
        }
        self.send(jobs, &lines).await?;
        match end {
            Some(error) => Err(error.context(self.so_far())),
            None => Ok(()),
        }
    }

    async fn send(&mut self, jobs: Vec<Submission>, lines: &[u64]) -> anyhow::Result<()> {
        let mut fates = vec![Fate::NotAccepted; jobs.len()];
        let result = self.target.to.producer.submit_each(jobs, |place, answer| {
            fates[place] = Fate::of(&answer);
            self.existing += u64::from(answer.is_ok_and(|answer| answer.existing().is_some()));
        });
        let result = result.await;
        let is_accepted = |fate: &&Fate| **fate == Fate::Accepted;
        let gapless = fates.iter().take_while(is_accepted).count();
        self.accepted_behind = fates.iter().skip(gapless).filter(is_accepted).count() as u64;
        self.accepted += gapless as u64 + self.accepted_behind;
        self.bar.set_position(self.accepted);
        if let Some(line) = gapless.checked_sub(1).and_then(|last| lines.get(last)) {
            self.accepted_line = *line;
        }
        let Err(error) = result else { return Ok(()) };
        let mut known = self.so_far();
        let mut unknown = lines.iter().zip(&fates).filter(|(_, fate)| **fate == Fate::Unknown);
        if let Some((first, _)) = unknown.next() {
            let last = unknown.next_back().map_or(first, |(last, _)| last);
            known += &format!("; some of the lines {first} to {last} may be accepted too");
        }
        Err(refused(error)).context(known)
    }

    fn reject(&mut self, rejected: Rejected) {
        self.rejected += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(rejected);
        }
    }

    fn invalid_line(&self, rejected: &Rejected) -> anyhow::Error {
        let Rejected { line, error } = rejected;
        anyhow!("line {line} is not a valid job: {} (--skip-bad skips such lines)", harmless(error))
    }

    fn so_far(&self) -> String {
        if self.accepted == 0 {
            return "no job was accepted".to_owned();
        }
        let accepted = output::counted(self.accepted, "job was accepted", "jobs were accepted");
        match (self.accepted_line, self.accepted_behind) {
            (line, 0) => format!("{accepted}, all up to line {line}"),
            (0, _) => format!("{accepted}, but not the first one"),
            (line, behind) => format!("{accepted}: all up to line {line}, and {behind} behind it"),
        }
    }

    fn finish(self, elapsed: Duration, context: &Context) -> anyhow::Result<Exit> {
        if self.accepted + self.rejected == 0 {
            bail!(crate::Wrong("stdin contains no jobs: --bulk reads one JSON object per line".to_owned()));
        }
        let seconds = elapsed.as_secs_f64();
        let summary = Summary {
            queue: self.target.name().to_string(),
            accepted: self.accepted,
            existing: self.existing,
            rejected: self.rejected,
            rejected_lines: self.listed,
            seconds,
            jobs_per_second: (self.accepted as f64 / seconds.max(1e-6)).round(),
        };
        context.output.print(&summary, |summary| show(summary, elapsed))?;
        Ok(Exit::Done)
    }
}

fn show(summary: &Summary, elapsed: Duration) -> String {
    let mut text = format!(
        "{} accepted by the queue {} in {} ({:.0} jobs/s)",
        output::counted(summary.accepted, "job", "jobs"),
        summary.queue,
        times::short(elapsed),
        summary.jobs_per_second
    );
    if summary.existing > 0 {
        text += &format!("\n{} of them existed already", summary.existing);
    }
    if summary.rejected > 0 {
        text += &format!("\nlines rejected: {}", summary.rejected);
        for Rejected { line, error } in &summary.rejected_lines {
            text += &format!("\n  line {line}: {}", harmless(error));
        }
    }
    text
}
