//! Many jobs in one body, one per line. The answer has a line for each, while the body still arrives, so the memory does not
//! grow with the body. A line that is not a job stops nothing.

use std::convert::Infallible;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;
use serde::Serialize;
use streamfleet::job::{Encoding, Lane, State, Timestamp};
use streamfleet::schema::Schemas;
use streamfleet::{Queue, RedisError, Submission, SubmitError, Submitted};
use streamfleet_operations::submit::{Receipt, Target, read_draft};

use super::key::{Marked, Origin, check_own_id};
use super::lines::{Broken, Line, Lines, More};
use super::{check_chain, is_decoded, target_of};
use crate::console::access::Person;
use crate::console::api::Call;
use crate::console::api::failure::{invalid, redis, refused, refused_as};
use crate::console::api::lines::{lines_of, write};
use crate::console::api::weight::weight;
use crate::console::api::work_limits::{Held, Work};
use crate::console::app_state::AppState;
use crate::console::problem::Problem;
use crate::console::problem_kind::ProblemKind;

/// How many jobs are sent at once …
const GROUP: usize = 250;

/// … or how many bytes of lines.
const GROUP_BYTES: usize = 1 << 20;

/// How much memory a body takes: a line that has not ended, and a group.
const BATCH_BYTES: usize = 12 << 20;

/// The most memory that a line takes whose payload has to be decoded.
const MAX_WEIGHT: usize = 32 << 20;

/// What became of a line.
#[derive(Serialize)]
struct Fate {
    /// Its number, from 1.
    line: u64,
    /// The job, if it is accepted.
    #[serde(flatten)]
    job: Option<Receipt>,
    /// Why it is not, or why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// The last line of the answer.
#[derive(Default, Serialize)]
struct Summary {
    /// True if the whole body was read and every line has got its answer.
    done: bool,
    accepted: u64,
    /// How many of the accepted jobs existed already.
    existing: u64,
    rejected: u64,
    /// How many may or may not be accepted.
    unknown: u64,
    /// Why the rest was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// Submits the lines of a body.
pub(super) async fn submit(
    call: &Call,
    queue: Queue,
    origin: Option<Origin>,
    body: Body,
) -> Result<Response, Problem> {
    let app = &call.app;
    let place = app.work_limits.begin(Work::Batch)?;
    app.work_limits.hold(BATCH_BYTES)?;
    let now = queue.clock().await.map_err(redis("failed to read the clock of Redis"))?;
    let mut target = target_of(app, queue);
    // Each line is checked on its own, because one that does not fit must not stop the others of its group.
    target.producer = target.producer.schemas(Schemas::default());
    let batch = Batch {
        app: app.clone(),
        person: call.person.clone(),
        target,
        origin,
        lines: Lines::of(body),
        clock: (now, Instant::now()),
        number: 0,
        summary: Summary::default(),
        _place: place,
    };
    let answers = stream::unfold(Some(batch), |batch| async move {
        let mut batch = batch?;
        let (text, is_last) = batch.next().await;
        Some((Ok::<_, Infallible>(Bytes::from(text)), (!is_last).then_some(batch)))
    });
    Ok(lines_of(answers))
}

/// A body that is being submitted.
struct Batch {
    app: AppState,
    person: Person,
    target: Target,
    origin: Option<Origin>,
    lines: Lines,
    /// The time of the server, and the local instant at which it was read.
    clock: (Timestamp, Instant),
    /// The number of the last line.
    number: u64,
    summary: Summary,
    _place: Held,
}

/// A job that a line describes: its lane, its state once it is accepted, and what its key made of it.
type Read = ((Lane, State), Option<Marked>);

/// Lines that are sent together.
#[derive(Default)]
struct Group {
    /// Each line with its number, and what it describes, or why that is not a job.
    lines: Vec<(u64, Result<Read, Problem>)>,
    /// The jobs of the lines that are jobs, each with its type.
    submissions: Vec<(String, Submission)>,
    bytes: usize,
}

impl Group {
    fn is_full(&self) -> bool {
        self.lines.len() >= GROUP || self.bytes >= GROUP_BYTES
    }

    /// Refuses the lines whose payload does not fit its schema, beside the threads that answer other requests.
    async fn checked_aside(self, schemas: Schemas) -> Result<Self, Problem> {
        if schemas.is_empty() {
            return Ok(self);
        }
        let checked = tokio::task::spawn_blocking(move || self.checked(&schemas)).await;
        checked.map_err(|_| Problem::busy("the console stops"))
    }

    fn checked(self, schemas: &Schemas) -> Self {
        let mut checked = Self { bytes: self.bytes, ..Self::default() };
        let mut submissions = self.submissions.into_iter();
        for (number, read) in self.lines {
            let read = read.and_then(|read| {
                let (own, submission) = submissions.next().expect("each line that is a job has one");
                submission.fits_schema(schemas).map_err(|error| refused_as(&own, &error))?;
                checked.submissions.push((own, submission));
                Ok(read)
            });
            checked.lines.push((number, read));
        }
        checked
    }
}

/// Why no further lines are read: the body has ended, or else something went wrong.
type End = Result<(), Problem>;

impl Batch {
    /// Submits the lines that have arrived, or waits for some. Returns the next part of the answer, and whether it is the last.
    async fn next(&mut self) -> (Vec<u8>, bool) {
        let (group, mut end) = self.group().await;
        let mut text = Vec::new();
        if let Err(problem) = self.send(group, &mut text).await {
            end = Some(Err(problem));
        }
        match end {
            None => return (text, false),
            Some(Ok(())) => self.summary.done = true,
            Some(Err(problem)) => self.summary.problem = Some(problem),
        }
        write(&mut text, &self.summary);
        (text, true)
    }

    /// Takes the lines that have arrived, or waits for some.
    async fn group(&mut self) -> (Group, Option<End>) {
        let mut group = Group::default();
        if self.app.stopping.is_requested() {
            return (group, Some(Err(Problem::busy("the console stops"))));
        }
        loop {
            while let Some(line) = self.lines.ready() {
                self.add(&mut group, line);
                if group.is_full() {
                    return (group, None);
                }
            }
            // The next piece may take long, so what is here goes first.
            if !group.lines.is_empty() {
                return (group, None);
            }
            match self.lines.more().await {
                Ok(More::Some) => {}
                Ok(More::Last(text)) => self.add(&mut group, Line::Text(text)),
                Ok(More::End) => return (group, Some(Ok(()))),
                Err(broken) => return (group, Some(Err(broken_off(&broken)))),
            }
        }
    }

    fn add(&mut self, group: &mut Group, line: Line) {
        self.number += 1;
        let read = match line {
            Line::TooLong => Err(Problem::field("body", "the line is longer than a job can be")),
            Line::Text(text) if text.trim_ascii().is_empty() => return,
            Line::Text(text) => {
                group.bytes += text.len();
                self.read(&text).map(|(read, submission)| {
                    group.submissions.push(submission);
                    read
                })
            }
        };
        group.lines.push((self.number, read));
    }

    fn read(&self, text: &[u8]) -> Result<(Read, (String, Submission)), Problem> {
        let now = self.clock.0.after(self.clock.1.elapsed());
        if is_decoded(text, &self.app) && weight(text, Encoding::Json) > MAX_WEIGHT {
            let why =
                "the line has too many values to be checked among others: send it alone, as application/json";
            return Err(Problem::field("body", why).with_status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        let mut draft = read_draft(text, now).map_err(invalid)?;
        check_own_id(draft.id.as_ref(), "/id")?;
        check_chain(&self.person, &draft)?;
        let marked = self.origin.as_ref().and_then(|origin| origin.mark(&mut draft, self.number));
        let (place, own) = (draft.place(), draft.job_type.clone());
        let submission = draft.submission(self.target.max_payload).map_err(|error| refused(&error))?;
        Ok(((place, marked), (own, submission)))
    }

    /// Submits a group, and writes what became of each line.
    async fn send(&mut self, group: Group, text: &mut Vec<u8>) -> End {
        let group = group.checked_aside(self.app.schemas.clone()).await?;
        let mut answers: Vec<Option<_>> = group.submissions.iter().map(|_| None).collect();
        let submissions = group.submissions.into_iter().map(|(_, submission)| submission);
        let sent = self.target.producer.submit_each(submissions, |at, answer| answers[at] = Some(answer));
        let sent = sent.await;
        let mut answers = answers.into_iter();
        for (line, read) in group.lines {
            let fate = match read {
                Ok(read) => match answers.next().flatten() {
                    Some(answer) => accepted(&self.target.queue, read, answer).await,
                    None => Err(not_sent(sent.as_ref().err())),
                },
                Err(problem) => Err(problem),
            };
            self.summary.count(&fate);
            let (job, problem) = match fate {
                Ok(job) => (Some(job), None),
                Err(problem) => (None, Some(problem)),
            };
            write(text, &Fate { line, job, problem });
        }
        sent.map_err(|error| refused(&error))
    }
}

impl Summary {
    fn count(&mut self, fate: &Result<Receipt, Problem>) {
        match fate {
            Ok(job) => {
                self.accepted += 1;
                self.existing += u64::from(job.existing);
            }
            // Only its durability is not confirmed.
            Err(problem) if problem.status() == StatusCode::GATEWAY_TIMEOUT => self.accepted += 1,
            Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => self.unknown += 1,
            Err(_) => self.rejected += 1,
        }
    }
}

/// What became of a job.
async fn accepted(
    queue: &Queue,
    (place, marked): Read,
    answer: Result<Submitted, SubmitError>,
) -> Result<Receipt, Problem> {
    let submitted = match answer {
        Ok(submitted) => submitted,
        Err(SubmitError::Broker(error @ RedisError::Unknown { .. })) => return Err(unknown(&error)),
        Err(error) => return Err(refused(&error)),
    };
    if let Some(marked) = marked {
        marked.check(queue, &submitted).await?;
    }
    Ok(Receipt::of(submitted, queue.name(), place))
}

/// The job of a line was not sent, because of an error about others.
fn not_sent(error: Option<&SubmitError>) -> Problem {
    let why = error.map_or_else(|| "there was no answer".to_owned(), ToString::to_string);
    Problem::conflict(format!("the job was not submitted: {why}"))
}

/// Redis did not answer about the job of a line.
fn unknown(error: &RedisError) -> Problem {
    let detail = format!("the job may or may not be submitted: {error}");
    Problem::new(ProblemKind::OutcomeUnknown, detail)
}

fn broken_off(broken: &Broken) -> Problem {
    let kind = match broken {
        Broken::TooLarge => ProblemKind::BodyTooLarge,
        Broken::Read(_) => ProblemKind::BodyBrokeOff,
    };
    Problem::new(kind, broken.to_string())
}
