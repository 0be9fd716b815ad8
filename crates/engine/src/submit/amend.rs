//! Changing when a delayed job or a retry is due, or its payload.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use crate::Queue;
use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{Encoding, EntryId, Envelope, Generation, JobId, JobType, Lane, Timestamp};
use crate::submit::enqueue::{Due, drawn_call};

scripts! { AMEND "amend" }

/// How often the fields are read again if somebody else keeps changing them.
const TRIES: u32 = 5;

/// One job of the delayed set, as it was read; see the example of `Producer::amend`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelayedJob {
    /// The job.
    pub id: JobId,
    /// When it is due.
    pub due: Timestamp,
    /// Its lane.
    pub lane: Lane,
    /// Its fields.
    pub fields: Envelope,
    /// Its fields without those that are kept elsewhere. A script compares them.
    #[doc(hidden)]
    pub bare: Envelope,
}

impl DelayedJob {
    /// Returns bytes that differ whenever the job differs in its time or a field: about as many as its fields have, at most
    /// 128 KiB, unless Redis had no waiting list to keep large fields apart.
    pub fn revision(&self) -> Vec<u8> {
        let mut revision = self.due.as_ms().to_be_bytes().to_vec();
        revision.extend(self.bare.pack(self.lane));
        revision
    }
}

/// What to change in a job of the delayed set; see the example of `Producer::amend`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelayedEdit {
    /// When it is due; `None` leaves that as it is.
    pub due: Option<Due>,
    /// Its payload, and how that is encoded; `None` leaves both as they are.
    pub payload: Option<(Bytes, Encoding)>,
}

impl DelayedEdit {
    setters! {
        /// Sets when the job is due.
        due: impl Into<Option<Due>> => due.into();
    }

    /// Sets the payload, and how it is encoded.
    #[must_use]
    pub fn payload(self, payload: impl Into<Bytes>, encoding: Encoding) -> Self {
        Self { payload: Some((payload.into(), encoding)), ..self }
    }
}

/// What became of a change; see the example of `Producer::amend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amended {
    /// It is made. The job is due at this time.
    Done(Timestamp),
    /// The job is no longer in the delayed set.
    Gone,
    /// Somebody else changed the job after it was read.
    Changed,
}

impl Queue {
    /// Changes when a delayed job is due. Returns its new time, or `None` if it is not in the delayed set.
    #[doc(hidden)]
    pub async fn reschedule(&self, id: &JobId, due: Due) -> Result<Option<Timestamp>, Error> {
        self.reschedule_as(&drawn_call(), id, due).await
    }

    /// Reschedules a delayed job as a call of this name.
    pub(crate) async fn reschedule_as(
        &self,
        call: &str,
        id: &JobId,
        due: Due,
    ) -> Result<Option<Timestamp>, Error> {
        let due = if due == Due::Now { Due::In(Duration::ZERO) } else { due };
        let [kind, ms] = due.args(None);
        let answer = self.amend(call, id, [kind, ms, "".into(), "".into(), "".into()]).await?;
        Ok(answer.ok().flatten())
    }

    /// Replaces the payload of a delayed job. All its other fields stay as they are, including its attempts.
    ///
    /// Returns when it is due, or `None` if it is not in the delayed set.
    #[doc(hidden)]
    pub async fn replace_payload(
        &self,
        id: &JobId,
        payload: &[u8],
        encoding: Encoding,
    ) -> Result<Option<Timestamp>, Error> {
        self.replace_payload_as(&drawn_call(), id, payload, encoding).await
    }

    /// Replaces a delayed job's payload as a call of this name.
    pub(crate) async fn replace_payload_as(
        &self,
        call: &str,
        id: &JobId,
        payload: &[u8],
        encoding: Encoding,
    ) -> Result<Option<Timestamp>, Error> {
        for _ in 0..TRIES {
            let (Some((envelope, lane)), _) = self.location(id).await? else { return Ok(None) };
            let edited = self.with_payload(&envelope, payload, encoding).await?;
            let [read, wanted] = [envelope, edited].map(|fields| Value::Bytes(fields.pack(lane).into()));
            if let Ok(answer) = self.amend(call, id, ["".into(), "".into(), read, wanted, "".into()]).await? {
                return Ok(answer);
            }
        }
        Err(Error::contract("amend", "fields that change each time they are read"))
    }

    /// Returns the type of a delayed job; `None` if it is not in the delayed set, or its fields cannot be read.
    #[doc(hidden)]
    pub async fn delayed_type(&self, id: &JobId) -> Result<Option<JobType>, Error> {
        let (Some((envelope, _)), _) = self.location(id).await? else { return Ok(None) };
        let name = envelope.get(b"type").and_then(|name| std::str::from_utf8(name).ok());
        Ok(name.and_then(|name| name.parse().ok()))
    }

    /// Changes a delayed job in one step, if nobody has changed it since it was read.
    #[doc(hidden)]
    pub async fn amend_as_read(&self, read: &DelayedJob, edit: &DelayedEdit) -> Result<Amended, Error> {
        let edited = match &edit.payload {
            Some((payload, encoding)) => self.with_payload(&read.bare, payload, *encoding).await?,
            None => read.bare.clone(),
        };
        let due = edit.due.map(|due| if due == Due::Now { Due::In(Duration::ZERO) } else { due });
        let [kind, ms] = due.map_or_else(|| ["".into(), "".into()], |due| due.args(None));
        let [was, wanted] = [&read.bare, &edited].map(|fields| Value::Bytes(fields.pack(read.lane).into()));
        let change = [kind, ms, was, wanted, read.due.as_ms().to_string().into()];
        Ok(match self.amend(&drawn_call(), &read.id, change).await? {
            Ok(Some(due)) => Amended::Done(due),
            Ok(None) => Amended::Gone,
            Err(()) => Amended::Changed,
        })
    }

    /// Returns the fields of a delayed job with another payload, in the form that scripts carry.
    async fn with_payload(
        &self,
        fields: &Envelope,
        payload: &[u8],
        encoding: Encoding,
    ) -> Result<Envelope, Error> {
        let mut add: Vec<(&[u8], &[u8])> = vec![(b"payload", payload)];
        if encoding != Encoding::Json {
            add.push((b"encoding", encoding.as_str().as_bytes()));
        }
        let is_payload = |name: &[u8]| matches!(name, b"payload" | b"encoding");
        self.with_fields(fields, is_payload, &add).await
    }

    /// Returns the fields of a delayed job in the form that scripts carry, with `add` in place of the fields that
    /// `replaced` selects.
    pub(crate) async fn with_fields(
        &self,
        envelope: &Envelope,
        replaced: impl Fn(&[u8]) -> bool,
        add: &[(&[u8], &[u8])],
    ) -> Result<Envelope, Error> {
        let mut whole = envelope.clone();
        self.restore_fields(&self.link, &mut whole).await?;
        // If the key is gone, the job has lost its large fields; reading it as a job reports that.
        let is_stale = |name: &[u8]| whole.is_whole() && name == b"offloaded";
        let edited = whole.edited(|name| replaced(name) || is_stale(name), add);
        let of = [b"life".as_slice(), b"created_ms"].into_iter().find_map(|name| edited.get(name));
        let generation = of.and_then(|generation| std::str::from_utf8(generation).ok()?.parse().ok());
        // Only fields from a producer without this crate name no generation, and no other job has the key that they get here.
        let generation = generation.unwrap_or_else(|| Generation::of_entry(EntryId::new(0, 0), Lane::Normal));
        Ok(self.offload_large(edited, &generation).await?.envelope)
    }

    /// Runs the script. The inner error means that the fields or the time changed since they were read.
    async fn amend(
        &self,
        call: &str,
        id: &JobId,
        change: [Value; 5],
    ) -> Result<Result<Option<Timestamp>, ()>, Error> {
        let own = &self.keys;
        let (record, ledger) = (own.record(id), own.ledger(id));
        let mut keys = vec![own.delayed.clone(), own.delayed_fields.clone(), record];
        keys.extend([own.wake.clone(), ledger, own.receipt(call)]);
        let [when, ms, read, wanted, was] = change;
        let args = args![AMEND; id = id.to_string(), when, ms, read, wanted, was];
        let answer = self.run_named(&AMEND, keys, args.into()).await?;
        match (answer.status, answer.rest.first().and_then(decode::number)) {
            (0, _) => Ok(Ok(None)),
            (1, Some(due)) => Ok(Ok(Some(timestamp(due)))),
            (2, _) => Ok(Err(())),
            _ => Err(Error::contract("amend", answer)),
        }
    }
}
