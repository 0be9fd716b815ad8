//! Groups settlements that one script carries out: of one lane and one kind, bounded in number and weight.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use crate::broker::MAX_JOBS;
use crate::job::{Lane, Settlement};
use crate::worker::aside::Task;
use crate::worker::delivery::SettlerInput;

/// The most that the settlements of one script weigh together, unless one alone weighs more.
const MAX_WEIGHT: usize = 256 << 10;

/// A field weighs this much beside its bytes, …
const FIELD: usize = 64;

/// … and what the job's end triggers this much: the script may append jobs and report to batches.
const FOLLOW_UPS: usize = 16 << 10;

/// An attempt that ended, with what is decided about it.
pub(super) struct Decided {
    pub(super) task: Task,
    pub(super) settlement: Settlement,
    /// Whether other jobs may depend on it.
    pub(super) is_followed: bool,
}

impl Decided {
    /// Returns about how many bytes would take Redis as long.
    fn weight(&self) -> usize {
        let (SettlerInput::Finished(finished) | SettlerInput::Settled(finished, _)) = &self.task.work else {
            return 0;
        };
        let delivery = &finished.delivery;
        let follow_ups = if self.is_followed { FOLLOW_UPS } else { 0 };
        finished.bytes() + FIELD * delivery.envelope.len() + follow_ups
    }
}

/// Forms groups.
pub(super) fn grouped(settlements: Vec<Decided>) -> Vec<Vec<Decided>> {
    let mut open: HashMap<(Lane, Discriminant<Settlement>), (Vec<Decided>, usize)> = HashMap::new();
    let mut groups = Vec::new();
    for decided in settlements {
        let ((lane, _), weight) = (decided.task.key(), decided.weight());
        let (group, total) = open.entry((lane, discriminant(&decided.settlement))).or_default();
        if group.len() == MAX_JOBS || (!group.is_empty() && *total + weight > MAX_WEIGHT) {
            groups.push(std::mem::take(group));
            *total = 0;
        }
        group.push(decided);
        *total += weight;
    }
    groups.extend(open.into_values().map(|(group, _)| group));
    groups
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::job::{EntryId, Envelope, JobSpec, Outcome};
    use crate::worker::delivery::{Delivery, FinishedAttempt};
    use crate::worker::lease::HeldLease;

    fn decided(lane: Lane, fields: &[(&str, &str)], settlement: Settlement) -> Decided {
        let fields =
            [("type", "a")].iter().chain(fields).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let envelope = Envelope::new(fields);
        let job = JobSpec::parse(&envelope, EntryId::new(1, 0), lane).unwrap();
        let delivery = Arc::new(Delivery::new(job, envelope, HeldLease::new(Instant::now())));
        let finished = FinishedAttempt::not_run(delivery, Outcome::Interrupted);
        let is_followed = finished.delivery.job.follow_ups.is_some();
        Decided { task: Task::new(SettlerInput::Finished(finished)), settlement, is_followed }
    }

    /// Returns the sizes of the groups, the largest first.
    fn sizes(settlements: Vec<Decided>) -> Vec<usize> {
        let mut sizes: Vec<_> = grouped(settlements).iter().map(Vec::len).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    }

    #[test]
    fn a_group_has_one_lane_and_one_kind_and_at_most_50_settlements() {
        let released = |lane| decided(lane, &[], Settlement::Release);
        let mut settlements: Vec<_> = (0..120).map(|_| released(Lane::Normal)).collect();
        settlements.extend((0..7).map(|_| released(Lane::High)));
        settlements.extend((0..3).map(|_| decided(Lane::High, &[], Settlement::Ack)));
        assert_eq!(sizes(settlements), [50, 50, 20, 7, 3]);
        assert!(grouped(Vec::new()).is_empty());
    }

    #[test]
    fn heavy_settlements_form_smaller_groups() {
        let large = "x".repeat(100 << 10);
        let payload = |_| decided(Lane::Normal, &[("payload", &large)], Settlement::Release);
        assert_eq!(sizes((0..5).map(payload).collect()), [2, 2, 1]);
        let followed = |_| decided(Lane::Normal, &[("on_success", "b")], Settlement::Ack);
        assert_eq!(sizes((0..20).map(followed).collect()), [15, 5]);
        let larger = "x".repeat(MAX_WEIGHT);
        let alone = |_| decided(Lane::Normal, &[("payload", &larger)], Settlement::Release);
        assert_eq!(sizes((0..2).map(alone).collect()), [1, 1]);
    }
}
