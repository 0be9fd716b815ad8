//! Burying: what a dead letter holds, and the script that writes it.

use fred::types::Value;

use super::conclusion::Conclusion;
use super::error::Error;
use super::settle::{Applied, Ran, Taken, edited, flatten};
use super::{Answer, Entry, Queue, bytes, millis, script};
use crate::job::{Burial, ConsumerName, DeadReason, EntryId, Envelope, JobId, Lane, TraceContext};

/// What is buried: a job, or bytes that are none.
pub(super) struct Letter<'a> {
    entry: EntryId,
    lane: Lane,
    id: JobId,
    job_type: &'a str,
    created_ms: u64,
    envelope: &'a Envelope,
    trace: Option<&'a TraceContext>,
    conclusion: Conclusion,
}

impl<'a> Letter<'a> {
    /// The letter of a job.
    pub(super) fn of(Taken { job, envelope, trace }: Taken<'a>, conclusion: Conclusion) -> Self {
        Self {
            entry: job.entry,
            lane: job.lane,
            id: job.id.clone(),
            job_type: job.job_type.as_str(),
            created_ms: job.created.as_ms(),
            envelope,
            trace,
            conclusion,
        }
    }

    /// The original fields, so that an XADD of them is a replay: counters reset, identity kept. An entry with more
    /// fields than a script can append keeps them packed in one. Bytes that are no job get no `id`, but `dead_job`, so
    /// that their record can be found.
    fn fields(&self) -> Envelope {
        let id = self.id.to_string();
        let broken = [(b"dead_job".as_slice(), id.as_bytes())];
        if self.envelope.len() > Envelope::MAX_FIELDS + Envelope::FLEET_FIELDS {
            let packed = self.envelope.pack(self.lane);
            let raw = [(b"raw".as_slice(), packed.as_slice()), broken[0]];
            return Envelope::new(raw.into_iter());
        }
        let fleet =
            |name: &[u8]| matches!(name, b"attempt" | b"lost" | b"created_ms") || name.starts_with(b"dead_");
        let own = [(b"id".as_slice(), id.as_bytes())];
        let add: &[_] = match self.envelope.get(b"id") {
            _ if self.job_type.is_empty() => &broken,
            Some(_) => &[],
            None => &own,
        };
        edited(self.envelope, self.trace, fleet, add)
    }
}

impl Queue {
    /// Buries an entry that is no job, bytes and all. Its id, or `None` where somebody else settled it.
    pub(crate) async fn bury_malformed(
        &self,
        consumer: &ConsumerName,
        entry: &Entry,
        why: &str,
        ran: &Ran<'_>,
    ) -> Result<Option<JobId>, Error> {
        let empty = Envelope::default();
        let id = JobId::derived(entry.id, entry.lane);
        let letter = Letter {
            entry: entry.id,
            lane: entry.lane,
            id: id.clone(),
            job_type: "",
            created_ms: entry.id.ms,
            envelope: entry.envelope.as_ref().unwrap_or(&empty),
            trace: None,
            conclusion: Conclusion::none(&self.keys),
        };
        let burial = Burial { reason: DeadReason::Malformed, error: why.to_owned(), attempts: 0 };
        let applied = self.applied(self.bury(consumer, letter, &burial, ran).await?)?;
        Ok((applied == Applied::Moved).then_some(id))
    }

    /// Moves an attempt to the dead stream. See `scripts/bury.lua`.
    pub(super) async fn bury(
        &self,
        consumer: &ConsumerName,
        letter: Letter<'_>,
        burial: &Burial,
        ran: &Ran<'_>,
    ) -> Result<Answer, Error> {
        let fields = letter.fields();
        let Conclusion { keys: [lock, batch], ends } = letter.conclusion;
        let (stream, record) = (self.keys.stream(letter.lane).clone(), self.keys.record(&letter.id));
        let keys = vec![stream, self.keys.dead.clone(), record, lock, batch, self.keys.cancels.clone()];
        let mut args = vec![
            consumer.as_str().into(),
            letter.entry.to_string().into(),
            letter.id.to_string().into(),
            burial.reason.as_str().into(),
            bytes(burial.error.as_bytes()),
            i64::from(burial.attempts).into(),
            millis(ran.elapsed),
            ran.outcome.into(),
            ran.worker.into(),
            letter.job_type.into(),
            letter.lane.as_str().into(),
            Value::Integer(letter.created_ms.cast_signed()),
            fingerprint(letter.job_type, burial.reason, &burial.error).into(),
            ends,
        ];
        flatten(&fields, &mut args);
        self.run(&script::BURY, keys, args).await
    }
}

/// A short name for what went wrong, the same for errors that differ only in their numbers.
pub(crate) fn fingerprint(job_type: &str, reason: DeadReason, error: &str) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let error = error.bytes().filter(|byte| !byte.is_ascii_digit());
    for byte in job_type.bytes().chain(reason.as_str().bytes()).chain(error) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}
