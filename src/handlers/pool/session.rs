//! The life of a program that is ready: it gets jobs and answers them, until it or its pool has had enough. Whatever it
//! writes, or fails to read, its jobs end, and the worker goes on.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::ended::Ended;
use super::jobs::{Jobs, Running};
use super::message::{self, Message, Verdict, excerpt};
use super::outgoing::Outgoing;
use super::program::{Program, write_some};
use super::program_capacity::ProgramCapacity;
use super::reports::LogBudget;
use super::request::{Answer, DOUBT_EVERY, Request, Taken};
use super::taking::{Taking, Wish, taken};
use super::written;
use super::{PoolStart, Shared, board::Seat, reached};
use crate::event::PoolEnding;
use crate::job::jittered;

/// How often to look at the memory and the age of a program.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long its descendants may hold its output after a program has exited.
const LINGER: Duration = Duration::from_secs(1);

/// How long a program that has no jobs may take to end after SIGTERM.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// After a job, its memory is looked at if this much time has passed since the last look, which takes as long as a small job.
const MEMORY_EVERY: Duration = Duration::from_millis(20);

/// How many of the lines that have been read are handled before what has a time gets its turn.
const LINES_AT_ONCE: usize = 64;

/// Why a job that the program has ahead is cancelled on its pipe, although its attempt is not.
const TAKEN_BACK: &str = "withdrawn";

/// A program that is ready, and its jobs.
pub(super) struct Session<'a> {
    pub(super) pool: &'a Shared,
    pub(super) seat: Arc<Seat>,
    pub(super) program: Program,
    pub(super) jobs: Jobs<'a>,
    outgoing: Outgoing,
    /// How many jobs it got, which is also the name of the next one.
    taken: u64,
    pub(super) answered: u64,
    /// The program ends at this time, if it has no job then.
    retires_at: Option<Instant>,
    idle_since: Instant,
    weighed_at: Instant,
    logs: LogBudget,
    /// Why it takes no more jobs.
    pub(super) closing: Option<PoolEnding>,
    pub(super) nonsense: Option<String>,
    stage: Stage,
    exited: bool,
    output_ended: bool,
    pub(super) said_bye: bool,
    /// Whether the program said that it ends because of a job that it has answered.
    pub(super) is_blamed: bool,
}

/// How far the end of the program has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Open,
    /// Nothing more will be written. SIGTERM follows.
    Closed(Instant),
    /// SIGTERM was sent. SIGKILL follows.
    Terminated(Instant),
    Killed,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        pool: &'a Shared,
        seat: Arc<Seat>,
        program: Program,
        capacity: ProgramCapacity<'a>,
    ) -> Self {
        let now = Instant::now();
        // Programs that started together do not end together.
        let lifetime = pool.config.max_lifetime.map(|most| jittered(most, 0.9..1.0, rand::random()));
        Self {
            pool,
            seat,
            program,
            jobs: Jobs::new(capacity),
            outgoing: Outgoing::default(),
            taken: 0,
            answered: 0,
            retires_at: lifetime.map(|lifetime| now + lifetime),
            idle_since: now,
            weighed_at: now,
            logs: LogBudget::default(),
            closing: None,
            nonsense: None,
            stage: Stage::Open,
            exited: false,
            output_ended: false,
            said_bye: false,
            is_blamed: false,
        }
    }

    /// Gives jobs to the program until it ends. Once `stop` is cancelled, it gets no more. Once `leave` is, another program has
    /// taken its place.
    pub(super) async fn run(mut self, stop: &CancellationToken, leave: &CancellationToken) -> Ended {
        let mut looks = interval(LOOK_EVERY);
        let mut doubts = interval(DOUBT_EVERY);
        for clock in [&mut looks, &mut doubts] {
            clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let (bell, slots, program) = (self.jobs.bell(), &self.pool.slots, self.jobs.program());
        let (mut stopping, mut leaving) = (pin!(stop.cancelled()), pin!(leave.cancelled()));
        let mut has_left = false;
        // It lives until it has a job: the pool prefers the program that has waited for the shortest time.
        let mut taking: Option<Taking<'_>> = None;
        while !self.is_over() {
            self.jobs.tell();
            if self.program.lines.is_drained() {
                self.fill();
            }
            let wish = self.wish();
            if taking.as_ref().map(|taking| taking.is_ahead) != wish.map(|wish| wish != Wish::Begin) {
                // A wake-up that it may have had goes to another program.
                taking = wish.map(|wish| Taking::new(slots, program, wish));
            }
            let due = self.due();
            tokio::select! {
                // What has a time comes first: a program that writes without end is always ready.
                biased;
                () = &mut stopping, if !matches!(self.closing, Some(PoolEnding::Stopped)) => self.stopped(),
                () = &mut leaving, if !has_left => {
                    has_left = true;
                    self.leave();
                }
                () = reached(due), if due.is_some() => self.on_time(Instant::now()),
                _ = looks.tick() => self.look(Instant::now()),
                _ = doubts.tick(), if self.jobs.has_ahead() => {
                    let now = Instant::now();
                    self.take_back(|request| request.is_in_doubt_soon(now));
                }
                line = self.program.lines.next(), if !self.output_ended => self.on_lines(line),
                cut = bell.heard() => cut.into_iter().for_each(|reference| self.jobs.cut(reference)),
                () = self.program.leader.exited(), if !self.exited => self.on_exit(),
                written = write_some(&mut self.program.stdin, self.outgoing.bytes()) => self.on_written(written),
                (is_ahead, request) = taken(&mut taking) => {
                    taking = None;
                    let Some(request) = request else { continue };
                    self.give(request, is_ahead, Instant::now());
                    if self.wish().is_some() {
                        // More jobs may be about to arrive from handlers that can run now. All are written at once.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
        drop(taking);
        self.end().await
    }

    /// Returns what the program may get next.
    fn wish(&self) -> Option<Wish> {
        if self.jobs.has_capacity() { Some(Wish::Begin) } else { self.jobs.ahead_until().map(Wish::Ahead) }
    }

    /// Gives the program the jobs that wait, as many as it may have.
    fn fill(&mut self) {
        let now = Instant::now();
        let mut places = self.jobs.places(now);
        if let Some(most) = self.pool.config.max_jobs {
            places = places.at_most(usize::try_from(most.saturating_sub(self.taken)).unwrap_or(usize::MAX));
        }
        if places.is_empty() {
            return;
        }
        let Taken { begin, ahead } = self.pool.slots.try_take_all(self.jobs.program(), places);
        begin.into_iter().for_each(|request| self.give(request, false, now));
        ahead.into_iter().for_each(|request| self.give(request, true, now));
    }

    fn is_over(&self) -> bool {
        self.exited && self.output_ended
    }

    /// Returns when something has to happen next.
    fn due(&self) -> Option<Instant> {
        let of_stage = match self.stage {
            // After its exit, this is how long its output may take.
            Stage::Closed(at) | Stage::Terminated(at) => Some(at),
            Stage::Open | Stage::Killed => None,
        };
        let can_end = matches!(self.stage, Stage::Open | Stage::Closed(_)) && !self.exited;
        let of_jobs = if can_end { self.jobs.due() } else { None };
        of_stage.into_iter().chain(of_jobs).min()
    }

    fn on_time(&mut self, now: Instant) {
        if self.exited {
            self.output_ended = true;
            return;
        }
        match self.stage {
            Stage::Closed(at) if at <= now => return self.terminate(now, IDLE_GRACE),
            Stage::Terminated(at) if at <= now => {
                self.program.leader.signal(Signal::KILL);
                self.stage = Stage::Killed;
                return;
            }
            Stage::Terminated(_) | Stage::Killed => return,
            Stage::Open | Stage::Closed(_) => {}
        }
        let due = self.jobs.due_cuts(now, self.pool.patience());
        for (reference, reason) in due.ask {
            self.outgoing.push(None, |line| written::cancel(line, reference, reason));
        }
        if due.is_stuck {
            // Whatever else ends the program, its other jobs are not to blame.
            self.closing = Some(PoolEnding::Cut);
            self.close(PoolEnding::Cut);
            self.terminate(now, self.pool.config.grace);
        }
    }

    /// Asks the whole group to end, and kills it after `grace`.
    fn terminate(&mut self, now: Instant, grace: Duration) {
        self.program.leader.signal(Signal::TERM);
        self.stage = Stage::Terminated(now + grace);
    }

    /// Takes no more jobs, for this reason unless there is one already. Without jobs, the program ends.
    fn close(&mut self, why: PoolEnding) {
        self.closing.get_or_insert(why);
        self.seat.leave();
        self.jobs.close();
        self.end_if_idle();
    }

    fn end_if_idle(&mut self) {
        if self.closing.is_some() && self.jobs.is_empty() && self.stage == Stage::Open {
            self.program.stdin = None;
            self.outgoing.clear();
            self.stage = Stage::Closed(Instant::now() + self.pool.config.grace);
        }
    }

    /// Takes no more jobs, and takes back those that the program has not begun.
    fn leave(&mut self) {
        self.close(PoolEnding::Reload);
        self.take_back(|_| true);
    }

    /// Takes back those of the jobs ahead that should not begin here: the program puts them off when it reads so.
    fn take_back(&mut self, is_unwanted: impl Fn(&Request) -> bool) {
        if self.program.stdin.is_some() {
            for reference in self.jobs.take_back(is_unwanted) {
                self.outgoing.push(None, |line| written::cancel(line, reference, TAKEN_BACK));
            }
        }
    }

    /// Ends what is left of the jobs. When a worker stops, its attempts have ended before.
    fn stopped(&mut self) {
        self.closing = Some(PoolEnding::Stopped);
        self.jobs.cut_all();
        self.close(PoolEnding::Stopped);
    }

    fn look(&mut self, now: Instant) {
        let config = &self.pool.config;
        let (max_memory, idle_at) = (config.max_memory, self.idle_since + config.idle);
        let is_idle = config.start == PoolStart::Demand && self.jobs.is_empty() && idle_at <= now;
        let memory = if self.exited { 0 } else { self.program.memory().unwrap_or_default() };
        self.seat.set_memory(memory);
        if max_memory.is_some_and(|most| memory > most) {
            self.close(PoolEnding::MaxMemory);
        } else if self.retires_at.is_some_and(|at| at <= now) {
            self.close(PoolEnding::MaxLifetime);
        } else if is_idle {
            self.close(PoolEnding::Idle);
        }
    }

    /// Hands a job to the program.
    fn give(&mut self, request: Request, is_ahead: bool, now: Instant) {
        self.taken += 1;
        let reference = self.taken;
        let Request { context, payload, max_attempts, .. } = &request;
        let numbers = (reference, *max_attempts);
        let write = |line: &mut Vec<u8>| written::job(line, (context, payload), numbers, now.into_std());
        let bytes = self.outgoing.push(Some(reference), write);
        if self.jobs.is_empty() {
            self.program.words.forget_job();
        }
        if is_ahead {
            self.jobs.queue(reference, request, bytes, now);
        } else {
            self.jobs.begin(reference, request, bytes, now);
            self.program.words.set_job(|| self.jobs.only());
        }
        self.seat.set_busy(true);
        if self.pool.config.max_jobs.is_some_and(|most| self.taken >= most) {
            self.close(PoolEnding::MaxJobs);
        }
    }

    fn on_written(&mut self, written: std::io::Result<usize>) {
        let Ok(length) = written else { return self.on_broken_pipe() };
        for reference in self.outgoing.advance(length) {
            if let Some(running) = self.jobs.get(reference) {
                running.sent = true;
            }
        }
    }

    /// The program reads no more. What it has not read completely, another one may do.
    fn on_broken_pipe(&mut self) {
        self.program.stdin = None;
        let unread = self.outgoing.clear();
        // The first one comes first again.
        for reference in unread.into_iter().rev() {
            if let Some(request) = self.jobs.withdraw(reference) {
                self.pool.slots.put_back(request);
            }
        }
        // It may still answer what it has.
        self.close(PoolEnding::Exited);
    }

    fn on_exit(&mut self) {
        self.exited = true;
        self.close(PoolEnding::Exited);
        self.stage = Stage::Closed(Instant::now() + LINGER);
    }

    /// Handles a line, and those that were read with it. The next jobs begin now.
    fn on_lines(&mut self, first: Result<Option<Bytes>, String>) {
        let now = Instant::now();
        self.on_line(first, now);
        for _ in 1..LINES_AT_ONCE {
            if self.output_ended {
                return;
            }
            let Some(line) = self.program.lines.next_read() else { return };
            self.on_line(line.map(Some), now);
        }
    }

    fn on_line(&mut self, line: Result<Option<Bytes>, String>, now: Instant) {
        match line {
            Ok(Some(line)) => {
                // What a program prints because of a signal is not the fault of its jobs.
                let is_signalled = matches!(self.stage, Stage::Terminated(_) | Stage::Killed);
                if let Err(why) = self.on_message(&line, now)
                    && !is_signalled
                {
                    self.on_nonsense(why);
                }
            }
            Ok(None) => {
                self.output_ended = true;
                self.expect_exit();
            }
            // Its last line may be cut off because it was killed.
            Err(_) if self.exited || self.is_being_ended() => self.output_ended = true,
            Err(why) => self.on_nonsense(why),
        }
    }

    /// Notes that the program is about to exit, and gives it the grace period for that.
    fn expect_exit(&mut self) {
        self.close(PoolEnding::Exited);
        if !self.exited && self.stage == Stage::Open {
            self.program.stdin = None;
            self.stage = Stage::Closed(Instant::now() + self.pool.config.grace);
        }
    }

    fn is_being_ended(&self) -> bool {
        matches!(self.stage, Stage::Terminated(_) | Stage::Killed) || self.program.leader.has_exited()
    }

    /// Ends a program that does not follow the protocol. Nothing that it writes after that counts.
    fn on_nonsense(&mut self, why: String) {
        self.closing = Some(PoolEnding::Nonsense);
        self.seat.leave();
        self.jobs.close();
        self.nonsense = Some(why);
        self.output_ended = true;
        if !self.exited {
            self.program.leader.signal(Signal::KILL);
            self.stage = Stage::Killed;
        }
    }

    fn on_message(&mut self, line: &[u8], now: Instant) -> Result<(), String> {
        let message = message::parse(line)?;
        self.said_bye = message == Message::Bye { crash: false };
        match message {
            Message::Ready(_) => return Err(format!("a second greeting: {}", excerpt(line))),
            Message::Bye { crash } => {
                if crash {
                    self.jobs.begin_no_more();
                    self.is_blamed = true;
                }
                self.expect_exit();
            }
            Message::Progress { reference, percent, note } => {
                if let Some(running) = reference.and_then(|job| self.jobs.get(job)) {
                    running.heard = true;
                    running.percent = percent.unwrap_or(running.percent);
                    running.request.context.progress(running.percent, &note);
                }
            }
            Message::Log { reference, level, text } => {
                let running = reference.and_then(|job| self.jobs.get(job));
                let context = running.map(|running| {
                    running.heard = true;
                    &running.request.context
                });
                self.logs.log(&self.pool.name, context, level, &text);
            }
            Message::Result { reference, verdict, crash, begun } => {
                if crash {
                    self.jobs.begin_no_more();
                }
                let running =
                    reference.and_then(|reference| self.jobs.end(reference, (now, self.pool.patience())));
                let missing =
                    || format!("a result for a job that the program does not have: {}", excerpt(line));
                self.on_result(running.ok_or_else(missing)?, (verdict, begun), now);
                if crash {
                    self.is_blamed = true;
                    self.expect_exit();
                }
            }
        }
        Ok(())
    }

    fn on_result(&mut self, running: Running, (verdict, begun): (Verdict, bool), now: Instant) {
        self.program.words.forget_job();
        self.program.words.set_job(|| self.jobs.only());
        let Running { request, cut, taken_back, .. } = running;
        let was_asked = cut.is_some_and(|cut| cut.asked);
        // What an attempt answers counts, although the job was taken back. What has not begun is no attempt, for whatever reason it was cut short.
        if (taken_back || was_asked) && !begun && matches!(verdict, Verdict::Snooze { .. }) {
            self.pool.slots.put_back(request);
        } else {
            let by_itself = !was_asked;
            // Nobody may wait for it any more.
            request.answer.send(Answer::Said { verdict, by_itself }).ok();
        }
        self.answered += 1;
        // What a program that was replaced answers says nothing about those that start now.
        if self.answered == 1 && !matches!(self.closing, Some(PoolEnding::Reload)) {
            self.pool.restarts().succeeded();
        }
        if self.jobs.is_empty() {
            self.idle_since = now;
            self.seat.set_busy(false);
        }
        self.weigh();
        self.end_if_idle();
    }

    /// Ends the program soon if it has too much memory.
    fn weigh(&mut self) {
        let Some(most) = self.pool.config.max_memory else { return };
        if self.weighed_at.elapsed() < MEMORY_EVERY {
            return;
        }
        self.weighed_at = Instant::now();
        if self.program.memory().is_some_and(|memory| memory > most) {
            self.close(PoolEnding::MaxMemory);
        }
    }
}
