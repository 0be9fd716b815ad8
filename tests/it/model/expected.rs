//! The model: what a job's state must be after each operation, in as few lines as possible. It knows nothing of Redis.

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

/// What job is submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// Due only in an hour.
    pub(super) later: bool,
    /// With a callback for each way to end.
    pub(super) calls_back: bool,
    /// Made of steps, of which one must not run twice.
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

/// What can be done. Jobs are numbered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// Submit a job.
    Submit(Wish),
    /// Submit a job of an id that is known.
    Resend(usize),
    /// End the attempt that runs.
    Finish(usize, End),
    /// Make what is delayed due.
    MakeDue(usize),
    /// Cancel.
    Cancel(usize),
    /// Replay what is dead.
    Replay(usize),
    /// Delete what is dead.
    Drop(usize),
    /// Decide about the step of a dead job.
    Decide(usize, Verdict),
    /// Let a recurring job have missed one tick.
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
    /// Where it is made of steps.
    pub(super) once: Option<Once>,
    /// How often its step was begun.
    pub(super) begun: usize,
    /// How it ended before, each way once.
    pub(super) called: Vec<State>,
    /// Whether its record was deleted.
    pub(super) gone: bool,
}

/// The limits of the fleet that is modelled.
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

    /// The jobs in one of these states.
    pub(super) fn those(&self, states: &[State]) -> Vec<usize> {
        let here = self.jobs.iter().filter(|(_, job)| !job.gone && states.contains(&job.state));
        here.map(|(nth, _)| *nth).collect()
    }

    /// The dead jobs about whose step nobody has decided.
    pub(super) fn undecided(&self) -> Vec<usize> {
        let open = |job: &Expected| matches!(job.once, Some(Once::Failed | Once::Unknown));
        self.those(&[State::Dead]).into_iter().filter(|nth| open(&self.jobs[nth])).collect()
    }

    /// How many callbacks were submitted in all.
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

    /// An attempt begins; where there is nothing that it may run, it ends at once.
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

    /// What the step's end means for its job, which has no limit of its own.
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
