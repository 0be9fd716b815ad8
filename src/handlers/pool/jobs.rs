//! The jobs that one program has: those that it has begun, those that it has ahead, and those that are cut short. Pure, except
//! that it counts the program's room, and pauses the clocks of jobs that have not begun.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::CUT_DELAY;
use super::cuts::Bell;
use super::program_capacity::ProgramCapacity;
use super::request::{Answer, OpenPlaces, Request};
use crate::JobContext;

/// While a program works on a job for longer than this, it gets no more jobs ahead: they would wait too long.
const QUICK: Duration = Duration::from_millis(10);

/// Nothing more is written ahead while this much is: what is written next must fit into the pipe, even if the program reads
/// nothing, so that it finds there which of its jobs are cancelled.
const MOST_AHEAD_BYTES: usize = 32 * 1024;

/// The jobs of one program, by the names that they have on its pipe.
pub(super) struct Jobs<'a> {
    capacity: ProgramCapacity<'a>,
    running: FxHashMap<u64, Running>,
    /// Those that the program has not begun, in the order in which it begins them.
    ahead: VecDeque<u64>,
    ahead_bytes: usize,
    /// How many of all are cut short.
    cuts: usize,
    bell: Arc<Bell>,
    /// When the program last began a job, as far as the worker knows.
    begun_at: Instant,
}

/// A job that the program has.
pub(super) struct Running {
    pub(super) request: Request,
    /// Whether all of its line was written.
    pub(super) sent: bool,
    /// Whether the program said anything about it.
    pub(super) heard: bool,
    /// Whether the program may have begun it.
    pub(super) begun: bool,
    pub(super) percent: u8,
    pub(super) cut: Option<Cut>,
    /// Whether the program was told not to begin it.
    pub(super) taken_back: bool,
    bytes: usize,
}

/// The end of an attempt that was cut short.
pub(super) struct Cut {
    pub(super) reason: &'static str,
    /// Whether the program was asked to end it.
    pub(super) asked: bool,
    /// When the program is asked, or, after that, when it is ended.
    next: Instant,
}

/// What is due because of jobs that were cut short.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DueCuts {
    /// The program is asked to end these, for these reasons.
    pub(super) ask: Vec<(u64, &'static str)>,
    /// Whether it was asked before, and has not ended the attempt in time.
    pub(super) is_stuck: bool,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(capacity: ProgramCapacity<'a>) -> Self {
        Self {
            capacity,
            running: FxHashMap::default(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            cuts: 0,
            bell: Arc::default(),
            begun_at: Instant::now(),
        }
    }

    /// Returns what tells which jobs are cut short.
    pub(super) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Returns the program's number in its pool.
    pub(super) fn program(&self) -> u64 {
        self.capacity.program()
    }

    /// Returns true if the program has jobs that it has not begun.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Returns true if the program would begin one more job at once.
    pub(super) fn has_capacity(&self) -> bool {
        self.capacity.is_free()
    }

    /// Returns until when the program may get one more job ahead, if it may.
    pub(super) fn ahead_until(&self) -> Option<Instant> {
        let is_free = self.capacity.is_free_ahead() && self.ahead_bytes < MOST_AHEAD_BYTES;
        let until = is_free.then(|| self.begun_at + QUICK)?;
        (Instant::now() < until).then_some(until)
    }

    /// Returns how many jobs the program may get now.
    pub(super) fn places(&self, now: Instant) -> OpenPlaces {
        // Once it has begun more jobs, it may take others ahead.
        let is_quick = self.has_capacity() || now < self.begun_at + QUICK;
        let ahead_bytes = if is_quick { MOST_AHEAD_BYTES.saturating_sub(self.ahead_bytes) } else { 0 };
        OpenPlaces { begin: self.capacity.places(), ahead: self.capacity.places_ahead(), ahead_bytes }
    }

    /// Lets the pool know which of its places have become free since the last time.
    pub(super) fn tell(&mut self) {
        self.capacity.tell();
    }

    /// Takes no more jobs.
    pub(super) fn close(&mut self) {
        self.capacity.close();
    }

    /// Adds a job that the program begins at once.
    pub(super) fn begin(&mut self, reference: u64, request: Request, bytes: usize, now: Instant) {
        self.capacity.take();
        self.begun_at = now;
        self.insert(reference, request, (true, bytes));
    }

    /// Adds a job that the program begins after the others. Until then, the job's clock is paused.
    pub(super) fn queue(&mut self, reference: u64, request: Request, bytes: usize, now: Instant) {
        self.capacity.take_ahead();
        request.context.pause(now.into_std());
        self.ahead.push_back(reference);
        self.ahead_bytes += bytes;
        self.insert(reference, request, (false, bytes));
    }

    fn insert(&mut self, reference: u64, request: Request, (begun, bytes): (bool, usize)) {
        request.cut.listen(&self.bell, reference);
        let running = Running {
            request,
            sent: false,
            heard: false,
            begun,
            percent: 0,
            cut: None,
            taken_back: false,
            bytes,
        };
        self.running.insert(reference, running);
    }

    /// Returns a job that the program has.
    pub(super) fn get(&mut self, reference: u64) -> Option<&mut Running> {
        self.running.get_mut(&reference)
    }

    /// Takes out a job that the program has ended. The program begins the next one now, which has `patience` to end if it was cut
    /// short meanwhile.
    pub(super) fn end(&mut self, reference: u64, (now, patience): (Instant, Duration)) -> Option<Running> {
        let running = self.remove(reference, now)?;
        if running.begun {
            match self.next_ahead() {
                Some(next) => self.follow(next, (now, patience)),
                None => self.capacity.end(),
            }
        }
        Some(running)
    }

    /// Notes that the program begins no more jobs: those that it has ahead wait for its end.
    pub(super) fn begin_no_more(&mut self) {
        self.ahead.clear();
    }

    /// Takes out a job that the program will not begin.
    pub(super) fn withdraw(&mut self, reference: u64) -> Option<Request> {
        let running = self.remove(reference, Instant::now())?;
        if running.begun {
            self.capacity.end();
        }
        self.tell();
        Some(running.request)
    }

    fn remove(&mut self, reference: u64, now: Instant) -> Option<Running> {
        let running = self.running.remove(&reference)?;
        self.cuts -= usize::from(running.cut.is_some());
        if !running.begun {
            self.ahead_bytes = self.ahead_bytes.saturating_sub(running.bytes);
            self.capacity.end_ahead();
            running.request.context.resume(now.into_std());
        }
        Some(running)
    }

    /// Takes the job out of the line that the program begins next.
    fn next_ahead(&mut self) -> Option<u64> {
        loop {
            let next = self.ahead.pop_front()?;
            if self.running.contains_key(&next) {
                return Some(next);
            }
        }
    }

    fn follow(&mut self, reference: u64, (now, patience): (Instant, Duration)) {
        self.begun_at = now;
        self.capacity.follow();
        let Some(running) = self.running.get_mut(&reference) else { return };
        self.ahead_bytes = self.ahead_bytes.saturating_sub(running.bytes);
        running.begun = true;
        running.request.context.resume(now.into_std());
        if let Some(cut) = running.cut.as_mut().filter(|cut| cut.asked) {
            cut.next = now + patience;
        }
    }

    /// Notes that an attempt is cut short. The program is asked to end it a moment later: if this process was frozen, its
    /// answer may be there already.
    pub(super) fn cut(&mut self, reference: u64) {
        let Some(running) = self.running.get_mut(&reference) else { return };
        if running.cut.is_none() {
            let reason = running.request.context.cut_reason();
            running.cut = Some(Cut { reason, asked: false, next: Instant::now() + CUT_DELAY });
            self.cuts += 1;
        }
    }

    /// Returns those of the jobs ahead that are unwanted here, each once: the program has to be told. It may have begun one of
    /// them meanwhile.
    pub(super) fn take_back(&mut self, is_unwanted: impl Fn(&Request) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        for reference in &self.ahead {
            let Some(running) = self.running.get_mut(reference) else { continue };
            if !running.taken_back && running.cut.is_none() && is_unwanted(&running.request) {
                running.taken_back = true;
                taken.push(*reference);
            }
        }
        taken
    }

    /// Cuts all attempts short.
    pub(super) fn cut_all(&mut self) {
        let left: Vec<u64> = self.running.keys().copied().collect();
        left.into_iter().for_each(|reference| self.cut(reference));
    }

    /// Returns when something has to happen because of jobs that were cut short.
    pub(super) fn due(&self) -> Option<Instant> {
        // Most of the time, there are none.
        let running = (self.cuts > 0).then_some(&self.running).into_iter().flat_map(FxHashMap::values);
        running.filter_map(Running::due).min()
    }

    /// Returns what is due, and expects the answers of those that are asked within `patience`.
    pub(super) fn due_cuts(&mut self, now: Instant, patience: Duration) -> DueCuts {
        let mut due = DueCuts::default();
        for (reference, running) in &mut self.running {
            if running.due().is_none_or(|at| at > now) {
                continue;
            }
            let Some(cut) = running.cut.as_mut() else { continue };
            if cut.asked {
                due.is_stuck = true;
            } else {
                (cut.asked, cut.next) = (true, now + patience);
                due.ask.push((*reference, cut.reason));
            }
        }
        due
    }

    /// Returns true if any of the jobs is one of these.
    pub(super) fn any(&self, is_wanted: impl Fn(&Running) -> bool) -> bool {
        self.running.values().any(is_wanted)
    }

    /// Returns the job that the program has begun, if it is one only.
    pub(super) fn only(&self) -> Option<&JobContext> {
        let mut begun = self.running.values().filter(|running| running.begun);
        begun.next().filter(|_| begun.next().is_none()).map(|running| &running.request.context)
    }

    /// Returns how many of the jobs are these.
    pub(super) fn count(&self, is_wanted: impl Fn(&Running) -> bool) -> usize {
        self.running.values().filter(|running| is_wanted(running)).count()
    }

    /// Takes out all jobs, in the order in which the program got them.
    pub(super) fn drain(&mut self) -> Vec<Running> {
        let mut all: Vec<u64> = self.running.keys().copied().collect();
        all.sort_unstable();
        let now = Instant::now();
        let take = |reference| {
            let running = self.remove(reference, now)?;
            if running.begun {
                self.capacity.end();
            }
            Some(running)
        };
        let drained = all.into_iter().filter_map(take).collect();
        self.tell();
        drained
    }
}

impl Drop for Jobs<'_> {
    /// Says of the jobs that are left whether the program has begun them, even if its session is dropped.
    fn drop(&mut self) {
        for running in self.drain().into_iter().filter(|running| running.sent && running.begun) {
            running.request.answer.send(Answer::Released).ok();
        }
    }
}

impl Running {
    /// Returns when something has to happen because it is cut short. Nothing can happen to a job that the program has been
    /// asked to end, but has not begun.
    fn due(&self) -> Option<Instant> {
        self.cut.as_ref().filter(|cut| self.begun || !cut.asked).map(|cut| cut.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::fixture::context_for;
    use crate::handlers::pool::program_capacity::Starting;
    use crate::handlers::pool::slots::Slots;
    use bytes::Bytes;
    use tokio::sync::oneshot::{self, Receiver};

    const PATIENCE: Duration = Duration::from_secs(5);

    /// Adds jobs to a pool, and to the program of this capacity.
    fn fill<'a>(slots: &'a Slots, most: usize, count: u64) -> (Jobs<'a>, Vec<Receiver<Answer>>) {
        let mut jobs = Jobs::new(Starting::new(slots, 1).ready(most, 10));
        let mut answers = Vec::new();
        for reference in 1..=count {
            let (answer, answered) = oneshot::channel();
            let (context, cut) = (context_for(Duration::from_secs(60)), Arc::default());
            let request = |number| Request {
                number,
                context,
                payload: Bytes::new(),
                max_attempts: 1,
                is_alone: false,
                patience: PATIENCE,
                until: Instant::now() + PATIENCE,
                answer,
                cut,
            };
            slots.push(request);
            answers.push(answered);
            if jobs.has_capacity() {
                jobs.begin(reference, slots.try_take(0).unwrap(), 10, Instant::now());
            } else {
                jobs.queue(reference, slots.try_take_ahead(0).unwrap(), 10, Instant::now());
            }
        }
        (jobs, answers)
    }

    fn end(jobs: &mut Jobs<'_>, reference: u64) -> Option<Running> {
        let ended = jobs.end(reference, (Instant::now(), PATIENCE));
        jobs.tell();
        ended
    }

    fn begun(jobs: &mut Jobs<'_>) -> Vec<u64> {
        (1..10).filter(|reference| jobs.get(*reference).is_some_and(|running| running.begun)).collect()
    }

    #[tokio::test]
    async fn the_next_job_begins_when_one_has_ended() {
        let slots = Slots::new(2);
        let (mut jobs, _answers) = fill(&slots, 2, 5);
        assert_eq!(begun(&mut jobs), [1, 2]);
        assert!(end(&mut jobs, 2).is_some());
        assert_eq!(begun(&mut jobs), [1, 3]);
        assert!(end(&mut jobs, 4).is_some(), "it was cancelled before it began");
        assert_eq!(begun(&mut jobs), [1, 3]);
        for (ended, want) in [(1, vec![3, 5]), (3, vec![5]), (5, vec![])] {
            assert!(end(&mut jobs, ended).is_some());
            assert_eq!(begun(&mut jobs), want);
        }
        assert!(jobs.is_empty() && jobs.has_capacity() && end(&mut jobs, 5).is_none());
        assert_eq!(jobs.ahead_bytes, 0);
    }

    #[tokio::test]
    async fn a_program_that_crashes_begins_no_more_jobs() {
        let slots = Slots::new(2);
        let (mut jobs, _answers) = fill(&slots, 2, 5);
        jobs.begin_no_more();
        for (ended, want) in [(2, vec![1]), (1, vec![])] {
            assert!(end(&mut jobs, ended).is_some());
            assert_eq!(begun(&mut jobs), want);
        }
        assert_eq!(jobs.drain().len(), 3);
        assert_eq!((jobs.ahead_bytes, jobs.has_capacity()), (0, true));
    }

    #[tokio::test]
    async fn the_clock_of_a_job_runs_once_it_begins() {
        let slots = Slots::new(1);
        let (mut jobs, _answers) = fill(&slots, 1, 2);
        let waiting = jobs.get(2).unwrap().request.context.clone();
        let before = waiting.deadline();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(waiting.deadline() >= before + Duration::from_millis(20), "it is paused");
        end(&mut jobs, 1);
        assert_eq!(waiting.deadline(), waiting.deadline(), "it runs");
    }

    #[tokio::test]
    async fn a_cut_job_that_has_not_begun_makes_no_program_stuck() {
        let slots = Slots::new(1);
        let (mut jobs, _answers) = fill(&slots, 1, 2);
        jobs.cut(2);
        let asked = jobs.due().unwrap();
        let want = DueCuts { ask: vec![(2, "shutdown")], is_stuck: false };
        assert_eq!(jobs.due_cuts(asked, PATIENCE), want);
        assert_eq!(jobs.due(), None, "the first job has all the time it wants");
        end(&mut jobs, 1);
        let stuck = jobs.due().expect("it has begun");
        assert!(stuck >= Instant::now() + PATIENCE / 2);
        assert_eq!(jobs.due_cuts(stuck, PATIENCE), DueCuts { ask: Vec::new(), is_stuck: true });
    }

    #[tokio::test]
    async fn the_cut_of_a_job_that_has_ended_changes_nothing() {
        let slots = Slots::new(1);
        let (mut jobs, _answers) = fill(&slots, 1, 1);
        let flag = Arc::clone(&end(&mut jobs, 1).unwrap().request.cut);
        flag.raise();
        jobs.bell().heard().await.into_iter().for_each(|reference| jobs.cut(reference));
        assert!(jobs.is_empty() && jobs.due().is_none());
    }

    #[tokio::test]
    async fn a_program_that_works_for_long_gets_nothing_ahead() {
        let slots = Slots::new(1);
        let (mut jobs, _answers) = fill(&slots, 1, 2);
        tokio::time::sleep(2 * QUICK).await;
        assert_eq!((jobs.ahead_until(), jobs.places(Instant::now()).ahead_bytes), (None, 0));
        end(&mut jobs, 1);
        assert!(jobs.running.len() == 1 && !jobs.has_capacity());
    }

    #[tokio::test]
    async fn jobs_come_back_in_the_order_in_which_they_were_taken() {
        let slots = Slots::new(1);
        let (mut jobs, _answers) = fill(&slots, 1, 9);
        jobs.cut_all();
        let numbers: Vec<u64> = jobs.drain().iter().map(|running| running.request.number).collect();
        assert_eq!(numbers, (0..9).collect::<Vec<u64>>());
        assert!(jobs.is_empty() && jobs.due().is_none() && jobs.has_capacity());
    }

    #[tokio::test]
    async fn a_session_that_is_dropped_says_which_jobs_had_begun() {
        let slots = Slots::new(1);
        let (mut jobs, mut answers) = fill(&slots, 1, 2);
        for reference in [1, 2] {
            jobs.get(reference).unwrap().sent = true;
        }
        drop(jobs);
        assert_eq!(answers[0].try_recv(), Ok(Answer::Released));
        assert!(answers[1].try_recv().is_err(), "it had not begun");
    }
}
