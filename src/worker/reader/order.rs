//! In which order the lanes are read, and how many entries of each.

use crate::job::Lane;

/// While many jobs wait for the queue's own gate, a read takes this many entries of a lane that has its turn: the gate's waiting list
/// is in order, so no lane starves.
const CROWDED_ENTRIES: usize = 10;

/// Returns the order in which one round reads the lanes. High usually comes first. Some rounds begin with another lane,
/// so that no lane starves: 4 of 16 with normal, 1 of 16 with low.
pub(super) fn order(round: u32) -> [Lane; 3] {
    match round % 16 {
        15 => [Lane::Low, Lane::High, Lane::Normal],
        3 | 7 | 11 | 14 => [Lane::Normal, Lane::High, Lane::Low],
        _ => [Lane::High, Lane::Normal, Lane::Low],
    }
}

/// Returns the most entries that a round reads of a lane. While many jobs wait for the queue's own gate, those that it lets
/// pass are in the high lane; others would only wait, so only a few of the lane that has its turn are read.
pub(super) fn most_of(lane: Lane, round: u32, crowded: bool) -> usize {
    match (crowded, lane == Lane::High, lane == order(round)[0]) {
        (false, _, _) | (true, true, _) => usize::MAX,
        (true, false, true) => CROWDED_ENTRIES,
        (true, false, false) => 0,
    }
}

/// Returns how many entries a waiting read takes of each lane, so that together they seldom exceed the waiting list.
pub(super) fn per_lane(free_slots: usize) -> usize {
    free_slots.div_ceil(Lane::ALL.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_read_first_in_some_round_and_high_in_most() {
        let firsts: Vec<_> = (0..16).map(|round| order(round)[0]).collect();
        let share = |lane| firsts.iter().filter(|first| **first == lane).count();
        assert_eq!((share(Lane::High), share(Lane::Normal), share(Lane::Low)), (11, 4, 1));
    }

    #[test]
    fn while_many_wait_for_the_gate_of_the_queue_each_lane_has_its_turn() {
        for lane in Lane::ALL {
            let most = (0..16).map(|round| most_of(lane, round, true)).max();
            assert_eq!(most, Some(if lane == Lane::High { usize::MAX } else { CROWDED_ENTRIES }));
            assert_eq!(most_of(lane, 0, false), usize::MAX);
        }
        assert_eq!((most_of(Lane::Low, 0, true), most_of(Lane::Low, 15, true)), (0, CROWDED_ENTRIES));
    }

    #[test]
    fn every_round_reads_every_lane() {
        for round in 0..16 {
            let mut lanes = order(round).to_vec();
            lanes.sort();
            assert_eq!(lanes, Lane::ALL);
        }
    }
}
