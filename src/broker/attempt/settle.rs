//! The transitions of one attempt. Each is one script and safe to resend.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use crate::broker::attempt::bury::Letter;
use crate::broker::attempt::followup::FollowUpArgs;
use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::submit::offload::ScriptFields;
use crate::broker::{Answer, Queue, bytes, millis};
use crate::job::{
    ConsumerName, Deferral, End, Envelope, FollowUps, JobId, JobSpec, Settlement, TraceContext, Tracking,
    Unroutable,
};
use crate::sabotage::{self, Sabotage};

scripts! { BEGIN "begin", CANCELLED "cancelled", COMPLETE "complete", DEFER "defer", RELEASE "release" }

/// The answer of `begin` to an attempt that wants to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The attempt may start.
    Start,
    /// Another process settled this entry.
    Stale,
    /// An earlier attempt succeeded after it had been given up: the job is done.
    DoneAlready,
    /// Its `expires_at_ms` has passed.
    Expired,
    /// The job's cancellation was requested.
    CancelRequested,
    /// The job is not due for this long.
    NotDue(Duration),
}

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The settlement took effect.
    Moved,
    /// Another process settled this entry: nothing was changed.
    Stale,
    /// An attempt of the job succeeded after it had been given up; its retry never starts.
    Late,
    /// The job's cancellation was requested, so it is cancelled and does not run again.
    Cancelled,
    /// The entry was already settled, and no trace of this life is left: a plain acknowledgement settled it.
    Untraced,
}

/// A job with the fields of the entry that carries it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenJob<'a> {
    pub(crate) job: &'a JobSpec,
    pub(crate) envelope: &'a Envelope,
    /// The span of the attempt that ended, if it had one.
    pub(crate) trace: Option<&'a TraceContext>,
}

/// Returns the entry's fields with `add` in place of those that `replaced` selects. If the attempt had a span, the
/// fields link to it.
pub(in crate::broker) fn edited(
    envelope: &Envelope,
    trace: Option<&TraceContext>,
    replaced: impl Fn(&[u8]) -> bool,
    add: &[(&[u8], &[u8])],
) -> Envelope {
    const LINK: &[u8] = b"trace_link";
    let Some(trace) = trace else { return envelope.edited(replaced, add) };
    let add: Vec<_> = add.iter().copied().chain([(LINK, trace.as_str().as_bytes())]).collect();
    envelope.edited(|name| name == LINK || replaced(name), &add)
}

/// What is noted about an attempt that ended.
#[derive(Debug, Clone)]
pub(crate) struct AttemptSummary<'a> {
    /// How long it ran.
    pub(crate) elapsed: Duration,
    /// How it ended, in one word.
    pub(crate) outcome: &'a str,
    /// The consumer that ran it.
    pub(crate) worker: &'a str,
}

impl Queue {
    /// Asks whether a delivered attempt may start. See `begin.lua`.
    pub(crate) async fn begin(
        &self,
        consumer: &ConsumerName,
        job: &JobSpec,
        keep_record: bool,
    ) -> Result<Begun, Error> {
        let lock = job.follow_ups.as_deref().and_then(FollowUps::freed_at_start);
        let optional = |time: Option<crate::job::Timestamp>| {
            time.map_or_else(|| Value::from(""), |time| Value::Integer(time.as_ms().cast_signed()))
        };
        let mut args = vec![
            consumer.as_str().into(),
            job.entry.to_string().into(),
            optional(job.not_before),
            optional(job.expires_at),
            flag(keep_record),
            job.job_type.as_str().into(),
            job.lane.as_str().into(),
            Value::Integer(job.created.as_ms().cast_signed()),
            flag(job.is_repeated()),
            job.id.to_string().into(),
            flag(lock.is_some()),
            text(&job.life),
        ];
        args.extend(letter_of(job));
        let mut keys = vec![self.keys.stream(job.lane).clone(), self.keys.record(&job.id)];
        keys.extend([self.keys.cancels.clone(), self.keys.lock(lock), self.keys.dead.clone()]);
        let answer = self.run(&BEGIN, keys, args).await?;
        match (answer.status, answer.rest.first().and_then(decode::number)) {
            (0, _) => Ok(Begun::Stale),
            (1, _) => Ok(Begun::Start),
            (2, _) => Ok(Begun::DoneAlready),
            (3, _) => Ok(Begun::Expired),
            (5, _) => Ok(Begun::CancelRequested),
            (4, Some(ms)) => Ok(Begun::NotDue(Duration::from_millis(ms))),
            _ => Err(Error::contract("begin", answer)),
        }
    }

    /// Lists the keys that the scripts of a job's attempt touch, for messages. Follow-up jobs may add others.
    pub(crate) fn keys_of(&self, job: &JobId) -> String {
        let keys = [self.keys.record(job), self.keys.ledger(job)];
        let shared = [&self.keys.dead, &self.keys.delayed, &self.keys.delayed_fields, &self.keys.cancels];
        let keys = keys.iter().chain(shared).map(|key| key.as_str_lossy().into_owned());
        keys.collect::<Vec<_>>().join(", ")
    }

    /// Carries out the decision about an attempt, in one script.
    pub(crate) async fn apply(
        &self,
        consumer: &ConsumerName,
        taken: TakenJob<'_>,
        settlement: &Settlement,
        keep: KeepRecord<'_>,
        ran: &AttemptSummary<'_>,
    ) -> Result<Applied, Error> {
        match settlement {
            Settlement::Ack => self.complete(consumer, taken, keep, ran).await,
            Settlement::Defer(to) => {
                let why = to.error.as_deref().map(|error| format!("cancelled; its last attempt: {error}"));
                let answer = self.defer(consumer, taken, to, ran).await?;
                self.or_cancelled(answer, (consumer, taken, why), keep, ran).await
            }
            Settlement::Release => {
                let answer = self.release(consumer, taken, ran).await?;
                self.or_cancelled(answer, (consumer, taken, None), keep, ran).await
            }
            Settlement::Bury(burial) => {
                let end = End::Dead(burial.reason, &burial.error);
                let letter =
                    Letter::of(taken, FollowUpArgs::of(&self.keys, taken, end), self.offloaded_of(taken));
                let answer = self.bury(consumer, letter, burial, ran).await?;
                let why = Some(format!("cancelled; its last attempt: {}", burial.error));
                self.or_cancelled(answer, (consumer, taken, why), keep, ran).await
            }
            Settlement::Cancel(why) => {
                self.cancelled(consumer, taken, (why, keep.retention_of_cancelled()), ran).await
            }
        }
    }

    /// The outcome for an attempt that failed or was released. If the job's cancellation was requested, the script
    /// changed nothing, and the attempt now cancels the job. A process that dies in between leaves the entry pending,
    /// and the request to the process that claims it.
    async fn or_cancelled(
        &self,
        answer: Answer,
        (consumer, taken, why): (&ConsumerName, TakenJob<'_>, Option<String>),
        keep: KeepRecord<'_>,
        ran: &AttemptSummary<'_>,
    ) -> Result<Applied, Error> {
        if answer.status != 3 {
            return self.applied(answer);
        }
        let why = why.as_deref().unwrap_or("cancelled");
        let retention = keep.retention_of_cancelled();
        let applied = self.cancelled(consumer, taken, (why, retention), ran).await?;
        Ok(if applied == Applied::Moved { Applied::Cancelled } else { applied })
    }

    /// Ends a job as done. See `complete.lua`.
    async fn complete(
        &self,
        consumer: &ConsumerName,
        taken: TakenJob<'_>,
        keep: KeepRecord<'_>,
        ran: &AttemptSummary<'_>,
    ) -> Result<Applied, Error> {
        let job = taken.job;
        let FollowUpArgs { keys: [lock, batch], ends } =
            FollowUpArgs::of(&self.keys, taken, End::Done(keep.result));
        let keys = vec![
            self.keys.stream(job.lane).clone(),
            self.keys.delayed.clone(),
            self.keys.delayed_fields.clone(),
            self.keys.record(&job.id),
            lock,
            batch,
            self.keys.ledger(&job.id),
            self.keys.receipts(consumer.as_str()),
            self.offloaded_of(taken),
        ];
        let args = vec![
            consumer.as_str().into(),
            job.entry.to_string().into(),
            job.id.to_string().into(),
            millis(ran.elapsed),
            keep.result.map_or_else(|| Value::from(""), |result| Value::Bytes(result.clone())),
            millis(keep.retention),
            job.job_type.as_str().into(),
            job.lane.as_str().into(),
            Value::Integer(job.created.as_ms().cast_signed()),
            keep.mode().into(),
            ends,
            text(&job.life),
        ];
        self.applied(self.run(&COMPLETE, keys, args).await?)
    }

    /// Moves an attempt to the delayed set. See `defer.lua`.
    async fn defer(
        &self,
        consumer: &ConsumerName,
        taken: TakenJob<'_>,
        to: &Deferral,
        ran: &AttemptSummary<'_>,
    ) -> Result<Answer, Error> {
        let job = taken.job;
        let next = self.offload_large(next_attempt(taken, to), &job.life).await?;
        let keys = vec![
            self.keys.stream(job.lane).clone(),
            self.keys.delayed.clone(),
            self.keys.delayed_fields.clone(),
            self.keys.record(&job.id),
            self.keys.wake.clone(),
            self.keys.cancels.clone(),
            self.keys.receipts(consumer.as_str()),
            self.offloaded_of(taken),
            next.offloaded,
        ];
        let packed = next.envelope.pack(job.lane);
        let args = vec![
            consumer.as_str().into(),
            job.entry.to_string().into(),
            job.id.to_string().into(),
            millis(to.delay),
            Value::Bytes(packed.into()),
            if to.error.is_some() { "retrying" } else { "scheduled" }.into(),
            millis(ran.elapsed),
            ran.outcome.into(),
            ran.worker.into(),
            bytes(to.error.as_deref().unwrap_or_default().as_bytes()),
            job.job_type.as_str().into(),
            job.lane.as_str().into(),
            Value::Integer(job.created.as_ms().cast_signed()),
            text(&job.life),
            job.not_before.map_or_else(|| Value::from(""), |due| Value::Integer(due.as_ms().cast_signed())),
            flag(to.unroutable == Some(Unroutable::Now)),
        ];
        self.run(&DEFER, keys, args).await
    }

    /// Returns an entry unchanged to its lane. See `release.lua`.
    async fn release(
        &self,
        consumer: &ConsumerName,
        taken: TakenJob<'_>,
        ran: &AttemptSummary<'_>,
    ) -> Result<Answer, Error> {
        let job = taken.job;
        let id = job.id.to_string();
        let created = job.created.as_ms().to_string();
        let life = job.life.to_string();
        let identity: [(&[u8], &[u8]); 3] =
            [(b"id", id.as_bytes()), (b"created_ms", created.as_bytes()), (b"life", life.as_bytes())];
        let replaced = |name: &[u8]| matches!(name, b"id" | b"created_ms" | b"life");
        let fields = edited(taken.envelope, taken.trace, replaced, &identity);
        let ScriptFields { envelope: fields, offloaded } = self.offload_large(fields, &job.life).await?;
        let mut keys = vec![self.keys.stream(job.lane).clone(), self.keys.record(&job.id)];
        keys.extend([self.keys.cancels.clone(), self.keys.receipts(consumer.as_str())]);
        keys.extend([self.offloaded_of(taken), offloaded]);
        let mut args = vec![consumer.as_str().into(), job.entry.to_string().into(), bytes(life.as_bytes())];
        // A handler that was interrupted within its first millisecond did run.
        let elapsed =
            if ran.elapsed.is_zero() { ran.elapsed } else { ran.elapsed.max(Duration::from_millis(1)) };
        args.push(millis(elapsed));
        flatten(&fields, &mut args);
        self.run(&RELEASE, keys, args).await
    }

    /// Ends a cancelled job. See `cancelled.lua`.
    async fn cancelled(
        &self,
        consumer: &ConsumerName,
        taken: TakenJob<'_>,
        (why, retention): (&str, Duration),
        ran: &AttemptSummary<'_>,
    ) -> Result<Applied, Error> {
        let job = taken.job;
        let FollowUpArgs { keys: [lock, batch], ends } = FollowUpArgs::of(&self.keys, taken, End::Cancelled);
        let keys = vec![
            self.keys.stream(job.lane).clone(),
            self.keys.record(&job.id),
            lock,
            batch,
            self.keys.ledger(&job.id),
            self.keys.cancels.clone(),
            self.keys.cancel_places.clone(),
            self.keys.receipts(consumer.as_str()),
            self.offloaded_of(taken),
        ];
        let args = vec![
            consumer.as_str().into(),
            job.entry.to_string().into(),
            bytes(why.as_bytes()),
            millis(ran.elapsed),
            ran.outcome.into(),
            ran.worker.into(),
            job.job_type.as_str().into(),
            job.lane.as_str().into(),
            Value::Integer(job.created.as_ms().cast_signed()),
            millis(retention),
            job.id.to_string().into(),
            ends,
            text(&job.life),
        ];
        self.applied(self.run(&CANCELLED, keys, args).await?)
    }

    pub(in crate::broker) fn applied(&self, answer: Answer) -> Result<Applied, Error> {
        match answer.status {
            0 => Ok(Applied::Stale),
            1 => Ok(Applied::Moved),
            2 => Ok(Applied::Late),
            4 => Ok(Applied::Untraced),
            _ => Err(Error::contract("settle", answer)),
        }
    }
}

/// Whether and for how long a job's record is kept after its end, and with which result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepRecord<'a> {
    /// Whether there is a record.
    pub(crate) record: bool,
    pub(crate) tracking: Tracking,
    pub(crate) retention: Duration,
    pub(crate) result: Option<&'a Bytes>,
}

impl KeepRecord<'_> {
    fn mode(&self) -> &'static str {
        match (self.record, self.tracking) {
            (false, _) => "0",
            (true, Tracking::None) => "forget",
            (true, Tracking::Failures | Tracking::All) => "1",
        }
    }

    /// How long the record of a cancelled job is kept; zero if none is wanted.
    fn retention_of_cancelled(&self) -> Duration {
        match self.tracking {
            Tracking::None => Duration::ZERO,
            Tracking::Failures | Tracking::All => self.retention,
        }
    }
}

/// Returns the fields of the next attempt: counters updated, times that have passed removed, identity fixed.
fn next_attempt(taken: TakenJob<'_>, to: &Deferral) -> Envelope {
    let job = taken.job;
    let id = job.id.to_string();
    let life = job.life.to_string();
    let failures = match &to.error {
        Some(_) if sabotage::is(Sabotage::RetryNotCounted) => job.attempt,
        None if sabotage::is(Sabotage::SnoozeCounted) => to.attempt + 1,
        Some(_) | None => to.attempt,
    };
    let (attempt, lost, created) =
        (failures.to_string(), to.lost.to_string(), job.created.as_ms().to_string());
    let mut add: Vec<(&[u8], &[u8])> = vec![(b"id", id.as_bytes()), (b"created_ms", created.as_bytes())];
    if failures > 0 {
        add.push((b"attempt", attempt.as_bytes()));
    }
    if to.lost > 0 {
        add.push((b"lost", lost.as_bytes()));
    }
    // A later dead letter shows the time that its producer set.
    for (time, kept) in
        [(b"delay_ms".as_slice(), b"was_delay_ms".as_slice()), (b"run_at_ms", b"was_run_at_ms")]
    {
        add.extend(taken.envelope.get(time).map(|time| (kept, time)));
    }
    let replaced = |name: &[u8]| {
        matches!(name, b"id" | b"created_ms" | b"life" | b"attempt" | b"lost" | b"run_at_ms" | b"delay_ms")
            || name == UNROUTABLE
    };
    // Scripts read the life from the beginning of the packed fields.
    let next = edited(taken.envelope, taken.trace, replaced, &add).after(b"life", life.as_bytes());
    // Scripts write the current time over the end.
    match to.unroutable {
        None => next,
        Some(Unroutable::Now) => next.edited(|_| false, &[(UNROUTABLE, b"0000000000000")]),
        Some(Unroutable::Since(at)) => {
            next.edited(|_| false, &[(UNROUTABLE, at.as_ms().to_string().as_bytes())])
        }
    }
}

/// The field with the time since which no worker has known the job's type.
const UNROUTABLE: &[u8] = b"unroutable_ms";

/// Tells `begin` and `bury` about the dead letter whose fields a job has: which life ended in it, and when.
pub(in crate::broker) fn letter_of(job: &JobSpec) -> [Value; 2] {
    let former = job.former.as_deref();
    let life = former.and_then(|former| former.life.as_ref()).map_or_else(|| Value::from(""), text);
    let at = former.and_then(|former| former.dead_at);
    [life, at.map_or_else(|| Value::from(""), |at| at.to_string().into())]
}

/// Converts any value to a text argument.
pub(in crate::broker) fn text(shown: &impl ToString) -> Value {
    shown.to_string().into()
}

pub(in crate::broker) fn flatten(envelope: &Envelope, args: &mut Vec<Value>) {
    args.extend(envelope.fields().flat_map(|(name, value)| [bytes(name), bytes(value)]));
}

fn flag(set: bool) -> Value {
    Value::from(if set { "1" } else { "0" })
}
