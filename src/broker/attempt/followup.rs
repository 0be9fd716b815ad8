//! What a job's end triggers, in the form that the script which ends the job takes. In the same step, the script frees
//! the job's lock, reports a success to its batch, and appends the jobs that follow.

use fred::types::{Key, Value};

use crate::broker::attempt::settle::TakenJob;
use crate::broker::client::keys::Keys;
use crate::job::{End, Envelope, Lane, Life};

/// The script's keys and arguments for what a job's end triggers.
pub(in crate::broker) struct FollowUpArgs {
    /// The lock and the batch of this job, or placeholders.
    pub(in crate::broker) keys: [Key; 2],
    /// How the job ended and what follows, packed; empty if nothing depends on the job.
    pub(in crate::broker) ends: Value,
}

impl FollowUpArgs {
    /// Returns what this end of a job triggers.
    pub(in crate::broker) fn of(
        keys: &Keys,
        TakenJob { job, envelope, trace }: TakenJob<'_>,
        end: End<'_>,
    ) -> Self {
        let Some(follow_ups) = job.follow_ups.as_deref() else { return Self::none(keys) };
        let own = trace.map(|trace| trace.as_str().as_bytes());
        let follow = follow_ups.follow(job, own.or_else(|| envelope.get(b"traceparent")), end);
        let home = Some(job.home).filter(|home| *home != job.lane);
        let packed = pack((end, home), job.root(), &follow);
        Self {
            keys: [keys.lock(follow_ups.unique.as_ref()), keys.batch(follow_ups.batch.as_ref())],
            ends: Value::Bytes(packed.into()),
        }
    }

    /// For a job on which nothing depends.
    pub(in crate::broker) fn none(keys: &Keys) -> Self {
        Self { keys: [keys.lock(None), keys.batch(None)], ends: Value::from("") }
    }
}

/// Packs one flat MessagePack array of texts: how the job ended, with its own lane if it is in another one, the life it is noted for, then for each following job
/// the number of its names and values together, and these.
fn pack((end, home): (End<'_>, Option<Lane>), root: &Life, follow: &[Envelope]) -> Vec<u8> {
    let word = match end {
        End::Done(_) => "done",
        End::Dead(..) => "dead",
        End::Cancelled => "cancelled",
    };
    let word = home.map_or_else(|| word.to_owned(), |home| format!("{word} {home}"));
    let mut items = vec![word.into_bytes(), root.to_string().into_bytes()];
    for envelope in follow {
        items.push((2 * envelope.len()).to_string().into_bytes());
        items.extend(envelope.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]));
    }
    crate::job::pack_texts(items.iter().map(Vec::as_slice))
}
