//! How many jobs one program has, and may have. The jobs that wait are in the [slots](super::slots), which count the room of all
//! programs.

use super::slots::Slots;

/// A program that is being started.
pub(super) struct Starting<'a> {
    slots: &'a Slots,
    /// How many more programs there will be: none if it takes the place of another one.
    more: usize,
}

impl<'a> Starting<'a> {
    /// Notes that a program starts, which makes this many `more`.
    pub(super) fn new(slots: &'a Slots, more: usize) -> Self {
        slots.change(|state| state.starting += more);
        Self { slots, more }
    }

    /// Waits until there are more jobs than programs, and notes that one starts.
    pub(super) async fn wanted(slots: &'a Slots) -> Self {
        slots.wanted().await;
        Self::new(slots, 1)
    }

    /// Notes that the program is ready, begins up to `most` jobs at once, and takes up to `ahead` more.
    pub(super) fn ready(self, most: usize, ahead: usize) -> ProgramCapacity<'a> {
        let slots = self.slots;
        let mut program = 0;
        slots.change(|state| {
            program = state.loads.add(most);
            state.capacity += most;
            state.free += most;
            state.ready += 1;
        });
        drop(self);
        ProgramCapacity {
            slots,
            program,
            most,
            most_ahead: ahead,
            begun: 0,
            ahead: 0,
            open: true,
            freed: 0,
            left_ahead: 0,
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let more = self.more;
        self.slots.change(|state| state.starting = state.starting.saturating_sub(more));
    }
}

/// The capacity of a program that is ready. It takes jobs ahead only while it has begun as many as it may. The pool learns of jobs that
/// have ended by [`ProgramCapacity::tell`], of many of them at once.
pub(super) struct ProgramCapacity<'a> {
    slots: &'a Slots,
    /// Distinguishes the program from the others of the pool.
    program: u64,
    most: usize,
    most_ahead: usize,
    begun: usize,
    ahead: usize,
    /// Whether it takes more jobs.
    open: bool,
    /// How many jobs have ended since the pool was told.
    freed: usize,
    /// How many jobs are no longer ahead since then.
    left_ahead: usize,
}

impl ProgramCapacity<'_> {
    /// Returns the program's number in its pool.
    pub(super) fn program(&self) -> u64 {
        self.program
    }

    /// Returns how many more jobs the program would begin at once.
    pub(super) fn places(&self) -> usize {
        if self.open { self.most.saturating_sub(self.begun) } else { 0 }
    }

    /// Returns how many jobs the program may take that it begins after as many as it may. While it has more than half of them, it
    /// gets none: then it gets many at once, and is woken less often.
    pub(super) fn places_ahead(&self) -> usize {
        let is_low = self.ahead <= self.most_ahead / 2;
        if self.open && is_low { self.most_ahead - self.ahead } else { 0 }
    }

    /// Returns true if the program would begin one more job at once.
    pub(super) fn is_free(&self) -> bool {
        self.places() > 0
    }

    /// Returns true if the program may take a job that it begins later.
    pub(super) fn is_free_ahead(&self) -> bool {
        self.begun >= self.most && self.places_ahead() > 0
    }

    /// Lets the pool know which places have become free.
    pub(super) fn tell(&mut self) {
        let (freed, left_ahead) = (std::mem::take(&mut self.freed), std::mem::take(&mut self.left_ahead));
        if freed + left_ahead > 0 {
            let program = self.program;
            self.slots.change(|state| {
                state.loads.end(program, freed);
                state.free += freed;
                state.ahead = state.ahead.saturating_sub(left_ahead);
            });
        }
    }

    /// Notes that the program begins a job, which [`Slots::take`] returned.
    pub(super) fn take(&mut self) {
        self.begun += 1;
    }

    /// Notes that the program has a job, which [`Slots::take_ahead`] returned.
    pub(super) fn take_ahead(&mut self) {
        self.ahead += 1;
    }

    /// Notes that a job which it had begun has ended.
    pub(super) fn end(&mut self) {
        self.begun = self.begun.saturating_sub(1);
        self.freed += usize::from(self.open);
    }

    /// Notes that the next job begins in the place of one that has ended.
    pub(super) fn follow(&mut self) {
        self.end_ahead();
    }

    /// Notes that a job which it had not begun has ended.
    pub(super) fn end_ahead(&mut self) {
        self.ahead = self.ahead.saturating_sub(1);
        self.left_ahead += 1;
    }

    /// Notes that the program takes no more jobs.
    pub(super) fn close(&mut self) {
        self.tell();
        if std::mem::replace(&mut self.open, false) {
            let (program, most) = (self.program, self.most);
            let unused = most.saturating_sub(self.begun);
            self.slots.change(|state| {
                state.loads.remove(program);
                state.capacity = state.capacity.saturating_sub(most);
                state.free = state.free.saturating_sub(unused);
                state.ready = state.ready.saturating_sub(1);
            });
        }
    }
}

impl Drop for ProgramCapacity<'_> {
    fn drop(&mut self) {
        self.close();
        let ahead = self.ahead;
        self.slots.change(|state| state.ahead = state.ahead.saturating_sub(ahead));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_has_more_than_half_of_its_jobs_ahead_gets_no_more() {
        let slots = Slots::new(1);
        let mut capacity = Starting::new(&slots, 1).ready(1, 5);
        capacity.take();
        let places = [5, 4, 3, 0, 0, 0].map(|want| {
            let places = capacity.places_ahead();
            capacity.take_ahead();
            (places, want)
        });
        assert!(places.iter().all(|(places, want)| places == want), "{places:?}");
        assert!(!capacity.is_free_ahead());
        (0..4).for_each(|_| capacity.follow());
        assert!(capacity.is_free_ahead());
    }
}
