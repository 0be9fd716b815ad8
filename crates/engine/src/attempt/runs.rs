//! The runs of steps: a worker records that they begin, and how they end, for several jobs at once.

use std::sync::Arc;

use fred::types::Value;

use crate::attempt::args::flag;
use crate::attempt::call::JobsCall;
use crate::attempt::steps::StepLedgers;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{
    ConsumerName, EntryId, JobSpec, Lane, StepEnd, StepKind, StepName, StepRecord, Timestamp, cut, weight,
};
use crate::{Answer, bytes, millis};

scripts! { STEP_BEGIN "step_begin", STEP_END "step_end" }

/// No entry has this id.
const NO_ENTRY: EntryId = EntryId { ms: 0, seq: 0 };

/// The most fields that a script reads or writes in a ledger for one run.
const FIELDS: usize = 24;

/// A run of a step.
#[derive(Debug, Clone)]
pub struct StepRun {
    /// The step.
    pub step: StepName,
    /// Its kind.
    pub kind: StepKind,
    /// A unique name for each run of an entry's steps.
    pub run: Arc<str>,
}

/// A run that wants to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The run.
    pub run: StepRun,
    /// The plan of the job.
    pub plan: Arc<str>,
    /// Whether the caller knows the ledger. If it does not, and there is one, the run is refused.
    pub has_read: bool,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct EndedRun {
    /// The run.
    pub run: StepRun,
    /// What its end means for the step.
    pub end: StepEnd,
    /// Why the handler dropped the whole job, if it did.
    pub dropped: Option<String>,
    /// The run that starts next, if it is known.
    pub next: Option<StepRun>,
}

/// The answer of `step_begin` to a run that wants to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepBegun {
    /// The run may start.
    Start,
    /// Another process settled the entry.
    Stale,
    /// It may not run: the ledger says why.
    Refused,
}

/// The outcome of reporting a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEnded {
    /// It is in the ledger.
    Recorded,
    /// It is in the ledger, although the step was considered unknown.
    Late,
    /// Another run or an operator came first.
    Stale,
}

/// What became of the report of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepReported {
    /// Whether it was recorded.
    pub ended: StepEnded,
    /// When it was recorded.
    pub now: Timestamp,
    /// The answer to the run that starts next; `None` if it must ask on its own.
    pub begun: Option<StepBegun>,
}

impl NewRun {
    /// Returns about how many bytes would take Redis as long as recording this; see [`grouped`](super::group::grouped).
    pub fn weight(&self) -> usize {
        weight(self.plan.len(), FIELDS)
    }
}

impl EndedRun {
    /// Returns about how many bytes would take Redis as long as recording this; see [`grouped`](super::group::grouped).
    pub fn weight(&self) -> usize {
        let StepEnd { error, result, .. } = &self.end;
        let error = error.as_ref().map_or(0, |(_, text)| text.len());
        let result = result.as_ref().map_or(0, |result| result.len());
        weight(error + result + self.dropped.as_ref().map_or(0, String::len), FIELDS)
    }

    fn args(&self) -> [Value; 11] {
        let Self { run: StepRun { step, run, .. }, end, dropped, next } = self;
        let (kind, error) = end.error.as_ref().map_or(("", ""), |(kind, error)| (*kind, error.as_str()));
        let error = cut(error.to_owned(), StepRecord::MAX_ERROR_BYTES);
        let result = end.result.as_ref().filter(|result| result.len() <= StepRecord::MAX_RESULT_BYTES);
        args![STEP_END;
            step = step.as_str(),
            run = &**run,
            new_state = end.state.as_str(),
            attempts = i64::from(end.attempts),
            due_in_ms = end.delay.map_or_else(|| Value::from(""), millis),
            kind,
            error_text = bytes(error.as_bytes()),
            result = result.map_or_else(|| Value::from(""), |result| Value::Bytes(result.clone())),
            dropped = bytes(dropped.as_deref().unwrap_or_default().as_bytes()),
            other = next.as_ref().map_or("", |next| next.step.as_str()),
            other_kind = next.as_ref().map_or("", |next| next.kind.as_str()),
        ]
    }
}

impl StepLedgers<'_> {
    /// Asks whether runs of the steps of one lane's jobs may start, and records the starts. Returns for each the answer, or
    /// why Redis refused this one alone. See `step_begin.lua`.
    #[doc(hidden)]
    pub async fn begin_all(
        self,
        consumer: &ConsumerName,
        lane: Lane,
        runs: &[(&JobSpec, &NewRun)],
    ) -> Result<Vec<Result<StepBegun, Error>>, Error> {
        let mut call = JobsCall::new(&STEP_BEGIN, (consumer, lane), &[self.queue.keys.stream(lane)]);
        for (job, NewRun { run: StepRun { step, kind, run }, plan, has_read }) in runs {
            let args = args![STEP_BEGIN;
                run = &**run,
                step = step.as_str(),
                kind = kind.as_str(),
                plan = &**plan,
                is_unread = flag(!has_read),
            ];
            call.add((job.entry, &job.generation), [self.queue.keys.ledger(&job.id)], args);
        }
        let answers = self.queue.run_each(call).await?;
        let read = |answer: Answer| begun(answer.status).ok_or_else(|| Error::contract("step_begin", answer));
        Ok(answers.into_iter().map(|answer| read(answer?)).collect())
    }

    /// Records how runs of the steps of one lane's jobs ended and, in the same step, that the next runs start, if they are
    /// named and may start. Returns for each the answer, or why Redis refused this one alone. See `step_end.lua`.
    #[doc(hidden)]
    pub async fn end_all(
        self,
        consumer: &ConsumerName,
        lane: Lane,
        runs: &[(&JobSpec, &EndedRun)],
    ) -> Result<Vec<Result<StepReported, Error>>, Error> {
        let mut call = JobsCall::new(&STEP_END, (consumer, lane), &[self.queue.keys.stream(lane)]);
        for (job, ended) in runs {
            let entry = if ended.next.is_some() { job.entry } else { NO_ENTRY };
            call.add((entry, &job.generation), [self.queue.keys.ledger(&job.id)], ended.args());
        }
        let answers = self.queue.run_each(call).await?;
        let read = |answer: Answer| reported(&answer).ok_or_else(|| Error::contract("step_end", answer));
        Ok(answers.into_iter().map(|answer| read(answer?)).collect())
    }
}

/// Reads what `step_begin` says about a run.
fn begun(status: i64) -> Option<StepBegun> {
    match status {
        0 => Some(StepBegun::Stale),
        1 => Some(StepBegun::Start),
        2..=4 => Some(StepBegun::Refused),
        _ => None,
    }
}

/// Reads what `step_end` says about a run.
fn reported(answer: &Answer) -> Option<StepReported> {
    let [now, next] = &answer.rest[..] else { return None };
    let ended = match answer.status {
        0 => StepEnded::Stale,
        1 => StepEnded::Recorded,
        2 => StepEnded::Late,
        _ => return None,
    };
    let Value::Integer(next) = next else { return None };
    Some(StepReported { ended, now: decode::timestamp(decode::number(now)?), begun: begun(*next) })
}
