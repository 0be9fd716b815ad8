//! The life of a program that is ready: it gets jobs and answers them, until it or its pool has had enough. Whatever it
//! writes, or fails to read, its jobs end, and the worker goes on.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use rustc_hash::FxHashMap;
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::message::{self, Message, Verdict, excerpt};
use super::program::{Program, error_text, write_some};
use super::reports::LogBudget;
use super::slots::{Answer, Request, Room};
use super::{CUT_DELAY, PoolStart, Shared, board::Seat};
use crate::event::PoolEnding;

/// How often to look at the memory and the age of a program.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long its descendants may hold its output after a program has exited.
const LINGER: Duration = Duration::from_secs(1);

/// How long a program that has no jobs may take to end after SIGTERM.
const IDLE_GRACE: Duration = Duration::from_secs(1);

/// A program that is ready, and its jobs.
pub(super) struct Session<'a> {
    pool: &'a Shared,
    seat: &'a Seat,
    program: Program,
    room: Room<'a>,
    running: FxHashMap<u64, Running>,
    /// Each ends when its job is cut short or gone.
    cuts: FuturesUnordered<BoxFuture<'static, u64>>,
    /// The lines to write, the first one perhaps partly written.
    outgoing: VecDeque<Outgoing>,
    written: usize,
    /// How many jobs it got, which is also the name of the next one.
    taken: u64,
    answered: u64,
    /// The program ends at this time, if it has no job then.
    retires_at: Option<Instant>,
    idle_since: Instant,
    logs: LogBudget,
    /// Why it takes no more jobs.
    closing: Option<PoolEnding>,
    nonsense: Option<String>,
    stage: Stage,
    exited: bool,
    output_ended: bool,
    said_bye: bool,
}

/// A job that the program has.
struct Running {
    request: Request,
    /// Whether all of its line was written.
    sent: bool,
    /// Whether the program said anything about it.
    heard: bool,
    percent: u8,
    cut: Option<Cut>,
}

/// The end of an attempt that was cut short.
struct Cut {
    reason: &'static str,
    /// Whether the program was asked to end it.
    asked: bool,
    /// When the program is asked, or, after that, when it is ended.
    next: Instant,
}

struct Outgoing {
    /// The job that the line hands over.
    job: Option<u64>,
    bytes: Vec<u8>,
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

/// How a session ended.
pub(super) struct Ended {
    pub(super) ending: PoolEnding,
    /// What happened, for people.
    pub(super) why: String,
    /// How many jobs the program answered.
    pub(super) answered: u64,
}

impl<'a> Session<'a> {
    pub(super) fn new(pool: &'a Shared, seat: &'a Seat, program: Program, room: Room<'a>) -> Self {
        let now = Instant::now();
        // Programs that started together do not end together.
        let lifetime = pool.config.max_lifetime.map(|most| most.mul_f64(1.0 - rand::random::<f64>() / 10.0));
        Self {
            pool,
            seat,
            program,
            room,
            running: FxHashMap::default(),
            cuts: FuturesUnordered::new(),
            outgoing: VecDeque::new(),
            written: 0,
            taken: 0,
            answered: 0,
            retires_at: lifetime.map(|lifetime| now + lifetime),
            idle_since: now,
            logs: LogBudget::default(),
            closing: None,
            nonsense: None,
            stage: Stage::Open,
            exited: false,
            output_ended: false,
            said_bye: false,
        }
    }

    /// Gives jobs to the program until it ends. Once `stop` is cancelled, it gets no more.
    pub(super) async fn run(mut self, stop: &CancellationToken) -> Ended {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pool = self.pool;
        let mut stopping = pin!(stop.cancelled());
        // It lives until it has a job: the pool prefers the program that has waited for the shortest time.
        let mut taking: Option<BoxFuture<'_, Request>> = None;
        while !self.is_over() {
            if self.room.is_free() {
                taking.get_or_insert_with(|| Box::pin(pool.slots.take()));
            } else {
                // A wake-up that it may have had goes to another program.
                taking = None;
            }
            let due = self.due();
            let unwritten: &[u8] = self.outgoing.front().map_or(&[][..], |line| &line.bytes[self.written..]);
            tokio::select! {
                // What has a time comes first: a program that writes without end is always ready.
                biased;
                () = &mut stopping, if !matches!(self.closing, Some(PoolEnding::Stopped)) => self.stopped(),
                () = reached(due), if due.is_some() => self.on_time(Instant::now()),
                _ = looks.tick() => self.look(Instant::now()),
                line = self.program.lines.next(), if !self.output_ended => self.on_line(line),
                Some(reference) = self.cuts.next(), if !self.cuts.is_empty() => self.cut(reference),
                () = self.program.leader.exited(), if !self.exited => self.on_exit(),
                written = write_some(&mut self.program.stdin, unwritten) => self.on_written(written),
                request = taken(&mut taking) => {
                    taking = None;
                    self.begin(request);
                }
            }
        }
        drop(taking);
        self.end().await
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
        let cuts = self.running.values().filter_map(|running| Some(running.cut.as_ref()?.next));
        of_stage.into_iter().chain(cuts.filter(|_| can_end)).min()
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
        let patience = self.pool.patience();
        let mut is_stuck = false;
        for (reference, running) in &mut self.running {
            let Some(cut) = running.cut.as_mut().filter(|cut| cut.next <= now) else { continue };
            if cut.asked {
                is_stuck = true;
                continue;
            }
            (cut.asked, cut.next) = (true, now + patience);
            self.outgoing.push_back(Outgoing { job: None, bytes: message::cancel(*reference, cut.reason) });
        }
        if is_stuck {
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
        self.room.close();
        self.end_if_idle();
    }

    fn end_if_idle(&mut self) {
        if self.closing.is_some() && self.running.is_empty() && self.stage == Stage::Open {
            self.program.stdin = None;
            self.outgoing.clear();
            self.written = 0;
            self.stage = Stage::Closed(Instant::now() + self.pool.config.grace);
        }
    }

    /// Ends what is left of the jobs. When a worker stops, its attempts have ended before.
    fn stopped(&mut self) {
        self.closing = Some(PoolEnding::Stopped);
        let left: Vec<u64> = self.running.keys().copied().collect();
        left.into_iter().for_each(|reference| self.cut(reference));
        self.close(PoolEnding::Stopped);
    }

    fn look(&mut self, now: Instant) {
        let config = &self.pool.config;
        let (max_memory, idle_at) = (config.max_memory, self.idle_since + config.idle);
        let is_idle = config.start == PoolStart::Demand && self.running.is_empty() && idle_at <= now;
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
    fn begin(&mut self, request: Request) {
        self.room.take();
        self.taken += 1;
        let reference = self.taken;
        let bytes = message::job(&request.context, &request.payload, reference, request.max_attempts);
        self.outgoing.push_back(Outgoing { job: Some(reference), bytes });
        let gone = request.gone.clone();
        self.cuts.push(Box::pin(async move {
            gone.cancelled().await;
            reference
        }));
        let running = Running { request, sent: false, heard: false, percent: 0, cut: None };
        self.running.insert(reference, running);
        self.seat.set_busy(true);
        if self.pool.config.max_jobs.is_some_and(|most| self.taken >= most) {
            self.close(PoolEnding::MaxJobs);
        }
    }

    fn on_written(&mut self, written: std::io::Result<usize>) {
        let Ok(length) = written else { return self.on_broken_pipe() };
        self.written += length;
        let is_whole = self.outgoing.front().is_some_and(|line| line.bytes.len() <= self.written);
        if is_whole && let Some(line) = self.outgoing.pop_front() {
            self.written = 0;
            if let Some(running) = line.job.and_then(|job| self.running.get_mut(&job)) {
                running.sent = true;
            }
        }
    }

    /// The program reads no more. What it has not read completely, another one may do.
    fn on_broken_pipe(&mut self) {
        self.program.stdin = None;
        self.written = 0;
        for line in std::mem::take(&mut self.outgoing) {
            if let Some(running) = line.job.and_then(|job| self.running.remove(&job)) {
                self.room.give_back();
                self.pool.slots.put_back(running.request);
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

    fn on_line(&mut self, line: Result<Option<Bytes>, String>) {
        match line {
            Ok(Some(line)) => {
                // What a program prints because of a signal is not the fault of its jobs.
                let is_signalled = matches!(self.stage, Stage::Terminated(_) | Stage::Killed);
                if let Err(why) = self.on_message(&line)
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
        self.room.close();
        self.nonsense = Some(why);
        self.output_ended = true;
        if !self.exited {
            self.program.leader.signal(Signal::KILL);
            self.stage = Stage::Killed;
        }
    }

    fn on_message(&mut self, line: &[u8]) -> Result<(), String> {
        let message = message::parse(line)?;
        self.said_bye = message == Message::Bye;
        match message {
            Message::Ready(_) => return Err(format!("a second greeting: {}", excerpt(line))),
            Message::Bye => self.expect_exit(),
            Message::Progress { reference, percent, note } => {
                if let Some(running) = reference.and_then(|job| self.running.get_mut(&job)) {
                    running.heard = true;
                    running.percent = percent.unwrap_or(running.percent);
                    running.request.context.progress(running.percent, &note);
                }
            }
            Message::Log { reference, level, text } => {
                let running = reference.and_then(|job| self.running.get_mut(&job));
                let context = running.map(|running| {
                    running.heard = true;
                    &running.request.context
                });
                self.logs.log(&self.pool.name, context, level, &text);
            }
            Message::Result { reference, verdict } => self.on_result(reference, verdict, line)?,
        }
        Ok(())
    }

    fn on_result(&mut self, reference: Option<u64>, verdict: Verdict, line: &[u8]) -> Result<(), String> {
        let running = reference.and_then(|reference| self.running.remove(&reference));
        let Some(Running { request, cut, .. }) = running else {
            return Err(format!("a result for a job that the program does not have: {}", excerpt(line)));
        };
        let by_itself = cut.is_none_or(|cut| !cut.asked);
        if self.running.is_empty() {
            // When its attempt has ended, the last one would wake this task in vain.
            self.cuts.clear();
        }
        // Nobody may wait for it any more.
        request.answer.send(Answer::Said { verdict, by_itself }).ok();
        self.room.give_back();
        self.answered += 1;
        if self.answered == 1 {
            self.pool.restarts().succeeded();
        }
        if self.running.is_empty() {
            self.idle_since = Instant::now();
            self.seat.set_busy(false);
        }
        if let Some(most) = self.pool.config.max_memory
            && self.program.memory().is_some_and(|memory| memory > most)
        {
            self.close(PoolEnding::MaxMemory);
        }
        self.end_if_idle();
        Ok(())
    }

    /// Notes that an attempt is cut short. The program is asked to end it a moment later: if this process was frozen, its
    /// answer may be there already.
    fn cut(&mut self, reference: u64) {
        let Some(running) = self.running.get_mut(&reference) else { return };
        if running.cut.is_none() {
            let reason = running.request.context.cut_reason();
            running.cut = Some(Cut { reason, asked: false, next: Instant::now() + CUT_DELAY });
        }
    }

    /// Reaps the program, and ends the jobs that it has not answered.
    async fn end(mut self) -> Ended {
        let (status, words) = self.program.end().await;
        let status = status.as_ref().ok();
        let shown = status.map_or_else(|| "lost".to_owned(), ToString::to_string);
        // After `bye`, the program has not begun the jobs of which it said nothing.
        let said_bye = self.said_bye && status.is_some_and(ExitStatus::success);
        let is_begun = |running: &Running| running.sent && (running.heard || !said_bye);
        let ending = ending(self.closing, status, self.running.values().any(is_begun));
        for (_, running) in self.running.drain() {
            self.room.give_back();
            let is_begun = is_begun(&running);
            let Running { request, cut, .. } = running;
            let asked = cut.as_ref().filter(|cut| cut.asked || ending == PoolEnding::Cut);
            let by_itself = asked.is_none();
            let how = match (&self.nonsense, asked) {
                (_, None) if !is_begun => {
                    self.pool.slots.put_back(request);
                    continue;
                }
                (Some(why), _) => format!("the program was ended because it wrote nonsense ({why})"),
                (None, Some(cut)) => format!("stopped because of {} ({shown})", cut.reason),
                (None, None) if matches!(ending, PoolEnding::Cut | PoolEnding::Stopped) => {
                    request.answer.send(Answer::Released).ok();
                    continue;
                }
                (None, None) => format!("the program ended without an answer ({shown})"),
            };
            let error = error_text(&how, &words);
            request.answer.send(Answer::Ended { error, by_itself }).ok();
        }
        self.seat.set_memory(0);
        let why = self.nonsense.as_deref().map(|why| format!("nonsense: {why}")).unwrap_or(shown);
        Ended { ending, why: error_text(&why, &words), answered: self.answered }
    }
}

/// Waits until an instant, forever if there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// Waits for a job, forever if none is wanted.
async fn taken(taking: &mut Option<BoxFuture<'_, Request>>) -> Request {
    match taking {
        Some(taking) => taking.await,
        None => pending().await,
    }
}

/// Returns how a program ended, given why it took no more jobs, and whether it owes an answer.
fn ending(closing: Option<PoolEnding>, status: Option<&ExitStatus>, owes: bool) -> PoolEnding {
    let crashed = owes || !status.is_some_and(ExitStatus::success);
    match closing {
        None | Some(PoolEnding::Exited) if crashed => PoolEnding::Crashed,
        None => PoolEnding::Exited,
        Some(why) => why,
    }
}
