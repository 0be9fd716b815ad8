//! Which job a program gets next, and what else follows from the jobs and the programs that there are.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::handlers::pool::loads::Loads;
use crate::handlers::pool::request::{Answer, Request};

/// How long the program that was chosen for a job that has to run alone still gets no others after the job has given up waiting.
/// The job usually comes back within this time. Otherwise, programs whose jobs take longer than it waits would never run it.
const KEPT: Duration = Duration::from_secs(10);

/// The jobs that wait, and the programs that may have them.
#[derive(Default)]
pub(in super::super) struct State {
    pub(super) waiting: VecDeque<Request>,
    /// Those that have to run alone.
    pub(super) alone: VecDeque<Request>,
    pub(in super::super) loads: Loads,
    /// When to look for jobs that have waited for too long: never later than the first one has.
    pub(super) look_at: Option<Instant>,
    pub(super) next: u64,
    /// How many programs are ready and take jobs.
    pub(in super::super) ready: usize,
    /// How many jobs these begin at once at most, and how many in addition to those that they have begun.
    pub(in super::super) capacity: usize,
    pub(in super::super) free: usize,
    /// How many more programs are being started.
    pub(in super::super) starting: usize,
    /// How many jobs programs have, but have not begun.
    pub(in super::super) ahead: usize,
    pub(super) closed: bool,
}

impl State {
    /// Returns how many jobs wait.
    pub(super) fn queued(&self) -> usize {
        self.waiting.len() + self.alone.len()
    }

    /// Returns how many jobs the programs that are ready have begun.
    fn begun(&self) -> usize {
        self.capacity.saturating_sub(self.free)
    }

    /// Returns true if there are more jobs than programs: one more program would begin a job that otherwise waits, or shares a
    /// program, and perhaps its only thread, with another one.
    pub(super) fn is_short(&self) -> bool {
        !self.closed && self.queued() + self.ahead + self.begun() > self.ready + self.starting
    }

    /// Returns how many jobs no program would begin at once.
    pub(super) fn surplus(&self) -> usize {
        self.waiting.len().saturating_sub(self.free)
    }

    /// Takes out the next job for a program that begins it at once, alone if it has to.
    pub(super) fn next(&mut self, program: u64) -> Option<Request> {
        let now = Instant::now();
        drop_unfit(&mut self.alone, now);
        if self.loads.may_begin_alone(program, self.waiting.len())
            && let Some(request) = self.alone.pop_front()
        {
            self.begin(program, true);
            self.release_if_unwanted();
            return Some(request);
        }
        let until = self.alone.back().map(|last| last.until + KEPT);
        self.loads.choose(program, until, now);
        self.next_begun(program)
    }

    /// Takes out the next job for a program that begins it at once beside others.
    pub(super) fn next_begun(&mut self, program: u64) -> Option<Request> {
        drop_unfit(&mut self.waiting, Instant::now());
        if !self.loads.may_begin(program, self.even()) {
            return None;
        }
        let request = self.waiting.pop_front()?;
        self.begin(program, false);
        Some(request)
    }

    fn begin(&mut self, program: u64, is_alone: bool) {
        self.loads.begin(program, is_alone);
        self.free = self.free.saturating_sub(1);
    }

    /// Gives the program that was chosen jobs again if none waits that has to run alone.
    pub(super) fn release_if_unwanted(&mut self) {
        if self.alone.is_empty() {
            self.loads.release();
        }
    }

    /// Returns the jobs among which this one waits.
    pub(super) fn queue_of(&mut self, request: &Request) -> &mut VecDeque<Request> {
        if request.is_alone { &mut self.alone } else { &mut self.waiting }
    }

    /// Takes out the next job for a program that begins it later, unless another one would begin it at once. Steps are never
    /// taken ahead: the clock of a step cannot be paused. Nor is a job that would be taken back at once.
    pub(super) fn next_ahead(&mut self, program: u64, now: Instant) -> Option<Request> {
        drop_unfit(&mut self.waiting, now);
        let first = self.waiting.front()?;
        let stays_here = first.context.step().is_some() || first.is_in_doubt_soon(now);
        if stays_here || self.surplus() == 0 || self.loads.is_kept(program) {
            return None;
        }
        self.ahead += 1;
        self.waiting.pop_front()
    }

    /// Returns how many jobs each program has begun at least if all jobs are spread evenly.
    fn even(&self) -> usize {
        (self.waiting.len() + self.begun()) / self.ready.max(1)
    }

    /// Returns how many jobs one program may take ahead now, so that the others get as many.
    pub(super) fn share(&self) -> usize {
        self.surplus().div_ceil(self.ready.max(1))
    }
}

/// Takes out the first jobs for as long as no program may begin them.
fn drop_unfit(waiting: &mut VecDeque<Request>, now: Instant) {
    while let Some(first) = waiting.front() {
        let (is_cut, is_in_doubt) = (first.cut.is_raised(), first.context.is_in_doubt(now.into_std()));
        if !is_cut && !is_in_doubt {
            return;
        }
        let first = waiting.pop_front();
        // Who waited for one that was cut short will find out that it does not wait any more.
        if let Some(first) = first.filter(|_| !is_cut) {
            first.answer.send(Answer::InDoubt).ok();
        }
    }
}
