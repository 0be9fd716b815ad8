//! How runs of steps begin and end. One script tells Redis about several, of different jobs. See `step_begin.lua` and
//! `step_end.lua`.

use fred::types::{Key, Value};

use crate::broker::attempt::call::{JobsCall, only};
use crate::broker::attempt::settle::flag;
use crate::broker::attempt::steps::StepLedgers;
use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::{Answer, Queue, bytes, millis};
use crate::job::{
    ConsumerName, EntryId, JobSpec, Lane, Life, StepEnd, StepKind, StepName, StepRecord, Timestamp, cut,
};

scripts! { STEP_BEGIN "step_begin", STEP_END "step_end" }

/// The answer of `step_begin` to a run that wants to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepBegun {
    /// The run may start.
    Start,
    /// Another process settled the entry.
    Stale,
    /// It may not run: the ledger says why.
    Refused,
}

/// The outcome of reporting a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepEnded {
    /// It is in the ledger.
    Recorded,
    /// It is in the ledger, although the step was considered unknown.
    Late,
    /// Another run or an operator came first.
    Stale,
}

/// A run of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepRun<'a> {
    pub(crate) step: &'a StepName,
    pub(crate) kind: StepKind,
    /// A unique name for each run of an entry's steps.
    pub(crate) run: &'a str,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'a> {
    pub(crate) run: StepRun<'a>,
    pub(crate) end: &'a StepEnd,
    /// Why the handler dropped the whole job, if it did.
    pub(crate) dropped: Option<&'a str>,
    /// The run that this consumer starts next, if it is known.
    pub(crate) next: Option<StepRun<'a>>,
}

/// What became of the report of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepReported {
    pub(crate) ended: StepEnded,
    /// When it was recorded.
    pub(crate) now: Timestamp,
    /// The answer to the run that starts next; `None` if it must ask on its own.
    pub(crate) begun: Option<StepBegun>,
}

/// What a script is told about one run.
#[derive(Debug, Clone)]
pub(crate) struct StepCall {
    /// Which script is told, and in which lane the job is: what all runs of one script have in common.
    pub(crate) kind: (StepScript, Lane),
    entry: EntryId,
    life: Life,
    ledger: Key,
    args: Vec<Value>,
}

/// A script about runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepScript {
    /// `step_begin`.
    Begin,
    /// `step_end`.
    End,
}

/// The answer about one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepAnswer {
    /// That of `step_begin`.
    Begun(StepBegun),
    /// That of `step_end`.
    Reported(StepReported),
}

impl StepCall {
    fn new(queue: &Queue, script: StepScript, job: &JobSpec, args: Vec<Value>) -> Self {
        let (entry, life, ledger) = (job.entry, job.life.clone(), queue.keys.ledger(&job.id));
        Self { kind: (script, job.lane), entry, life, ledger, args }
    }

    /// Returns about how many bytes it sends.
    pub(crate) fn bytes(&self) -> usize {
        self.args.iter().map(|value| value.as_bytes().map_or(size_of::<i64>(), <[u8]>::len)).sum()
    }
}

impl StepLedgers<'_> {
    /// Prepares the question whether a run of a step may start, which records the start. `plan` is that of the job, and
    /// `has_read` whether the caller knows the ledger: if it does not, and there is one, the run is refused.
    pub(crate) fn begin(
        self,
        job: &JobSpec,
        StepRun { step, kind, run }: StepRun<'_>,
        (plan, has_read): (&str, bool),
    ) -> StepCall {
        let args = vec![run.into(), step.as_str().into(), kind.as_str().into(), plan.into(), flag(!has_read)];
        StepCall::new(self.queue, StepScript::Begin, job, args)
    }

    /// Prepares the report of how a run of a step ended and, in the same step, that the next run starts, if one is named and
    /// may start.
    pub(crate) fn end(
        self,
        job: &JobSpec,
        EndedRun { run: StepRun { step, run, .. }, end, dropped, next }: EndedRun<'_>,
    ) -> StepCall {
        let (kind, error) = end.error.as_ref().map_or(("", ""), |(kind, error)| (*kind, error.as_str()));
        let error = cut(error.to_owned(), StepRecord::MAX_ERROR_BYTES);
        let result = end.result.as_ref().filter(|result| result.len() <= StepRecord::MAX_RESULT_BYTES);
        let args = vec![
            step.as_str().into(),
            run.into(),
            end.state.as_str().into(),
            i64::from(end.attempts).into(),
            end.delay.map_or_else(|| Value::from(""), millis),
            kind.into(),
            bytes(error.as_bytes()),
            result.map_or_else(|| Value::from(""), |result| Value::Bytes(result.clone())),
            bytes(dropped.unwrap_or_default().as_bytes()),
            next.map_or("", |next| next.step.as_str()).into(),
            next.map_or("", |next| next.kind.as_str()).into(),
        ];
        StepCall::new(self.queue, StepScript::End, job, args)
    }

    /// Tells Redis about runs of one kind. Returns the answer about each, or why Redis refused this one alone.
    pub(crate) async fn tell(
        self,
        consumer: &ConsumerName,
        calls: Vec<StepCall>,
    ) -> Result<Vec<Result<StepAnswer, Error>>, Error> {
        let Some((script, lane)) = calls.first().map(|call| call.kind) else { return Ok(Vec::new()) };
        let source = match script {
            StepScript::Begin => &STEP_BEGIN,
            StepScript::End => &STEP_END,
        };
        let mut call = JobsCall::new(source, (consumer, lane), &[self.queue.keys.stream(lane)]);
        for StepCall { entry, life, ledger, args, .. } in calls {
            call.add((entry, &life), [ledger], args);
        }
        let answers = self.queue.run_each(call).await?;
        let read = |answer: Answer| match script {
            StepScript::Begin => begun(answer.status).map(StepAnswer::Begun),
            StepScript::End => reported(&answer).map(StepAnswer::Reported),
        };
        let read = |answer: Result<Answer, Error>| {
            read(answer?).ok_or_else(|| Error::contract(source.name, "an unknown answer"))
        };
        Ok(answers.into_iter().map(read).collect())
    }

    /// The same about one run.
    pub(crate) async fn tell_one(self, consumer: &ConsumerName, call: StepCall) -> Result<StepAnswer, Error> {
        only("step", self.tell(consumer, vec![call]).await?)
    }
}

/// Reads what `step_begin` says about a run.
fn begun(status: i64) -> Option<StepBegun> {
    match status {
        0 => Some(StepBegun::Stale),
        1 => Some(StepBegun::Start),
        2 | 3 => Some(StepBegun::Refused),
        _ => None,
    }
}

/// Reads what `step_end` says.
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
