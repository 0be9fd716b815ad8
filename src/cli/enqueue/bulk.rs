//! `enqueue --bulk`: a job per line of stdin, in bounded memory. One thread reads and parses; this task sends what has
//! come, so a quick reader fills whole round trips and a slow one still sees every line sent at once.

use std::io::{self, BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use streamfleet::job::Timestamp;
use streamfleet::{Producer, Submission};
use tokio::sync::mpsc;

use super::{Target, draft, line};
use crate::cli::Context;
use crate::cli::exit::Exit;
use crate::cli::output::{self, harmless};
use crate::cli::times;

/// So many lines are handed over at once …
const GROUP_LINES: usize = 250;

/// … or so many bytes of them.
const GROUP_BYTES: usize = 1024 * 1024;

/// So many groups may wait to be sent, and are sent together.
const GROUPS: usize = 16;

/// A longer line is a bad line: the greatest payload, in its longest JSON form, is shorter.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// So many bad lines are told one by one.
const TOLD: usize = 100;

/// What to do with a line that is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadLine {
    /// Stop there.
    Stop,
    /// Go on, and tell it at the end.
    Skip,
}

/// What became of the lines.
#[derive(Serialize)]
struct Summary {
    queue: String,
    accepted: u64,
    /// Those of the accepted whose job was there already.
    existing: u64,
    rejected: u64,
    /// The first of the rejected lines.
    rejected_lines: Vec<Rejected>,
    seconds: f64,
    jobs_per_second: f64,
}

/// A line that is no job.
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
    /// A line that ends the reading. What was read with it is not handed over.
    Bad(Rejected),
    /// Stdin broke.
    Broken(io::Error),
}

/// Submits the jobs on stdin.
pub(super) async fn run(target: Target, bad_line: BadLine, context: &Context) -> anyhow::Result<Exit> {
    let max_payload = target.max_payload;
    let clock = (target.queue.clock().await.context("the server's clock cannot be read")?, Instant::now());
    let (parts, mut handed) = mpsc::channel(GROUPS);
    // A thread of its own, not the runtime's: after an error nobody waits for a stdin that may never end.
    let reading = std::thread::spawn(move || {
        let stdin = BufReader::with_capacity(256 * 1024, io::stdin().lock());
        Reading { input: stdin, bad_line, max_payload, clock, parts }.run();
    });
    let started = Instant::now();
    let mut sending = Sending::new(target, context);
    let mut waiting = Vec::with_capacity(GROUPS);
    while handed.recv_many(&mut waiting, GROUPS).await > 0 {
        sending.take(std::mem::take(&mut waiting)).await?;
    }
    reading.join().map_err(|_| anyhow!("{}, then reading stdin failed", sending.so_far()))?;
    sending.finish(started.elapsed(), context)
}

struct Reading<R> {
    input: BufReader<R>,
    bad_line: BadLine,
    max_payload: usize,
    /// What the server's clock said when.
    clock: (Timestamp, Instant),
    parts: mpsc::Sender<Part>,
}

impl<R: Read> Reading<R> {
    /// Reads to the end, to a bad line, or until nobody listens any more.
    fn run(mut self) {
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
                return;
            }
            // With an empty buffer the next read may wait for long: what is here goes first.
            let full = group.len() >= GROUP_LINES || bytes >= GROUP_BYTES || self.input.buffer().is_empty();
            if full && !group.is_empty() {
                bytes = 0;
                if self.parts.blocking_send(Part::Jobs(std::mem::take(&mut group))).is_err() {
                    return;
                }
            }
        }
        if !group.is_empty() && self.parts.blocking_send(Part::Jobs(group)).is_err() {
            tracing::debug!("nobody takes the last lines: sending has failed");
        }
    }

    fn job(&self, text: &[u8]) -> Result<Submission, String> {
        if text.len() as u64 >= LONGEST_LINE {
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
        line::parse(text, self.max_payload, self.clock.0.after(self.clock.1.elapsed()))
    }
}

struct Sending {
    producer: Producer,
    queue: String,
    bar: indicatif::ProgressBar,
    accepted: u64,
    /// Those of the accepted that were there already.
    existing: u64,
    /// The last line whose job is accepted, as are all before it.
    accepted_line: u64,
    rejected: u64,
    told: Vec<Rejected>,
}

impl Sending {
    fn new(target: Target, context: &Context) -> Self {
        let bar = output::progress(context.output, None, "jobs accepted");
        let Target { name, producer, .. } = target;
        Self {
            producer,
            queue: name.to_string(),
            bar,
            accepted: 0,
            existing: 0,
            accepted_line: 0,
            rejected: 0,
            told: Vec::new(),
        }
    }

    /// Sends the jobs of these parts, then fails if one of them says so.
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
                Part::Bad(rejected) => end = Some(self.bad(&rejected)),
                Part::Broken(error) => end = Some(anyhow!(error).context("stdin cannot be read")),
            }
        }
        self.send(jobs, &lines).await?;
        match end {
            Some(error) => Err(error.context(self.so_far())),
            None => Ok(()),
        }
    }

    async fn send(&mut self, jobs: Vec<Submission>, lines: &[u64]) -> anyhow::Result<()> {
        let (mut sent, mut existing) = (0, 0);
        let result = self.producer.submit_or_find_all(jobs, |answers| {
            sent += answers.len();
            existing += answers.iter().filter(|answer| answer.existing().is_some()).count();
            self.bar.inc(answers.len() as u64);
        });
        let result = result.await;
        self.existing += existing as u64;
        self.accepted += sent as u64;
        if let Some(line) = sent.checked_sub(1).and_then(|last| lines.get(last)) {
            self.accepted_line = *line;
        }
        let (Err(error), Some(last)) = (result, lines.last()) else { return Ok(()) };
        let doubt = format!("of the lines {} to {last} some may be accepted too", self.accepted_line + 1);
        Err(draft::refused(error)).with_context(|| format!("{}; {doubt}", self.so_far()))
    }

    fn reject(&mut self, rejected: Rejected) {
        self.rejected += 1;
        if self.told.len() < TOLD {
            self.told.push(rejected);
        }
    }

    fn bad(&self, rejected: &Rejected) -> anyhow::Error {
        let Rejected { line, error } = rejected;
        anyhow!("line {line} is no job: {} (--skip-bad skips such lines)", harmless(error))
    }

    fn so_far(&self) -> String {
        format!("{} jobs are accepted, all up to line {}", self.accepted, self.accepted_line)
    }

    fn finish(self, elapsed: Duration, context: &Context) -> anyhow::Result<Exit> {
        self.bar.finish_and_clear();
        if self.accepted + self.rejected == 0 {
            bail!(crate::cli::Wrong("stdin holds no jobs: --bulk reads one JSON object per line".to_owned()));
        }
        let seconds = elapsed.as_secs_f64();
        let summary = Summary {
            queue: self.queue,
            accepted: self.accepted,
            existing: self.existing,
            rejected: self.rejected,
            rejected_lines: self.told,
            seconds,
            jobs_per_second: (self.accepted as f64 / seconds.max(1e-6)).round(),
        };
        context.output.print(&summary, |summary| show(summary, elapsed))?;
        Ok(Exit::Done)
    }
}

fn show(summary: &Summary, elapsed: Duration) -> String {
    let mut text = format!(
        "{} jobs accepted by the queue {} in {} ({:.0} jobs/s)",
        summary.accepted,
        summary.queue,
        times::short(elapsed),
        summary.jobs_per_second
    );
    if summary.existing > 0 {
        text += &format!("\n{} of them were there already", summary.existing);
    }
    if summary.rejected > 0 {
        text += &format!("\nlines rejected: {}", summary.rejected);
        for Rejected { line, error } in &summary.rejected_lines {
            text += &format!("\n  line {line}: {}", harmless(error));
        }
    }
    text
}
