//! What a job's end triggers, in the form that the script which ends the job takes. In the same step, the script frees
//! the job's lock, reports a success to its batch, and appends the jobs that follow.

use fred::types::{Key, Value};

use crate::attempt::taken::TakenJob;
use crate::client::keys::Keys;
use crate::job::task::CampaignTag;
use crate::job::{
    CarriedTrace, DeadReason, End, Envelope, FollowUps, Generation, Lane, Policy, callback_of_type,
    fingerprint,
};

/// The script's keys and arguments for what a job's end triggers.
pub(crate) struct FollowUpArgs {
    /// The lock and the batch of this job, or placeholders.
    pub keys: [Key; 2],
    /// How the job ended and what follows, packed; empty if nothing depends on the job.
    pub ends: Value,
}

impl FollowUpArgs {
    /// Returns what this end of a job triggers. `policy` is that of its type, if the caller knows it.
    pub(crate) fn of(
        keys: &Keys,
        TakenJob { job, envelope, trace }: TakenJob<'_>,
        policy: Option<&Policy>,
        end: End<'_>,
    ) -> Self {
        let trace = CarriedTrace::of(envelope, trace);
        let of_type = policy.and_then(|policy| callback_of_type(job, policy, trace, end));
        // An id that is accepted once has no follow-up. The batches that wait for the job learn of its end in its own lane.
        let ties = |own: &&FollowUps| !own.is_only_once() || job.own_lane != job.lane;
        let own = job.follow_ups.as_deref().filter(ties);
        if own.is_none() && of_type.is_none() {
            return Self::none(keys);
        }
        let follow = own.map(|own| own.follow(job, trace, end)).unwrap_or_default();
        let tag = own.and_then(|own| own.campaign.as_ref());
        let counted = tag.map(|tag| counted(tag, &job.generation, job.job_type.as_str(), end));
        let own_lane = Some(job.own_lane).filter(|own_lane| *own_lane != job.lane);
        let packed = pack((end, own_lane, counted.as_deref()), job.root(), &follow, of_type.as_ref());
        let (lock, batch) = (own.and_then(|own| own.unique.as_ref()), own.and_then(|own| own.batch.as_ref()));
        Self { keys: [keys.lock(lock), keys.batch(batch)], ends: Value::Bytes(packed.into()) }
    }

    /// For the end of fields that do not form a job: the lock and the campaign that they name learn of it, if they know its generation.
    pub(crate) fn of_malformed(
        keys: &Keys,
        envelope: &Envelope,
        generation: &Generation,
        end: End<'_>,
    ) -> Self {
        let text = |name: &[u8]| envelope.get(name).and_then(|value| std::str::from_utf8(value).ok());
        let unique = text(b"unique").and_then(|unique| unique.parse().ok());
        let tag = envelope.get(b"campaign").and_then(CampaignTag::read);
        if unique.is_none() && tag.is_none() {
            return Self::none(keys);
        }
        let counted = tag.map(|tag| counted(&tag, generation, "", end));
        let packed = pack((end, None, counted.as_deref()), generation, &[], None);
        Self { keys: [keys.lock(unique.as_ref()), keys.batch(None)], ends: Value::Bytes(packed.into()) }
    }

    /// For a job on which nothing depends.
    pub(crate) fn none(keys: &Keys) -> Self {
        Self { keys: [keys.lock(None), keys.batch(None)], ends: Value::from("") }
    }
}

/// The campaign that a job of this type names, its generation, and which of the campaign's counts its end adds to.
fn counted(tag: &CampaignTag, generation: &Generation, job_type: &str, end: End<'_>) -> String {
    let count = match end {
        End::Done(_) => "succeeded",
        End::Cancelled => "cancelled",
        End::Dead(DeadReason::NeedsDecision, _) => "needs_decision",
        End::Dead(reason, error) => {
            let same = fingerprint(job_type, reason, error) == tag.fingerprint;
            if same { "died" } else { "died_otherwise" }
        }
    };
    format!("{} {generation} {count}", tag.id)
}

/// Packs one flat MessagePack array of texts: how the job ended, with its own lane if it is in another one, and for the
/// campaign that it names, that, its generation and what is counted; the generation it is noted for; then for each following job how often
/// it follows, the number of its names and values together, and these. What the job itself names follows once for all its replays, what
/// its type names follows each end.
fn pack(
    (end, own_lane, counted): (End<'_>, Option<Lane>, Option<&str>),
    root: &Generation,
    own: &[Envelope],
    of_type: Option<&Envelope>,
) -> Vec<u8> {
    let word = match end {
        End::Done(_) => "done",
        End::Dead(..) => "dead",
        End::Cancelled => "cancelled",
    };
    let own_lane = own_lane.map(Lane::as_str);
    let word = [Some(word), own_lane, counted].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut items = vec![word.into_bytes(), root.to_string().into_bytes()];
    let follow = own.iter().map(|envelope| ("once", envelope));
    for (often, envelope) in follow.chain(of_type.map(|envelope| ("each", envelope))) {
        items.push(often.as_bytes().to_vec());
        items.push((2 * envelope.len()).to_string().into_bytes());
        items.extend(envelope.fields().flat_map(|(name, value)| [name.to_vec(), value.to_vec()]));
    }
    crate::job::pack_texts(items.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::EntryId;

    #[test]
    fn a_campaign_counts_a_generation_by_how_it_ended() {
        let same = fingerprint("mail", DeadReason::Fatal, "no 1");
        let tag = CampaignTag { id: "00ff".to_owned(), fingerprint: same, count: 1 };
        let generation = Generation::of_entry(EntryId::new(5, 1), Lane::High);
        let counted = |end| counted(&tag, &generation, "mail", end);
        assert_eq!(counted(End::Done(None)), "00ff 5-1-high succeeded");
        assert_eq!(counted(End::Dead(DeadReason::Fatal, "no 2")), "00ff 5-1-high died");
        assert_eq!(counted(End::Dead(DeadReason::Fatal, "yes")), "00ff 5-1-high died_otherwise");
        assert_eq!(counted(End::Dead(DeadReason::NeedsDecision, "no 1")), "00ff 5-1-high needs_decision");
        assert_eq!(counted(End::Cancelled), "00ff 5-1-high cancelled");
    }
}
