//! The jobs of a pool that wait for a program, and how much room its programs have. It decides who gets a job, and when
//! one more program is wanted. Every job goes to a program that begins it at once, if there is one; otherwise, programs may take
//! some ahead.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::cuts::CutFlag;
use super::loads::Loads;
use super::message::Verdict;
use super::reached;
use crate::JobContext;

/// About what a line has besides the fields of its job.
const LINE_BYTES: usize = 320;

/// How long the program that was chosen for a job that has to run alone still gets no others after the job has given up waiting.
/// The job usually comes back within this time. Otherwise, programs whose jobs take longer than it waits would never run it.
const KEPT: Duration = Duration::from_secs(10);

/// How often a program's session looks for jobs ahead that may no longer begin.
pub(super) const DOUBT_EVERY: Duration = Duration::from_millis(100);

/// A job that waits for a program, or that a program has.
pub(super) struct Request {
    /// Distinguishes it from the others of the pool.
    pub(super) number: u64,
    pub(super) context: JobContext,
    pub(super) payload: Bytes,
    /// The most attempts of the job's type.
    pub(super) max_attempts: u32,
    /// Whether its program must have no other job while it runs.
    pub(super) is_alone: bool,
    pub(super) answer: oneshot::Sender<Answer>,
    /// How long it waits for a program at most, and until when it does.
    pub(super) patience: Duration,
    pub(super) until: Instant,
    /// Raised when the attempt is cut short, and when nobody waits for the answer any more.
    pub(super) cut: Arc<CutFlag>,
}

/// What became of a job.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Its program answered. `by_itself` is false if the program had been asked to end the attempt.
    Said { verdict: Verdict, by_itself: bool },
    /// Its program ended without an answer; contains the error. `by_itself` as above.
    Ended { error: String, by_itself: bool },
    /// No program has begun it, and its worker has to ask again whether any may.
    InDoubt,
    /// Its program had begun it and ended, and it is not known to be the cause; contains what happened.
    Lost(String),
    /// Its program had begun it, and ended because of another job. This one is not to blame.
    Released,
}

/// How many jobs a program may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    /// How many more it would begin at once.
    pub(super) begin: usize,
    /// How many it would begin later.
    pub(super) ahead: usize,
    /// How long the lines of those that it begins later may be, except for the last one.
    pub(super) ahead_bytes: usize,
}

/// The jobs that a program gets.
#[derive(Default)]
pub(super) struct Taken {
    /// It begins these at once, …
    pub(super) begin: Vec<Request>,
    /// … and these later.
    pub(super) ahead: Vec<Request>,
}

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

#[derive(Default)]
pub(super) struct State {
    waiting: VecDeque<Request>,
    /// Those that have to run alone.
    alone: VecDeque<Request>,
    pub(super) loads: Loads,
    /// When to look for jobs that have waited for too long: never later than the first one has.
    look_at: Option<Instant>,
    next: u64,
    /// How many programs are ready and take jobs.
    pub(super) ready: usize,
    /// How many jobs these begin at once at most, and how many in addition to those that they have begun.
    pub(super) capacity: usize,
    pub(super) free: usize,
    /// How many more programs are being started.
    pub(super) starting: usize,
    /// How many jobs programs have, but have not begun.
    pub(super) ahead: usize,
    closed: bool,
}

impl State {
    /// Returns how many jobs wait.
    fn queued(&self) -> usize {
        self.waiting.len() + self.alone.len()
    }

    /// Returns how many jobs the programs that are ready have begun.
    fn begun(&self) -> usize {
        self.capacity.saturating_sub(self.free)
    }

    /// Returns true if there are more jobs than programs: one more program would begin a job that otherwise waits, or shares a
    /// program, and perhaps its only thread, with another one.
    fn is_short(&self) -> bool {
        !self.closed && self.queued() + self.ahead + self.begun() > self.ready + self.starting
    }

    /// Returns how many jobs no program would begin at once.
    fn surplus(&self) -> usize {
        self.waiting.len().saturating_sub(self.free)
    }

    /// Takes out the next job for a program that begins it at once, alone if it has to.
    fn next(&mut self, program: u64) -> Option<Request> {
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
    fn next_begun(&mut self, program: u64) -> Option<Request> {
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
    fn release_if_unwanted(&mut self) {
        if self.alone.is_empty() {
            self.loads.release();
        }
    }

    /// Returns the jobs among which this one waits.
    fn queue_of(&mut self, request: &Request) -> &mut VecDeque<Request> {
        if request.is_alone { &mut self.alone } else { &mut self.waiting }
    }

    /// Takes out the next job for a program that begins it later, unless another one would begin it at once. Steps are never
    /// taken ahead: the clock of a step cannot be paused. Nor is a job that would be taken back at once.
    fn next_ahead(&mut self, program: u64, now: Instant) -> Option<Request> {
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
    fn share(&self) -> usize {
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

impl Request {
    /// Returns true if its worker may have to ask again whether it may begin, before the next look at the jobs ahead has reached
    /// their program.
    pub(super) fn is_in_doubt_soon(&self, now: Instant) -> bool {
        self.context.is_in_doubt((now + 2 * DOUBT_EVERY).into_std())
    }

    /// Returns about how long its line will be.
    fn line_bytes(&self) -> usize {
        LINE_BYTES + self.context.size() * 4 / 3
    }
}

impl Places {
    /// Returns no more places than this.
    pub(super) fn at_most(self, most: usize) -> Self {
        let begin = self.begin.min(most);
        Self { begin, ahead: self.ahead.min(most - begin), ..self }
    }

    pub(super) fn is_empty(self) -> bool {
        self.begin == 0 && (self.ahead == 0 || self.ahead_bytes == 0)
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
        let mut state = self.lock();
        if !state.closed && !request.cut.is_raised() {
            self.watch(&mut state, request.until);
            state.queue_of(&request).push_front(request);
        }
        self.announce(state);
    }

    /// Takes a job out. Returns false if it does not wait any more.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        let mut state = self.lock();
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
            let look_at = self.lock().look_at;
            tokio::select! {
                () = sooner => {}
                () = reached(look_at) => drop(self.take_overdue(Instant::now())),
            }
        }
    }

    fn take_overdue(&self, now: Instant) -> Vec<Request> {
        let mut state = self.lock();
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

    /// Returns the next job for a program that begins it at once. The caller must note that in its [`Room`](super::room::Room) before it waits
    /// for anything else. If this is dropped, no job is lost.
    pub(super) async fn take(&self, program: u64) -> Request {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            // From here on, no wake-up is lost. Only now look.
            arrived.as_mut().enable();
            if let Some(request) = self.try_take(program) {
                return request;
            }
            arrived.await;
        }
    }

    /// Waits for a job for a program that takes jobs ahead, as soon as no other program would begin the job at once. Returns
    /// `None` if a job arrives after `until`.
    pub(super) async fn take_ahead(&self, program: u64, until: Instant) -> Option<Request> {
        loop {
            let mut surplus = pin!(self.surplus.notified());
            surplus.as_mut().enable();
            if Instant::now() > until {
                // Another program may take it.
                self.surplus.notify_one();
                return None;
            }
            if let Some(request) = self.try_take_ahead(program) {
                return Some(request);
            }
            surplus.await;
        }
    }

    /// Takes a job for a program without waiting; see [`Slots::take`].
    pub(super) fn try_take(&self, program: u64) -> Option<Request> {
        let mut state = self.lock();
        let chosen = state.loads.chosen();
        let request = state.next(program);
        if request.is_some() || state.loads.chosen() != chosen {
            self.pass_on(&state);
        }
        request
    }

    /// Takes a job for a program that takes jobs ahead without waiting; see [`Slots::take_ahead`].
    pub(super) fn try_take_ahead(&self, program: u64) -> Option<Request> {
        let mut state = self.lock();
        let request = state.next_ahead(program, Instant::now())?;
        // There may be more than one.
        self.ring(state);
        Some(request)
    }

    /// Returns the jobs that a program with these places gets now: its share, so that the others get as many.
    pub(super) fn try_take_all(&self, program: u64, places: Places) -> Taken {
        let (mut state, mut taken) = (self.lock(), Taken::default());
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
        loop {
            let mut wanted = pin!(self.wanted.notified());
            wanted.as_mut().enable();
            if self.lock().is_short() {
                return;
            }
            wanted.await;
        }
    }

    /// Accepts jobs again after [`Slots::close`].
    pub(super) fn open(&self) {
        self.change(|state| state.closed = false);
    }

    /// Drops the jobs that wait, and those that still come.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.alone));
        drop(state);
        drop(waiting);
    }

    /// Changes the room for jobs, and wakes those who may have waited for that.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.pass_on(&state);
        self.ring(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context;
    use crate::handlers::pool::room::{Room, Starting};
    use futures_util::FutureExt;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn push_with(
        slots: &Slots,
        context: JobContext,
        patience: Duration,
    ) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
        push_as(slots, (context, false), patience)
    }

    fn push_as(
        slots: &Slots,
        (context, is_alone): (JobContext, bool),
        patience: Duration,
    ) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
        let (answer, receiver) = oneshot::channel();
        let flag = Arc::<CutFlag>::default();
        let cut = Arc::clone(&flag);
        let request = |number| Request {
            number,
            context,
            payload: Bytes::new(),
            max_attempts: 1,
            is_alone,
            patience,
            until: Instant::now() + patience,
            answer,
            cut,
        };
        (slots.push(request), receiver, flag)
    }

    fn push(slots: &Slots) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
        push_with(slots, context(&[]), PATIENCE)
    }

    fn taken(slots: &Slots) -> Option<u64> {
        taken_by(slots, 0)
    }

    fn taken_by(slots: &Slots, program: u64) -> Option<u64> {
        slots.take(program).now_or_never().map(|request| request.number)
    }

    fn push_alone(slots: &Slots, patience: Duration) -> (u64, oneshot::Receiver<Answer>, Arc<CutFlag>) {
        push_as(slots, (context(&[]), true), patience)
    }

    #[test]
    fn jobs_are_taken_in_order_and_one_that_is_put_back_comes_first() {
        let slots = Slots::new(1);
        let kept: Vec<_> = (0..3).map(|_| push(&slots)).collect();
        let first = slots.take(0).now_or_never().unwrap();
        slots.put_back(first);
        assert_eq!([taken(&slots), taken(&slots)], [Some(0), Some(1)]);
        kept[2].2.raise();
        assert_eq!(taken(&slots), None, "nobody waits for it");
    }

    #[test]
    fn a_job_that_waits_can_be_withdrawn() {
        let slots = Slots::new(1);
        let (number, _answer, _flag) = push(&slots);
        assert!(slots.withdraw(number));
        assert!(!slots.withdraw(number));
        assert_eq!(taken(&slots), None);
    }

    #[tokio::test]
    async fn a_job_that_waits_for_too_long_is_dropped_also_after_it_was_put_back() {
        let slots = Slots::new(1);
        let (_, mut kept, _flag) = push(&slots);
        let dropping = async {
            tokio::task::yield_now().await;
            for _ in 0..2 {
                let patience = Duration::from_millis(20);
                let (number, answer, _flag) = push_with(&slots, context(&[]), patience);
                let request = slots.take_overdue(Instant::now() + patience).pop().expect("it is overdue");
                assert_eq!(request.number, number);
                let put_back_at = Instant::now();
                slots.put_back(request);
                assert!(answer.await.is_err() && put_back_at.elapsed() >= patience);
            }
        };
        tokio::select! {
            () = slots.drop_overdue() => {}
            ended = tokio::time::timeout(PATIENCE / 2, dropping) => ended.expect("it is dropped in time"),
        }
        assert_eq!(kept.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has more patience");
        assert_eq!(taken(&slots), Some(0));
    }

    fn all(slots: &Slots, room: &Room<'_>, places: Places) -> (Vec<u64>, Vec<u64>) {
        let Taken { begin, ahead } = slots.try_take_all(room.program(), places);
        let numbers = |requests: Vec<Request>| requests.iter().map(|request| request.number).collect();
        (numbers(begin), numbers(ahead))
    }

    #[test]
    fn a_program_takes_what_it_begins_and_its_share_of_the_rest_at_once() {
        let slots = Slots::new(2);
        let (one, other) = (Starting::new(&slots, 1).ready(2, 8), Starting::new(&slots, 1).ready(2, 8));
        let kept: Vec<_> = (0..10).map(|_| push(&slots)).collect();
        kept[1].2.raise();
        let places = Places { begin: 2, ahead: 8, ahead_bytes: 10_000 };
        assert_eq!(
            all(&slots, &one, places),
            (vec![0, 2], vec![3, 4, 5]),
            "7 wait, and the other one begins 2 of them"
        );
        assert_eq!(
            all(&slots, &one, Places { begin: 0, ahead_bytes: 1, ..places }),
            (vec![], vec![6]),
            "no more bytes"
        );
        assert_eq!(all(&slots, &one, Places { begin: 0, ahead: 0, ..places }), (vec![], vec![]));
        assert_eq!(all(&slots, &other, places.at_most(1)), (vec![7], vec![]));
        assert_eq!(all(&slots, &other, Places { begin: 1, ..places }), (vec![8], vec![9]));
        assert!(places.at_most(0).is_empty() && !places.at_most(3).is_empty());
    }

    #[test]
    fn programs_are_wanted_while_there_are_more_jobs_than_programs() {
        let slots = Slots::new(2);
        let wanted = || Starting::wanted(&slots).now_or_never();
        assert!(wanted().is_none());
        let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
        let one = wanted().expect("two jobs and no program");
        let two = wanted().expect("two jobs and one program");
        assert!(wanted().is_none());
        let mut room = one.ready(2, 0);
        drop(two);
        drop(wanted().expect("the second failed to start"));
        for nth in 0..2 {
            assert_eq!(taken(&slots), Some(nth));
            room.take();
        }
        drop(wanted().expect("both jobs share a program"));
        room.end();
        room.tell();
        assert!(wanted().is_none() && room.is_free());
        room.close();
        assert!(wanted().is_none(), "the last job stays where it is");
        let _another = push(&slots);
        assert!(wanted().is_some());
    }

    #[test]
    fn jobs_are_spread_over_the_programs_that_are_ready() {
        let slots = Slots::new(50);
        let (one, other) = (Starting::new(&slots, 1).ready(50, 0), Starting::new(&slots, 1).ready(50, 0));
        let _kept: Vec<_> = (0..10).map(|_| push(&slots)).collect();
        let places = Places { begin: 50, ahead: 0, ahead_bytes: 0 };
        assert_eq!(all(&slots, &one, places).0.len(), 5);
        assert_eq!(all(&slots, &one, Places { begin: 45, ..places }).0.len(), 0);
        assert_eq!(taken_by(&slots, one.program()), None, "nor does it when it waits for one");
        assert_eq!(all(&slots, &other, places).0.len(), 5);
    }

    #[test]
    fn the_job_that_is_left_over_goes_to_the_program_that_has_the_fewest() {
        let slots = Slots::new(50);
        let rooms = [9, 9, 1].map(|most| Starting::new(&slots, 1).ready(most, 0));
        let [one, other, small] = rooms.each_ref().map(Room::program);
        let _kept: Vec<_> = (0..4).map(|_| push(&slots)).collect();
        assert_eq!([taken_by(&slots, one), taken_by(&slots, one)], [Some(0), None]);
        let mut waiting = pin!(slots.take(one));
        assert!(waiting.as_mut().now_or_never().is_none(), "the others have none");
        assert_eq!([taken_by(&slots, other), taken_by(&slots, small)], [Some(1), Some(2)]);
        assert_eq!(waiting.now_or_never().map(|request| request.number), Some(3), "it was woken");
        let _more: Vec<_> = (0..2).map(|_| push(&slots)).collect();
        assert_eq!(
            [taken_by(&slots, small), taken_by(&slots, one), taken_by(&slots, other)],
            [None, None, Some(4)]
        );
        assert_eq!(taken_by(&slots, one), Some(5), "the one that has fewer is full");
    }

    #[test]
    fn a_job_runs_alone_and_the_others_go_to_other_programs() {
        let slots = Slots::new(50);
        let (mut one, other) = (Starting::new(&slots, 1).ready(50, 8), Starting::new(&slots, 1).ready(50, 8));
        let _busy: Vec<_> = (0..2).map(|_| push(&slots)).collect();
        assert_eq!([taken_by(&slots, one.program()), taken_by(&slots, other.program())], [Some(0), Some(1)]);
        one.take();
        let mut waiting = pin!(slots.take(one.program()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let _alone = push_alone(&slots, PATIENCE);
        let _others: Vec<_> = (0..3).map(|_| push(&slots)).collect();
        assert!(waiting.as_mut().now_or_never().is_none(), "it has a job");
        let places = Places { begin: 49, ahead: 8, ahead_bytes: 10_000 };
        assert_eq!(all(&slots, &one, places), (vec![], vec![]), "it gets no others");
        assert_eq!(all(&slots, &other, places), (vec![3, 4, 5], vec![]), "they wait for nothing");
        one.end();
        one.tell();
        let last = push(&slots);
        assert_eq!(all(&slots, &one, places), (vec![2], vec![]), "it is alone");
        assert_eq!(all(&slots, &one, places), (vec![], vec![]));
        assert_eq!(
            taken_by(&slots, other.program()),
            Some(last.0),
            "it has more jobs, but the first one is kept"
        );
    }

    #[test]
    fn a_program_stays_chosen_until_the_job_that_waited_is_back() {
        let slots = Slots::new(50);
        let mut only = Starting::new(&slots, 1).ready(50, 0);
        let _busy = push(&slots);
        assert_eq!(taken_by(&slots, only.program()), Some(0));
        only.take();
        let first = push_alone(&slots, Duration::ZERO);
        let _other = push(&slots);
        assert_eq!(taken_by(&slots, only.program()), None);
        assert_eq!(slots.take_overdue(Instant::now()).len(), 1, "it has waited for too long");
        assert_eq!((taken_by(&slots, only.program()), slots.withdraw(first.0)), (None, false));
        only.end();
        only.tell();
        let second = push_alone(&slots, PATIENCE);
        assert_eq!(taken_by(&slots, only.program()), Some(second.0));
        only.take();
        only.end();
        only.tell();
        let third = push_alone(&slots, PATIENCE);
        assert_eq!(taken_by(&slots, only.program()), Some(2), "after one, the others come first");
        let another = push(&slots);
        assert_eq!(taken_by(&slots, only.program()), None);
        assert!(slots.withdraw(third.0));
        assert_eq!(taken_by(&slots, only.program()), Some(another.0), "no job has to run alone any more");
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn taken_ahead(slots: &Slots) -> Option<u64> {
        slots.take_ahead(0, soon()).now_or_never().flatten().map(|request| request.number)
    }

    #[test]
    fn only_jobs_that_no_program_would_begin_are_taken_ahead() {
        let slots = Slots::new(1);
        let (mut busy, _idle) = (Starting::new(&slots, 1).ready(1, 2), Starting::new(&slots, 1).ready(1, 2));
        let _kept: Vec<_> = (0..4).map(|_| push(&slots)).collect();
        assert_eq!(taken(&slots), Some(0));
        assert!(!busy.is_free_ahead());
        busy.take();
        assert!(!busy.is_free() && busy.is_free_ahead());
        assert_eq!(slots.lock().share(), 1, "two jobs for two programs");
        for want in [1, 2] {
            assert_eq!(taken_ahead(&slots), Some(want));
            busy.take_ahead();
        }
        assert_eq!(taken_ahead(&slots), None, "the other program begins the last one");
        assert!(!busy.is_free_ahead());
        assert_eq!(taken(&slots), Some(3));
    }

    #[test]
    fn a_program_that_leaves_makes_its_share_a_surplus() {
        let slots = Slots::new(1);
        let (mut busy, idle) = (Starting::new(&slots, 1).ready(1, 2), Starting::new(&slots, 1).ready(1, 2));
        let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
        assert_eq!(taken(&slots), Some(0));
        busy.take();
        let mut waiting = pin!(slots.take_ahead(0, soon()));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(idle);
        let late = slots.take_ahead(0, Instant::now() - Duration::from_secs(1));
        assert!(late.now_or_never().is_some_and(|request| request.is_none()), "it is too late for this one");
        assert_eq!(waiting.now_or_never().flatten().map(|request| request.number), Some(1));
    }

    #[test]
    fn jobs_that_were_taken_ahead_want_one_more_program() {
        let slots = Slots::new(1);
        let mut room = Starting::new(&slots, 1).ready(1, 8);
        let _kept: Vec<_> = (0..2).map(|_| push(&slots)).collect();
        assert_eq!((taken(&slots), taken_ahead(&slots)), (Some(0), Some(1)));
        room.take();
        room.take_ahead();
        drop(Starting::wanted(&slots).now_or_never().expect("one job could begin in another program"));
        room.follow();
        room.tell();
        assert!(Starting::wanted(&slots).now_or_never().is_none(), "it has begun in this one");
        room.end();
        assert!(room.is_free());
    }

    #[test]
    fn a_step_is_never_taken_ahead() {
        let slots = Slots::new(1);
        let mut room = Starting::new(&slots, 1).ready(1, 8);
        let first = push(&slots);
        assert_eq!(taken(&slots), Some(first.0));
        room.take();
        let step = push_with(&slots, context(&[]).with_step("charge"), PATIENCE);
        assert_eq!(taken_ahead(&slots), None);
        room.end();
        assert_eq!(taken(&slots), Some(step.0));
    }

    #[test]
    fn a_job_that_may_soon_have_expired_is_not_taken_ahead() {
        let slots = Slots::new(1);
        let mut room = Starting::new(&slots, 1).ready(1, 8);
        let first = push(&slots);
        assert_eq!(taken(&slots), Some(first.0));
        room.take();
        let expiring = context(&[]);
        let (number, _answer, _flag) = push_with(&slots, expiring.clone(), PATIENCE);
        let now = Instant::now();
        let ahead = |left: Duration| {
            expiring.held_lease().expires_at((now + left).into_std());
            slots.lock().next_ahead(0, now).map(|request| request.number)
        };
        assert_eq!(ahead(DOUBT_EVERY), None);
        assert_eq!(ahead(3 * DOUBT_EVERY), Some(number));
    }

    #[tokio::test]
    async fn a_pool_that_has_stopped_drops_its_jobs() {
        let slots = Slots::new(1);
        let (_, waiting, _flag) = push(&slots);
        slots.close();
        let (_, late, _flag) = push(&slots);
        assert!(waiting.await.is_err() && late.await.is_err());
        slots.open();
        let (number, _answer, _flag) = push(&slots);
        assert_eq!(taken(&slots), Some(number));
    }
}
