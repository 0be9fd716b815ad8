//! The model: a job's expected state after each operation, in as few lines as possible. It knows nothing about Redis.

use std::collections::BTreeMap;

use streamfleet::job::{State, Verdict};

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Failure,
    Fatal,
    Snooze,
}

/// The kind of job to submit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Due in an hour.
    pub(super) later: bool,
    /// With a callback for each outcome.
    pub(super) calls_back: bool,
    /// Made of steps, one of which must not run twice.
    pub(super) has_steps: bool,
}

/// The step that must not run twice; the others succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    Pending,
    Started,
    Done,
    Failed,
    Unknown,
    GivenUp,
}

/// An operation. Jobs are numbered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// Submit a job.
    Submit(Wish),
    /// Submit a job with a known id.
    Resend(usize),
    /// End the running attempt.
    Finish(usize, End),
    /// Make a delayed job due.
    MakeDue(usize),
    /// Cancel a job.
    Cancel(usize),
    /// Replay a dead job.
    Replay(usize),
    /// Delete a dead job.
    Drop(usize),
    /// Decide on the step of a dead job.
    Decide(usize, Verdict),
    /// Create a recurring job that has missed one tick.
    Tick,
    /// Kill the worker and start another.
    Kill,
}

/// One job of the model.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) state: State,
    pub(super) attempt: u32,
    pub(super) lost: u32,
    pub(super) calls_back: bool,
    /// The state of its step, if it is made of steps.
    pub(super) once: Option<Once>,
    /// How often its step has started.
    pub(super) begun: usize,
    /// The outcomes that it has had, each listed once.
    pub(super) called: Vec<State>,
    /// True if its record was deleted.
    pub(super) gone: bool,
}

/// The limits of the modelled fleet.
pub(super) const MAX_ATTEMPTS: u32 = 3;
pub(super) const MAX_LOSSES: u32 = 2;

/// All jobs.
#[derive(Default)]
pub(super) struct Model {
    pub(super) jobs: BTreeMap<usize, Expected>,
    pub(super) ticks: usize,
}

impl Model {
    /// Does what the fleet must do.
    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Submit(wish) => {
                self.jobs.insert(self.jobs.len(), Expected::of(wish));
            }
            Op::Resend(_) => {}
            Op::Finish(job, end) => self.job(job).finish(end),
            Op::MakeDue(job) => self.job(job).start(),
            Op::Cancel(job) => {
                let job = self.job(job);
                if !job.state.is_final() {
                    job.state = State::Cancelled;
                }
            }
            Op::Replay(job) => {
                let job = self.job(job);
                (job.attempt, job.lost) = (0, 0);
                job.start();
            }
            Op::Decide(job, verdict) => self.job(job).decide(verdict),
            Op::Tick => self.ticks += 1,
            Op::Drop(job) => self.job(job).gone = true,
            Op::Kill => {
                for job in self.jobs.values_mut().filter(|job| job.state == State::Running) {
                    job.lose();
                }
            }
        }
    }

    /// Returns the jobs in one of these states.
    pub(super) fn those(&self, states: &[State]) -> Vec<usize> {
        let here = self.jobs.iter().filter(|(_, job)| !job.gone && states.contains(&job.state));
        here.map(|(nth, _)| *nth).collect()
    }

    /// Returns the dead jobs whose step still needs a decision.
    pub(super) fn undecided(&self) -> Vec<usize> {
        let open = |job: &Expected| matches!(job.once, Some(Once::Failed | Once::Unknown));
        self.those(&[State::Dead]).into_iter().filter(|nth| open(&self.jobs[nth])).collect()
    }

    /// Returns how many callbacks were submitted in total.
    pub(super) fn callbacks(&self) -> usize {
        self.jobs.values().map(|job| job.called.len()).sum()
    }

    fn job(&mut self, nth: usize) -> &mut Expected {
        self.jobs.get_mut(&nth).expect("operations name known jobs")
    }
}

impl Expected {
    fn of(Wish { later, calls_back, has_steps }: Wish) -> Self {
        let once = has_steps.then_some(Once::Pending);
        let state = State::Scheduled;
        let mut job =
            Self { state, attempt: 0, lost: 0, calls_back, once, begun: 0, called: vec![], gone: false };
        if !later {
            job.start();
        }
        job
    }

    /// Starts an attempt. If there is nothing that it may run, it ends at once.
    fn start(&mut self) {
        match &mut self.once {
            Some(once @ Once::Pending) => (*once, self.begun) = (Once::Started, self.begun + 1),
            Some(_) => return self.end(State::Dead),
            None => {}
        }
        self.state = State::Running;
    }

    fn decide(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Done => {
                self.once = Some(Once::Done);
                self.end(State::Done);
            }
            Verdict::Run => {
                (self.once, self.attempt, self.lost) = (Some(Once::Pending), 0, 0);
                self.start();
            }
            Verdict::GiveUp => self.once = Some(Once::GivenUp),
        }
    }

    /// Applies the end of the step to its job, which has no limit of its own.
    fn finish_step(&mut self, end: End) {
        let (once, state) = match end {
            End::Success => (Once::Done, State::Done),
            End::Failure | End::Fatal => (Once::Failed, State::Dead),
            End::Snooze => (Once::Pending, State::Scheduled),
        };
        self.once = Some(once);
        if state == State::Scheduled { self.state = state } else { self.end(state) }
    }

    fn finish(&mut self, end: End) {
        if self.once.is_some() {
            return self.finish_step(end);
        }
        match end {
            End::Success => self.end(State::Done),
            End::Snooze => self.state = State::Scheduled,
            End::Fatal => self.end(State::Dead),
            End::Failure => {
                self.attempt += 1;
                if self.attempt >= MAX_ATTEMPTS {
                    self.end(State::Dead)
                } else {
                    self.state = State::Retrying
                }
            }
        }
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.once = self.once.map(|_| Once::Unknown);
        if self.lost >= MAX_LOSSES { self.end(State::Dead) } else { self.state = State::Retrying }
    }

    fn end(&mut self, state: State) {
        self.state = state;
        if self.calls_back && !self.called.contains(&state) {
            self.called.push(state);
        }
    }
}
