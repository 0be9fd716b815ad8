//! The meaning of an entry's fields: the wire contract, version 1.

mod draft;

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use self::draft::{Draft, bound_fields};
use super::{
    EntryId, Envelope, FollowUps, Generation, JobId, JobType, Lane, Malformed, Policy, Timestamp, Tracking,
};

variants! {
    /// How a payload is encoded.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Encoding {
        /// JSON, the default of the wire contract.
        #[default]
        Json = "json",
        /// MessagePack with field names, which this crate's producer writes.
        Msgpack = "msgpack",
        /// Bytes that only the handler understands.
        Raw = "raw",
    }
}

impl Encoding {
    /// Returns the encoding with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::named(name)
    }
}

/// A job, as one of its entries describes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct JobSpec {
    /// Its identity, the same in all attempts.
    pub id: JobId,
    /// Which generation of this id it is.
    pub generation: Generation,
    /// Its type, which selects the handler.
    pub job_type: JobType,
    /// The lane that this entry is in.
    pub lane: Lane,
    /// The lane that the job belongs to. Its retries and replays go there. Another lane may have it for once.
    pub own_lane: Lane,
    /// The entry of this attempt.
    pub entry: EntryId,
    /// When its generation began. This never changes.
    pub created: Timestamp,
    /// The number of failures before this attempt.
    pub attempt: u32,
    /// The number of workers lost before this attempt.
    pub lost: u32,
    /// Whether the job was replayed from the dead stream.
    pub replayed: bool,
    /// The previous generation, if this is a replay.
    pub former: Option<Box<Former>>,
    /// How the payload is encoded.
    pub encoding: Encoding,
    /// What the handler gets.
    pub payload: Bytes,
    /// The job must not start before this time, if the entry sets it.
    pub not_before: Option<Timestamp>,
    /// The job must not start after this time, if the entry sets it.
    pub expires_at: Option<Timestamp>,
    /// Overrides the type's limit on failures.
    pub max_attempts: Option<u32>,
    /// Overrides the type's timeout of an attempt.
    pub timeout: Option<Duration>,
    /// Overrides the type's tracking.
    pub tracking: Option<Tracking>,
    /// What ties it to other jobs, if anything does.
    pub follow_ups: Option<Box<FollowUps>>,
}

/// What a replayed job's entry says about the generation that ended in the dead stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Former {
    /// The first generation in a series of replays. Follow-ups that were already called are recorded for it.
    pub root: Option<Generation>,
    /// The generation that ended in the dead letter whose fields a producer appended.
    #[doc(hidden)]
    pub generation: Option<Generation>,
    /// When that dead letter was written, according to its own fields.
    #[doc(hidden)]
    pub dead_at: Option<u64>,
    /// The token of the key that has the large fields of the job, if they are elsewhere.
    #[doc(hidden)]
    pub offloaded: Option<String>,
}

impl Former {
    /// True if the entry is a copy of a dead letter that a producer appended, and so the letter may still be there.
    #[doc(hidden)]
    pub fn names_letter(&self) -> bool {
        self.generation.is_some() || self.dead_at.is_some()
    }
}

impl JobSpec {
    /// The longest timeout of an attempt: 7 days.
    pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

    /// Reads an entry's fields. Unknown fields are left to others, and stay in the envelope.
    ///
    /// # Errors
    ///
    /// [`Malformed`], naming the field and the rule, if the fields break the wire contract.
    pub fn parse(envelope: &Envelope, entry: EntryId, lane: Lane) -> Result<Self, Malformed> {
        bound_fields(envelope)?;
        let mut draft = Draft::default();
        for (index, (name, value)) in envelope.fields().enumerate() {
            draft.read(name, value, || envelope.value_at(index))?;
        }
        if let Some(former) = &mut draft.former {
            former.offloaded = envelope.offloaded().map(|offloaded| offloaded.token);
        }
        draft.finish(entry, lane)
    }

    /// Returns when this entry was made, by the server's clock.
    pub fn entry_created(&self) -> Timestamp {
        Timestamp::from_ms(self.entry.ms).unwrap_or(Timestamp::MAX)
    }

    /// Returns how old the job was when this entry was made, by the server's clock.
    pub fn age(&self) -> Duration {
        self.entry_created().since(self.created)
    }

    /// Returns true if this is not the job's first attempt.
    pub fn is_repeated(&self) -> bool {
        self.attempt > 0 || self.lost > 0
    }

    /// Returns the generation for which called follow-ups are recorded. Across all replays of a job, each follow-up is called once.
    #[doc(hidden)]
    pub fn root(&self) -> &Generation {
        let root =
            self.former.as_deref().and_then(|former| former.root.as_ref().or(former.generation.as_ref()));
        root.unwrap_or(&self.generation)
    }

    /// Decides which record the job leaves. The job's own setting wins over its type's, and that over its queue's.
    pub fn tracking(&self, policy: &Policy, queue: Tracking) -> Tracking {
        self.tracking.or(policy.tracking).unwrap_or(queue)
    }

    /// Returns true if this entry alone shows that the job runs: its id names it, nothing happened before, and nothing
    /// else depends on the job. Such a job needs no record before it ends.
    #[doc(hidden)]
    pub fn is_named_by_entry(&self) -> bool {
        let is_first = !self.is_repeated() && !self.replayed;
        is_first && self.follow_ups.is_none() && self.id.origin() == Some((self.entry, self.lane))
    }

    /// Returns true if the script that accepted the job's id noted this entry in the job's record, nothing happened before,
    /// and nothing else depends on the job. Its record and its entry show that it runs, so that the record need not change
    /// before the attempt has ended. Of all entries of such a job, only the first has a generation and no time of acceptance.
    #[doc(hidden)]
    pub fn is_noted(&self, envelope: &Envelope) -> bool {
        let is_first = !self.is_repeated() && !self.replayed && self.former.is_none();
        let only_once = self.follow_ups.as_deref().is_some_and(FollowUps::is_only_once);
        is_first && only_once && envelope.get(b"life").is_some() && envelope.get(b"created_ms").is_none()
    }

    /// Returns true if the job has a record while it lives. A job that is repeated, replayed or tied to others always
    /// has one, whatever its tracking. An id that its producer chose asks for one, too.
    pub fn has_record(&self, tracking: Tracking) -> bool {
        let needed = self.is_repeated() || self.replayed || self.follow_ups.is_some();
        match tracking {
            Tracking::All => true,
            Tracking::Failures => needed || (self.id.is_own() && !self.generation.gave(&self.id)),
            Tracking::None => needed,
        }
    }
}

#[cfg(test)]
mod tests;
