//! Groups what one script carries out: of one lane and one kind, bounded in number and weight.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem::Discriminant;

use crate::attempt::call::MAX_JOBS;
use crate::job::{Envelope, JobSpec, Lane, Policy, Settlement, weight};

/// The most that the members of a group weigh together, unless one alone weighs more.
const MAX_WEIGHT: usize = 256 << 10;

/// What the job's end triggers weighs this much: the script may append jobs and report to batches.
const FOLLOW_UPS: usize = 16 << 10;

/// Moving a job within Redis, or ending it without success, takes at least as long as a settlement of this weight: a call has
/// at most 50 of these.
const MOVED: usize = 5 << 10;

/// What decides with which others something shares a script.
#[derive(Debug, Clone, Copy)]
pub struct GroupMember<K = Discriminant<Settlement>> {
    /// The lane of its entry.
    pub lane: Lane,
    /// What all members of a group have in common.
    pub kind: K,
    /// For settlements, see [`settling_weight`].
    pub weight: usize,
}

/// Returns about how many bytes would take Redis as long as this settlement of a job whose fields and result have this many
/// `bytes`. See [`is_followed`].
pub fn settling_weight(
    settlement: &Settlement,
    envelope: &Envelope,
    bytes: usize,
    is_followed: bool,
) -> usize {
    let moved = match settlement {
        Settlement::Ack | Settlement::Defer(_) => 0,
        Settlement::Release | Settlement::Park(_) | Settlement::Bury(_) | Settlement::Cancel(_) => MOVED,
    };
    let follow_ups = if is_followed { FOLLOW_UPS } else { 0 };
    weight(bytes, envelope.len()) + moved + follow_ups
}

/// Returns true if other jobs may depend on what is decided about this one.
pub fn is_followed(job: &JobSpec, policy: &Policy, settlement: &Settlement) -> bool {
    let by_type = match settlement {
        Settlement::Ack => policy.on_success.is_some(),
        Settlement::Bury(_) => policy.on_failure.is_some(),
        Settlement::Defer(_) | Settlement::Cancel(_) | Settlement::Release | Settlement::Park(_) => false,
    };
    by_type || job.follow_ups.as_deref().is_some_and(|own| !own.is_only_once())
}

/// Forms groups. Each keeps the order of its members.
pub fn grouped<T, K: Eq + Hash>(members: Vec<T>, member: impl Fn(&T) -> GroupMember<K>) -> Vec<Vec<T>> {
    let mut open: HashMap<(Lane, K), (Vec<T>, usize)> = HashMap::new();
    let mut groups = Vec::new();
    for one in members {
        let GroupMember { lane, kind, weight } = member(&one);
        let (group, total) = open.entry((lane, kind)).or_default();
        if group.len() == MAX_JOBS || (!group.is_empty() && *total + weight > MAX_WEIGHT) {
            groups.push(std::mem::take(group));
            *total = 0;
        }
        group.push(one);
        *total += weight;
    }
    groups.extend(open.into_values().map(|(group, _)| group));
    groups
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use proptest::prelude::*;

    use super::*;
    use crate::job::EntryId;

    fn settled(lane: Lane, fields: &[(&str, &str)], settlement: &Settlement) -> GroupMember {
        let fields =
            [("type", "a")].iter().chain(fields).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let envelope = Envelope::new(fields);
        let job = JobSpec::parse(&envelope, EntryId::new(1, 0), lane).unwrap();
        let is_followed = is_followed(&job, &Policy::default(), settlement);
        let weight = settling_weight(settlement, &envelope, envelope.size(), is_followed);
        GroupMember { lane, kind: discriminant(settlement), weight }
    }

    /// Returns the sizes of the groups, the largest first.
    fn sizes(settlements: Vec<GroupMember>) -> Vec<usize> {
        let mut sizes: Vec<_> = grouped(settlements, |member| *member).iter().map(Vec::len).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }

    #[test]
    fn a_group_has_one_lane_and_one_kind_and_at_most_100_successes_or_50_others() {
        let released = |lane| settled(lane, &[], &Settlement::Release);
        let mut settlements: Vec<_> = (0..120).map(|_| released(Lane::Normal)).collect();
        settlements.extend((0..7).map(|_| released(Lane::High)));
        settlements.extend((0..3).map(|_| settled(Lane::High, &[], &Settlement::Ack)));
        assert_eq!(sizes(settlements), [50, 50, 20, 7, 3]);
        assert_eq!(sizes(Vec::new()), [0; 0]);
        let done = (0..120).map(|_| settled(Lane::Normal, &[], &Settlement::Ack));
        assert_eq!(sizes(done.collect()), [100, 20]);
    }

    #[test]
    fn heavy_settlements_form_smaller_groups() {
        let large = "x".repeat(100 << 10);
        let payload = |_| settled(Lane::Normal, &[("payload", &large)], &Settlement::Release);
        assert_eq!(sizes((0..5).map(payload).collect()), [2, 2, 1]);
        let followed = |_| settled(Lane::Normal, &[("on_success", "b")], &Settlement::Ack);
        assert_eq!(sizes((0..20).map(followed).collect()), [15, 5]);
        let once = |_| settled(Lane::Normal, &[("once", "1")], &Settlement::Ack);
        assert_eq!(sizes((0..20).map(once).collect()), [20]);
        let larger = "x".repeat(MAX_WEIGHT);
        let alone = |_| settled(Lane::Normal, &[("payload", &larger)], &Settlement::Release);
        assert_eq!(sizes((0..2).map(alone).collect()), [1, 1]);
    }

    proptest! {
        #[test]
        fn each_settlement_is_in_one_group_within_its_bounds(
            settlements in prop::collection::vec((0usize..3, any::<bool>(), 0usize..MAX_WEIGHT / 8), 0..300),
        ) {
            let member = |(lane, acks, weight): (usize, bool, usize)| {
                let kind = discriminant(if acks { &Settlement::Ack } else { &Settlement::Release });
                GroupMember { lane: Lane::ALL[lane], kind, weight }
            };
            let numbered: Vec<_> = settlements.iter().copied().enumerate().collect();
            let groups = grouped(numbered, |(_, settlement)| member(*settlement));
            for group in &groups {
                prop_assert!((1..=MAX_JOBS).contains(&group.len()));
                prop_assert!(group.iter().map(|(_, (.., weight))| weight).sum::<usize>() <= MAX_WEIGHT);
                let (_, (lane, acks, _)) = group[0];
                prop_assert!(group.iter().all(|(_, other)| (other.0, other.1) == (lane, acks)));
                prop_assert!(group.is_sorted_by_key(|(nth, _)| *nth));
            }
            let mut all: Vec<usize> = groups.iter().flatten().map(|(nth, _)| *nth).collect();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..settlements.len()));
        }
    }
}
