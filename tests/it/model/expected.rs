//! The model: what a job's state must be after each operation, in as few lines as possible. It knows nothing of Redis.

use std::collections::BTreeMap;

use streamfleet::job::State;

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
}

impl Model {
    /// Does what the fleet must do.
    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Submit(Wish { later, calls_back }) => {
                let state = if later { State::Scheduled } else { State::Running };
                let job = Expected { state, attempt: 0, lost: 0, calls_back, called: vec![], gone: false };
                self.jobs.insert(self.jobs.len(), job);
            }
            Op::Resend(_) => {}
            Op::Finish(job, end) => self.job(job).finish(end),
            Op::MakeDue(job) => self.job(job).state = State::Running,
            Op::Cancel(job) => {
                let job = self.job(job);
                if !job.state.is_final() {
                    job.state = State::Cancelled;
                }
            }
            Op::Replay(job) => {
                let job = self.job(job);
                (job.state, job.attempt, job.lost) = (State::Running, 0, 0);
            }
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

    /// How many callbacks were submitted in all.
    pub(super) fn callbacks(&self) -> usize {
        self.jobs.values().map(|job| job.called.len()).sum()
    }

    fn job(&mut self, nth: usize) -> &mut Expected {
        self.jobs.get_mut(&nth).expect("operations name known jobs")
    }
}

impl Expected {
    fn finish(&mut self, end: End) {
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
        if self.lost >= MAX_LOSSES { self.end(State::Dead) } else { self.state = State::Retrying }
    }

    fn end(&mut self, state: State) {
        self.state = state;
        if self.calls_back && !self.called.contains(&state) {
            self.called.push(state);
        }
    }
}
