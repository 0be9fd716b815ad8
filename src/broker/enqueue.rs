//! New jobs into the streams and the delayed set.

use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use super::error::{Class, Error};
use super::{Answer, Queue, bytes, decode, script};
use crate::job::{EntryId, Envelope, JobId, Lane, Timestamp};

/// When a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// As soon as a worker is free.
    Now,
    /// After this long, by the server's clock.
    In(Duration),
    /// At this instant of the server's clock.
    At(Timestamp),
}

impl Due {
    /// As the scripts have it: how the milliseconds count, and these.
    pub(super) fn args(self) -> [Value; 2] {
        let (kind, ms) = match self {
            Self::Now => ("now", 0),
            Self::In(delay) => ("in", i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
            Self::At(time) => ("at", time.as_ms().cast_signed()),
        };
        [kind.into(), ms.into()]
    }
}

/// A job to be appended or scheduled: its fields as the wire contract has them, without its id.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub(crate) lane: Lane,
    pub(crate) due: Due,
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

/// Why jobs were not taken.
#[derive(Debug)]
pub(crate) enum Untaken {
    /// The queue would have more jobs than its limit allows. None was taken.
    Full { depth: u64, limit: u64 },
    /// Redis refused, or did not answer.
    Broker(Error),
}

impl From<Error> for Untaken {
    fn from(error: Error) -> Self {
        Self::Broker(error)
    }
}

impl From<Untaken> for Error {
    fn from(untaken: Untaken) -> Self {
        match untaken {
            Untaken::Broker(error) => error,
            Untaken::Full { depth, limit } => {
                let detail = format!("the queue is full: it has {depth} jobs of at most {limit}");
                Self::Refused { command: "enqueue", class: Class::Busy, detail }
            }
        }
    }
}

impl Untaken {
    /// Reads an answer that may be a refusal.
    pub(super) fn unless(name: &'static str, answer: Answer) -> Result<Answer, Self> {
        if answer.status >= 0 {
            return Ok(answer);
        }
        match answer.rest.iter().map(decode::number).collect::<Option<Vec<_>>>().as_deref() {
            Some([depth, limit]) => Err(Self::Full { depth: *depth, limit: *limit }),
            _ => Err(Error::contract(name, answer).into()),
        }
    }
}

impl Queue {
    /// Appends jobs to one lane in one round trip; the ids of their entries come back in the same order. `limit` is the
    /// depth that the queue may reach, where the producer has one of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] where the answer was lost: the jobs may have been accepted. Nothing was accepted after any
    /// other error.
    pub(crate) async fn append(
        &self,
        lane: Lane,
        jobs: &[NewJob],
        limit: Option<u64>,
    ) -> Result<Vec<EntryId>, Untaken> {
        let mut args = Vec::with_capacity(2 + jobs.iter().map(|job| 1 + 2 * job.fields.len()).sum::<usize>());
        args.extend([optional(limit), Value::Integer(jobs.len() as i64)]);
        for job in jobs {
            args.push(Value::Integer(2 * job.fields.len() as i64));
            for (name, value) in &job.fields {
                args.extend([Value::Bytes(name.clone()), Value::Bytes(value.clone())]);
            }
        }
        let answer = self.run(&script::ENQUEUE, self.enqueue_keys(lane), args).await?;
        let answer = Untaken::unless("enqueue", answer)?;
        let ids: Vec<EntryId> = answer.rest.iter().filter_map(decode::entry_id).collect();
        if ids.len() != jobs.len() {
            return Err(Error::contract("enqueue", answer).into());
        }
        Ok(ids)
    }

    pub(super) fn enqueue_keys(&self, lane: Lane) -> Vec<Key> {
        let mut keys = vec![self.keys.stream(lane).clone(), self.keys.control.clone()];
        keys.push(self.keys.delayed.clone());
        keys.extend(self.keys.streams().clone());
        keys
    }

    /// Puts jobs with ids into the delayed set in one round trip. Sending twice does no harm: a job that is in the set
    /// stays as it is.
    pub(crate) async fn schedule(&self, jobs: &[(JobId, NewJob)], limit: Option<u64>) -> Result<(), Untaken> {
        let mut args = Vec::with_capacity(1 + 4 * jobs.len());
        args.push(optional(limit));
        for (id, job) in jobs {
            let due = if job.due == Due::Now { Due::In(Duration::ZERO) } else { job.due };
            args.push(bytes(id.to_string().as_bytes()));
            args.extend(due.args());
            args.push(Value::Bytes(job.packed(id).into()));
        }
        let keys = [&self.keys.delayed, &self.keys.delayed_fields, &self.keys.wake, &self.keys.control];
        let mut keys: Vec<Key> = keys.into_iter().cloned().collect();
        keys.extend(self.keys.streams().clone());
        Untaken::unless("schedule", self.run(&script::SCHEDULE, keys, args).await?).map(drop)
    }
}

impl NewJob {
    /// As the delayed set keeps it.
    pub(super) fn packed(&self, id: &JobId) -> Vec<u8> {
        let text = id.to_string();
        let fields = self.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let identity = std::iter::once((b"id".as_slice(), text.as_bytes()));
        Envelope::new(identity.chain(fields)).pack(self.lane)
    }
}

/// A number as an argument, or ''.
pub(super) fn optional(number: Option<u64>) -> Value {
    number.map_or_else(|| Value::from(""), |number| Value::Integer(number.cast_signed()))
}
