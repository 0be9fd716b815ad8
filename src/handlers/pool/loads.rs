//! How many jobs each program that is ready has begun, and which of them may begin the next one. Pure.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// The programs of a pool that are ready.
#[derive(Default)]
pub(super) struct Loads {
    programs: BTreeMap<u64, Load>,
    last: u64,
    chosen: Option<Chosen>,
}

struct Load {
    begun: usize,
    most: usize,
    /// Whether what it has begun is a job that runs alone.
    is_alone: bool,
    /// Whether the last job that it began ran alone.
    was_alone: bool,
}

/// A program that gets no more jobs until it has none, because one has to run alone.
#[derive(Clone, Copy)]
struct Chosen {
    program: u64,
    /// It gets jobs again then, if none has come that has to run alone.
    until: Instant,
}

impl Loads {
    /// Adds a program that begins up to `most` jobs at once, and returns its number, which is never zero.
    pub(super) fn add(&mut self, most: usize) -> u64 {
        self.last += 1;
        self.programs.insert(self.last, Load { begun: 0, most, is_alone: false, was_alone: false });
        self.last
    }

    /// Removes a program that takes no more jobs.
    pub(super) fn remove(&mut self, program: u64) {
        self.programs.remove(&program);
        self.chosen = self.chosen.filter(|chosen| chosen.program != program);
    }

    /// Notes that a program begins a job, which runs alone or not.
    pub(super) fn begin(&mut self, program: u64, is_alone: bool) {
        if let Some(load) = self.programs.get_mut(&program) {
            load.begun += 1;
            (load.is_alone, load.was_alone) = (is_alone, is_alone);
        }
        if is_alone {
            self.chosen = self.chosen.filter(|chosen| chosen.program != program);
        }
    }

    /// Notes that this many of the jobs that a program had begun have ended.
    pub(super) fn end(&mut self, program: u64, count: usize) {
        if let Some(load) = self.programs.get_mut(&program) {
            load.begun = load.begun.saturating_sub(count);
            load.is_alone &= load.begun > 0;
        }
    }

    /// Returns true if a program may begin one more job: it has fewer than its `share`, or none with room has fewer. So there is
    /// always one that may, if there is one with room. A program that is not ready is not held back.
    pub(super) fn may_begin(&self, program: u64, share: usize) -> bool {
        let Some(own) = self.programs.get(&program) else { return true };
        let has_capacity =
            |(program, load): &(&u64, &Load)| load.begun < load.most && !self.is_kept(**program);
        let is_least = || self.programs.iter().filter(has_capacity).all(|(_, load)| own.begun <= load.begun);
        has_capacity(&(&program, own)) && (own.begun < share.max(1) || is_least())
    }

    /// Returns true if a program may begin a job that runs alone. After one, it takes `others` first.
    pub(super) fn may_begin_alone(&self, program: u64, others: usize) -> bool {
        self.programs.get(&program).is_some_and(|load| load.begun == 0 && (others == 0 || !load.was_alone))
    }

    /// Returns true if a program gets no more jobs beside those that it has.
    pub(super) fn is_kept(&self, program: u64) -> bool {
        self.chosen() == Some(program) || self.programs.get(&program).is_some_and(|load| load.is_alone)
    }

    /// Returns the program that gets no more jobs until it has none.
    pub(super) fn chosen(&self) -> Option<u64> {
        self.chosen.map(|chosen| chosen.program)
    }

    /// Chooses a program that asks for more jobs beside those that it has, if a job waits that has to run alone: `until` this time, if
    /// any does. There is at most one such program, and none while a job runs alone, so that the other programs serve the other
    /// jobs.
    pub(super) fn choose(&mut self, program: u64, until: Option<Instant>, now: Instant) {
        self.chosen = self.chosen.filter(|chosen| now < chosen.until);
        let Some(until) = until else { return };
        let is_busy = self.programs.get(&program).is_some_and(|load| load.begun > 0);
        if let Some(chosen) = &mut self.chosen {
            chosen.until = chosen.until.max(until);
        } else if is_busy && !self.programs.values().any(|load| load.is_alone) {
            self.chosen = Some(Chosen { program, until });
        }
    }

    /// Gives the chosen program jobs again.
    pub(super) fn release(&mut self) {
        self.chosen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn loads(programs: &[(usize, usize)]) -> Loads {
        let mut loads = Loads::default();
        for &(begun, most) in programs {
            let program = loads.add(most);
            (0..begun).for_each(|_| loads.begin(program, false));
        }
        loads
    }

    #[test]
    fn the_program_that_has_the_fewest_jobs_begins_the_next_one() {
        let may = |loads: &Loads, share| [1, 2, 3].map(|program| loads.may_begin(program, share));
        let mut some = loads(&[(2, 9), (1, 9), (1, 1)]);
        assert_eq!(may(&some, 0), [false, true, false], "the last one is full");
        assert_eq!(may(&some, 3), [true, true, false]);
        some.remove(2);
        assert!(some.may_begin(1, 0), "all others are full");
    }

    #[test]
    fn a_program_is_kept_for_a_job_that_runs_alone() {
        let mut some = loads(&[(2, 9), (3, 9)]);
        let now = Instant::now();
        let until = now + Duration::from_secs(9);
        some.choose(1, None, now);
        assert_eq!(some.chosen(), None, "no job has to run alone");
        some.choose(1, Some(until), now);
        some.choose(2, Some(until), now);
        assert_eq!(some.chosen(), Some(1), "one is enough");
        assert!(!some.may_begin(1, 50) && some.may_begin(2, 0) && !some.may_begin_alone(1, 0));
        some.end(1, 2);
        assert!(!some.may_begin(1, 50) && some.may_begin_alone(1, 5));
        some.begin(1, true);
        some.choose(2, Some(until), now);
        assert_eq!(some.chosen(), None, "the other one serves the other jobs");
        assert!(some.is_kept(1) && !some.may_begin(1, 50) && some.may_begin(2, 0));
        some.end(1, 1);
        assert!(!some.may_begin_alone(1, 5) && some.may_begin_alone(1, 0), "after one, others come first");
        assert!(some.may_begin(1, 0));
    }

    #[test]
    fn a_program_is_not_kept_for_ever() {
        let mut some = loads(&[(1, 9)]);
        let now = Instant::now();
        some.choose(1, Some(now + Duration::from_secs(9)), now);
        some.choose(1, None, now + Duration::from_secs(8));
        assert_eq!(some.chosen(), Some(1), "the job may come back");
        some.choose(1, None, now + Duration::from_secs(9));
        assert!(some.chosen().is_none() && some.may_begin(1, 0));
    }

    proptest! {
        #[test]
        fn one_of_the_programs_with_room_may_always_begin(
            programs in prop::collection::vec((0usize..9, 1usize..9), 1..9), share in 0usize..9,
        ) {
            let all = loads(&programs);
            let may = (1..=programs.len() as u64).any(|program| all.may_begin(program, share));
            prop_assert_eq!(may, programs.iter().any(|(begun, most)| begun < most));
        }
    }
}
