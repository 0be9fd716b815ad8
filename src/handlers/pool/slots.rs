//! The jobs of a pool that wait for a program, and how much room its programs have. It decides who gets a job, and when
//! one more program is wanted.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::message::Verdict;
use crate::JobContext;

/// A job that waits for a program, or that a program has.
pub(super) struct Request {
    /// Distinguishes it from the others of the pool.
    pub(super) number: u64,
    pub(super) context: JobContext,
    pub(super) payload: Bytes,
    /// The most attempts of the job's type.
    pub(super) max_attempts: u32,
    pub(super) answer: oneshot::Sender<Answer>,
    /// Cancelled when the attempt is cut short, and when nobody waits for the answer any more.
    pub(super) gone: CancellationToken,
}

/// What became of a job.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Its program answered. `by_itself` is false if the program had been asked to end the attempt.
    Said { verdict: Verdict, by_itself: bool },
    /// Its program ended without an answer; contains the error. `by_itself` as above.
    Ended { error: String, by_itself: bool },
    /// Its program ended because of another job. This one is not to blame.
    Released,
}

/// The jobs that wait, and the room for more.
#[derive(Default)]
pub(super) struct Slots {
    state: Mutex<State>,
    /// A job has arrived for a program that has room.
    arrived: Notify,
    /// One more program is wanted.
    wanted: Notify,
    /// Whether programs have one job at a time. Then the one that was busy last gets the next job, so that the others may end.
    /// Otherwise all get jobs in turn.
    one_at_a_time: bool,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    next: u64,
    /// How many jobs the programs that are ready could take in addition.
    free: usize,
    /// The same for programs that are being started.
    starting: usize,
    closed: bool,
}

impl State {
    fn is_short(&self) -> bool {
        !self.closed && self.waiting.len() > self.free + self.starting
    }
}

impl Slots {
    pub(super) fn new(inflight: usize) -> Self {
        Self { one_at_a_time: inflight == 1, ..Self::default() }
    }

    /// Lets a job wait for a program, and returns its number. Once the pool has stopped, the job's answer is dropped.
    pub(super) fn push(&self, request: impl FnOnce(u64) -> Request) -> u64 {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let request = request(number);
        if !state.closed {
            state.waiting.push_back(request);
        }
        self.announce(state);
        number
    }

    /// Lets a job wait again, before the others: its program could not take it.
    pub(super) fn put_back(&self, request: Request) {
        let mut state = self.lock();
        if !state.closed && !request.gone.is_cancelled() {
            state.waiting.push_front(request);
        }
        self.announce(state);
    }

    /// Takes a job out. Returns false if it does not wait any more.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let mut state = self.lock();
        let before = state.waiting.len();
        state.waiting.retain(|request| request.number != number);
        state.waiting.len() < before
    }

    fn announce(&self, state: MutexGuard<'_, State>) {
        let is_short = state.is_short();
        drop(state);
        if self.one_at_a_time {
            self.arrived.notify_last();
        } else {
            self.arrived.notify_one();
        }
        if is_short {
            self.wanted.notify_one();
        }
    }

    /// Returns the next job for a program that has room. The caller must note that in its [`Room`] before it waits for
    /// anything else. If this is dropped, no job is lost.
    pub(super) async fn take(&self) -> Request {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            // From here on, no wake-up is lost. Only now look.
            arrived.as_mut().enable();
            if let Some(request) = self.pop() {
                return request;
            }
            arrived.await;
        }
    }

    fn pop(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            let request = state.waiting.pop_front()?;
            // Who waited for it will find out that it does not wait any more.
            if !request.gone.is_cancelled() {
                state.free = state.free.saturating_sub(1);
                return Some(request);
            }
        }
    }

    /// Waits until there are more jobs than the programs have room for, and notes that one with room for `room` starts.
    pub(super) async fn wanted(&self, room: usize) -> Starting<'_> {
        loop {
            let mut wanted = pin!(self.wanted.notified());
            wanted.as_mut().enable();
            if self.lock().is_short() {
                return self.starting(room);
            }
            wanted.await;
        }
    }

    /// Notes that a program with room for `room` starts.
    pub(super) fn starting(&self, room: usize) -> Starting<'_> {
        let mut state = self.lock();
        state.starting += room;
        // More than one may be wanted.
        let is_short = state.is_short();
        drop(state);
        if is_short {
            self.wanted.notify_one();
        }
        Starting { slots: self, room }
    }

    /// Accepts jobs again after [`Slots::close`].
    pub(super) fn open(&self) {
        self.change(|state| state.closed = false);
    }

    /// Drops the jobs that wait, and those that still come.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let is_short = state.is_short();
        drop(state);
        if is_short {
            self.wanted.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of a program that is being started.
pub(super) struct Starting<'a> {
    slots: &'a Slots,
    room: usize,
}

impl<'a> Starting<'a> {
    /// Notes that the program is ready, and has room for `room` jobs.
    pub(super) fn ready(self, room: usize) -> Room<'a> {
        let slots = self.slots;
        slots.change(|state| state.free += room);
        drop(self);
        Room { slots, most: room, used: 0, open: true }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let room = self.room;
        self.slots.change(|state| state.starting = state.starting.saturating_sub(room));
    }
}

/// The room of a program that is ready.
pub(super) struct Room<'a> {
    slots: &'a Slots,
    most: usize,
    used: usize,
    /// Whether it takes more jobs.
    open: bool,
}

impl Room<'_> {
    /// Returns true if the program may take one more job.
    pub(super) fn is_free(&self) -> bool {
        self.open && self.used < self.most
    }

    /// Notes that the program has one more job, which [`Slots::take`] returned.
    pub(super) fn take(&mut self) {
        self.used += 1;
    }

    /// Notes that the program has one job less.
    pub(super) fn give_back(&mut self) {
        self.used = self.used.saturating_sub(1);
        if self.open {
            self.slots.change(|state| state.free += 1);
        }
    }

    /// Notes that the program takes no more jobs.
    pub(super) fn close(&mut self) {
        if std::mem::replace(&mut self.open, false) {
            let unused = self.most.saturating_sub(self.used);
            self.slots.change(|state| state.free = state.free.saturating_sub(unused));
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;
    use futures_util::FutureExt;

    fn push(slots: &Slots) -> (u64, oneshot::Receiver<Answer>, CancellationToken) {
        let (answer, receiver) = oneshot::channel();
        let gone = CancellationToken::new();
        let token = gone.clone();
        let request = |number| Request {
            number,
            context: context(&[]),
            payload: Bytes::new(),
            max_attempts: 1,
            answer,
            gone: token,
        };
        (slots.push(request), receiver, gone)
    }

    fn taken(slots: &Slots) -> Option<u64> {
        slots.take().now_or_never().map(|request| request.number)
    }

    #[test]
    fn jobs_are_taken_in_order_and_one_that_is_put_back_comes_first() {
        let slots = Slots::new(1);
        let kept: Vec<_> = (0..3).map(|_| push(&slots)).collect();
        let first = slots.take().now_or_never().unwrap();
        slots.put_back(first);
        assert_eq!([taken(&slots), taken(&slots)], [Some(0), Some(1)]);
        kept[2].2.cancel();
        assert_eq!(taken(&slots), None, "nobody waits for it");
    }

    #[test]
    fn a_job_that_waits_can_be_withdrawn() {
        let slots = Slots::new(1);
        let (number, _answer, _gone) = push(&slots);
        assert!(slots.withdraw(number));
        assert!(!slots.withdraw(number));
        assert_eq!(taken(&slots), None);
    }

    #[test]
    fn programs_are_wanted_only_for_jobs_that_have_no_room() {
        let slots = Slots::new(2);
        assert!(slots.wanted(2).now_or_never().is_none());
        let _kept: Vec<_> = (0..3).map(|_| push(&slots)).collect();
        let one = slots.wanted(2).now_or_never().expect("three jobs and no program");
        let two = slots.wanted(2).now_or_never().expect("three jobs and room for two");
        assert!(slots.wanted(2).now_or_never().is_none());
        let mut room = one.ready(2);
        drop(two);
        let again = slots.wanted(2).now_or_never().expect("the second failed to start");
        drop(again);
        assert_eq!(taken(&slots), Some(0));
        room.take();
        assert!(room.is_free());
        room.close();
        assert!(!room.is_free());
        assert!(slots.wanted(2).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_pool_that_has_stopped_drops_its_jobs() {
        let slots = Slots::new(1);
        let (_, waiting, _gone) = push(&slots);
        slots.close();
        let (_, late, _gone) = push(&slots);
        assert!(waiting.await.is_err() && late.await.is_err());
        slots.open();
        let (number, _answer, _gone) = push(&slots);
        assert_eq!(taken(&slots), Some(number));
    }
}
