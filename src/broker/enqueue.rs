//! New jobs into the streams and the delayed set.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use super::error::Error;
use super::{Queue, bytes, decode, script};
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

/// A job to be appended or scheduled: its fields as the wire contract has them.
#[derive(Debug, Clone)]
pub struct NewJob {
    pub(crate) id: Option<JobId>,
    pub(crate) lane: Lane,
    pub(crate) due: Due,
    pub(crate) fields: Vec<(Bytes, Bytes)>,
}

impl Queue {
    /// Appends jobs to one lane in one round trip; the ids of their entries come back in the same order.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] where the answer was lost: the jobs may have been accepted. Nothing was accepted after any
    /// other error.
    pub(crate) async fn append(&self, lane: Lane, jobs: &[NewJob]) -> Result<Vec<EntryId>, Error> {
        let mut args = Vec::with_capacity(jobs.iter().map(|job| 3 + 2 * job.fields.len()).sum());
        for job in jobs {
            let id = job.id.as_ref().map(ToString::to_string);
            let count = job.fields.len() + usize::from(id.is_some());
            args.push(Value::Integer(2 * count as i64));
            if let Some(id) = id {
                args.extend([Value::from_static_str("id"), id.into()]);
            }
            for (name, value) in &job.fields {
                args.extend([Value::Bytes(name.clone()), Value::Bytes(value.clone())]);
            }
        }
        let answer = self.run(&script::ENQUEUE, vec![self.keys.stream(lane).clone()], args).await?;
        let ids: Vec<EntryId> = answer.rest.iter().filter_map(decode::entry_id).collect();
        if ids.len() != jobs.len() {
            return Err(Error::contract("enqueue", answer));
        }
        Ok(ids)
    }

    /// Puts jobs with ids into the delayed set in one round trip. Sending twice does no harm: a job that is in the set
    /// stays as it is. Returns the first of those, if there is one.
    pub(crate) async fn schedule(&self, jobs: &[(JobId, NewJob)]) -> Result<Option<JobId>, Error> {
        let mut args = Vec::with_capacity(4 * jobs.len());
        for (id, job) in jobs {
            let (kind, ms) = match job.due {
                Due::Now => ("in", 0),
                Due::In(delay) => ("in", i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
                Due::At(time) => ("at", time.as_ms().cast_signed()),
            };
            let text = id.to_string();
            let fields = job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
            let identity = std::iter::once((b"id".as_slice(), text.as_bytes()));
            let packed = Envelope::new(identity.chain(fields)).pack(job.lane);
            args.extend([bytes(text.as_bytes()), kind.into(), ms.into(), Value::Bytes(packed.into())]);
        }
        let keys = vec![self.keys.delayed.clone(), self.keys.delayed_fields.clone(), self.keys.wake.clone()];
        let answer = self.run(&script::SCHEDULE, keys, args).await?;
        let known = answer
            .rest
            .first()
            .and_then(decode::number)
            .ok_or_else(|| Error::contract("schedule", &answer))?;
        let place = usize::try_from(known).ok().and_then(|place| place.checked_sub(1));
        Ok(place.and_then(|place| jobs.get(place)).map(|(id, _)| id.clone()))
    }
}
