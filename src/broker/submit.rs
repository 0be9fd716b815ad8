//! Jobs with ids, each accepted once.

use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use super::enqueue::{Due, NewJob, Untaken, optional};
use super::error::Error;
use super::{Queue, bytes, decode, millis, script};
use crate::job::{JobId, State};

/// A job with an id, to be accepted once.
#[derive(Debug, Clone)]
pub(crate) struct Identified {
    pub(crate) id: JobId,
    job: NewJob,
    /// For how long, at the least, the id is remembered.
    window: Duration,
}

/// What became of a job that was submitted with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It was accepted.
    New,
    /// Its id is known: it was left as it is, in this state.
    Known(State),
}

impl Queue {
    /// Appends or schedules each job unless its id is known, in one round trip. Sending again is safe. See
    /// `scripts/submit.lua`.
    pub(crate) async fn submit(
        &self,
        jobs: &[Identified],
        limit: Option<u64>,
    ) -> Result<Vec<Placed>, Untaken> {
        let own = &self.keys;
        let mut keys: Vec<Key> = vec![own.control.clone(), own.delayed.clone()];
        keys.extend([own.delayed_fields.clone(), own.wake.clone()]);
        keys.extend(own.streams().clone());
        let mut args = vec![optional(limit)];
        for job in jobs {
            keys.push(own.record(&job.id));
            job.write(&mut args);
        }
        let answer = Untaken::unless("submit", self.run(&script::SUBMIT, keys, args).await?)?;
        let placed: Option<Vec<Placed>> = answer.rest.chunks(2).map(placed).collect();
        placed
            .filter(|placed| placed.len() == jobs.len())
            .ok_or_else(|| Error::contract("submit", answer).into())
    }
}

impl Identified {
    /// The job's entries say that its id is noted, so that its worker keeps the record.
    pub(crate) fn new(id: JobId, mut job: NewJob, window: Duration) -> Self {
        job.fields.push((Bytes::from_static(b"once"), Bytes::from_static(b"1")));
        Self { id, job, window }
    }

    fn write(&self, args: &mut Vec<Value>) {
        let job_type =
            self.job.fields.iter().find(|(name, _)| name == "type").map(|(_, value)| value.clone());
        args.extend([bytes(self.id.to_string().as_bytes()), self.job.lane.as_str().into()]);
        args.push(Value::Bytes(job_type.unwrap_or_default()));
        args.extend(self.job.due.args());
        args.push(millis(self.window));
        if self.job.due != Due::Now {
            args.extend([Value::Integer(1), Value::Bytes(self.job.packed(&self.id).into())]);
            return;
        }
        args.push(Value::Integer(2 + 2 * self.job.fields.len() as i64));
        args.extend([Value::from_static_str("id"), bytes(self.id.to_string().as_bytes())]);
        let fields = self.job.fields.iter();
        args.extend(fields.flat_map(|(name, value)| [name, value]).map(|part| Value::Bytes(part.clone())));
    }
}

fn placed(item: &[Value]) -> Option<Placed> {
    let [verdict, state] = item else { return None };
    match decode::data(verdict) {
        b"new" => Some(Placed::New),
        b"known" => decode::text(state).parse().ok().map(Placed::Known),
        _ => None,
    }
}
