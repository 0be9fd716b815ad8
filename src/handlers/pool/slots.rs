//! The jobs of a pool that wait for a program, and how much room its programs have. It decides who gets a job, and when
//! one more program is wanted. Every job goes to a program that begins it at once, if there is one; otherwise, programs may take
//! some ahead.

mod state;

use std::pin::pin;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::state::State;
use super::reached;
use super::request::{OpenPlaces, Request, Taken};
use crate::broker::mutex::lock;
use crate::wakeup::wait_for;

/// The jobs that wait, and the room for more.
#[derive(Default)]
pub(super) struct Slots {
    state: Mutex<State>,
    /// A job has arrived for a program that begins it at once.
    arrived: Notify,
    /// There are more jobs than programs that would begin them at once.
    surplus: Notify,
    /// One more program is wanted.
    wanted: Notify,
    /// A job will have waited for too long before the time that is known.
    sooner: Notify,
    /// Whether programs have one job at a time. Then the one that was busy last gets the next job, so that the others may end.
    /// Otherwise all get jobs in turn.
    one_at_a_time: bool,
}

impl Slots {
    pub(super) fn new(inflight: usize) -> Self {
        Self { one_at_a_time: inflight == 1, ..Self::default() }
    }

    /// Lets a job wait for a program, and returns its number. Once the pool has stopped, the job's answer is dropped.
    pub(super) fn push(&self, request: impl FnOnce(u64) -> Request) -> u64 {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        let request = request(number);
        if !state.closed {
            self.watch(&mut state, request.until);
            state.queue_of(&request).push_back(request);
        }
        self.announce(state);
        number
    }

    /// Lets a job wait again, before the others: its program could not take it. If it was cut short, it ends as one that no program
    /// has begun.
    pub(super) fn put_back(&self, mut request: Request) {
        request.until = Instant::now() + request.patience;
        let mut state = lock(&self.state);
        if !state.closed && !request.cut.is_raised() {
            self.watch(&mut state, request.until);
            state.queue_of(&request).push_front(request);
        }
        self.announce(state);
    }

    /// Takes a job out. Returns false if it does not wait any more.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let mut state = lock(&self.state);
        let before = state.queued();
        state.waiting.retain(|request| request.number != number);
        if !state.alone.is_empty() {
            state.alone.retain(|request| request.number != number);
            state.release_if_unwanted();
        }
        state.queued() < before
    }

    /// Drops the jobs that have waited for too long, for as long as this runs. It serves all of them, because a timer for each
    /// would cost more than the rest of the job's way to its program.
    pub(super) async fn drop_overdue(&self) {
        loop {
            let mut sooner = pin!(self.sooner.notified());
            // From here on, no wake-up is lost. Only now look.
            sooner.as_mut().enable();
            let look_at = lock(&self.state).look_at;
            tokio::select! {
                () = sooner => {}
                () = reached(look_at) => drop(self.take_overdue(Instant::now())),
            }
        }
    }

    fn take_overdue(&self, now: Instant) -> Vec<Request> {
        let mut state = lock(&self.state);
        let all = std::mem::take(&mut state.waiting).into_iter().chain(std::mem::take(&mut state.alone));
        let (overdue, left) = all.partition::<Vec<_>, _>(|request| request.until <= now);
        state.look_at = left.iter().map(|request| request.until).min();
        let (alone, waiting) = left.into_iter().partition::<Vec<_>, _>(|request| request.is_alone);
        (state.waiting, state.alone) = (waiting.into(), alone.into());
        overdue
    }

    /// Makes sure that there is a look at the jobs at this time.
    fn watch(&self, state: &mut State, until: Instant) {
        if state.look_at.is_none_or(|look_at| until < look_at) {
            state.look_at = Some(until);
            self.sooner.notify_waiters();
        }
    }

    fn announce(&self, state: MutexGuard<'_, State>) {
        if self.one_at_a_time {
            self.arrived.notify_last();
        } else {
            // The one that may have it takes it.
            self.arrived.notify_waiters();
        }
        self.ring(state);
    }

    /// Wakes the programs that begin jobs if others than before may have those that wait.
    fn pass_on(&self, state: &State) {
        if !self.one_at_a_time && state.queued() > 0 {
            self.arrived.notify_waiters();
        }
    }

    /// If no program would begin all jobs at once, wakes one that takes jobs ahead. If there are more jobs than programs, wakes a
    /// place that can start one more.
    fn ring(&self, state: MutexGuard<'_, State>) {
        let (is_short, has_surplus) = (state.is_short(), state.surplus() > 0);
        drop(state);
        if has_surplus {
            self.surplus.notify_one();
        }
        if is_short {
            self.wanted.notify_one();
        }
    }

    /// Returns the next job for a program that begins it at once. The caller must note that in its
    /// [`ProgramCapacity`](super::capacity::ProgramCapacity) before it waits for anything else. If this is dropped, no job is lost.
    pub(super) async fn take(&self, program: u64) -> Request {
        wait_for(&self.arrived, || self.try_take(program)).await
    }

    /// Waits for a job for a program that takes jobs ahead, as soon as no other program would begin the job at once. Returns
    /// `None` if a job arrives after `until`.
    pub(super) async fn take_ahead(&self, program: u64, until: Instant) -> Option<Request> {
        wait_for(&self.surplus, || {
            if Instant::now() > until {
                // Another program may take it.
                self.surplus.notify_one();
                return Some(None);
            }
            self.try_take_ahead(program).map(Some)
        })
        .await
    }

    /// Takes a job for a program without waiting; see [`Slots::take`].
    pub(super) fn try_take(&self, program: u64) -> Option<Request> {
        let mut state = lock(&self.state);
        let chosen = state.loads.chosen();
        let request = state.next(program);
        if request.is_some() || state.loads.chosen() != chosen {
            self.pass_on(&state);
        }
        request
    }

    /// Takes a job for a program that takes jobs ahead without waiting; see [`Slots::take_ahead`].
    pub(super) fn try_take_ahead(&self, program: u64) -> Option<Request> {
        let mut state = lock(&self.state);
        let request = state.next_ahead(program, Instant::now())?;
        // There may be more than one.
        self.ring(state);
        Some(request)
    }

    /// Returns the jobs that a program with these places gets now: its share, so that the others get as many.
    pub(super) fn try_take_all(&self, program: u64, places: OpenPlaces) -> Taken {
        let (mut state, mut taken) = (lock(&self.state), Taken::default());
        let chosen = state.loads.chosen();
        while taken.begin.len() < places.begin {
            let is_first = taken.begin.is_empty();
            let next = if is_first { state.next(program) } else { state.next_begun(program) };
            let Some(request) = next else { break };
            taken.begin.push(request);
        }
        if !taken.begin.is_empty() || state.loads.chosen() != chosen {
            self.pass_on(&state);
        }
        if taken.begin.len() < places.begin {
            return taken;
        }
        let (share, mut bytes) = (state.share().min(places.ahead), places.ahead_bytes);
        let now = Instant::now();
        while taken.ahead.len() < share && bytes > 0 {
            let Some(request) = state.next_ahead(program, now) else { break };
            bytes = bytes.saturating_sub(request.line_bytes());
            taken.ahead.push(request);
        }
        if !taken.ahead.is_empty() {
            self.ring(state);
        }
        taken
    }

    /// Waits until there are more jobs than programs. More than one caller may learn of it.
    pub(super) async fn wanted(&self) {
        wait_for(&self.wanted, || lock(&self.state).is_short().then_some(())).await;
    }

    /// Accepts jobs again after [`Slots::close`].
    pub(super) fn open(&self) {
        self.change(|state| state.closed = false);
    }

    /// Drops the jobs that wait, and those that still come.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let waiting = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.alone));
        drop(state);
        drop(waiting);
    }

    /// Changes the room for jobs, and wakes those who may have waited for that.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        self.pass_on(&state);
        self.ring(state);
    }
}

#[cfg(test)]
mod tests;
