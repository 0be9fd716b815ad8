//! Where a plan stands by its ledger: which step runs next, and where the job goes if none does. Steps that are ready run
//! one after another in plan order.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Plan, PlannedStep};
use crate::job::{DeadReason, Ledger, StepKind, StepName, StepState, Timestamp, Verdict};

/// How long a job waits before it looks again whether another job of its id still runs a step.
const BESIDE_ANOTHER: Duration = Duration::from_secs(1);

/// What comes next in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The step at this index is ready.
    Run(usize),
    /// Nothing is ready. The next step is due after this delay.
    Wait(Duration),
    /// All steps are done, and so is the job.
    Done,
    /// No step can run until a person intervenes, for this reason.
    Stuck(DeadReason),
}

/// What a decision about a step means for its dead job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDecision {
    /// All steps are done, so the job is too.
    Done,
    /// A step can run: the job is replayed.
    Replay,
    /// No step can run: the job stays in the dead stream.
    Stay,
}

/// Where a step stands in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In the state that the ledger has.
    As(StepState),
    /// It has not run and never will, because a step before it was given up.
    Skipped,
}

impl Plan {
    /// Returns what comes next at `now`, in an attempt of this `generation` that has already tried the steps at `tried`.
    /// No step runs twice in one attempt.
    pub fn next(&self, ledger: &Ledger, generation: &str, now: Timestamp, tried: &BTreeSet<usize>) -> Next {
        let mut wait: Option<Duration> = None;
        for (at, step) in self.steps.iter().enumerate() {
            if !self.is_open(ledger, generation, at) || !self.is_ready(ledger, at) {
                continue;
            }
            let record = ledger.get(&step.name);
            let due = record.and_then(|record| record.due);
            let mut left = due.map_or(Duration::ZERO, |due| due.since(now));
            if left.is_zero() && !tried.contains(&at) {
                return Next::Run(at);
            }
            if record
                .is_some_and(|record| record.state == StepState::Started && record.generation != generation)
            {
                left = left.max(BESIDE_ANOTHER);
            }
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        match wait {
            Some(wait) => Next::Wait(wait),
            None if self.is_done(ledger) => Next::Done,
            None => Next::Stuck(self.reason(ledger)),
        }
    }

    /// Returns what the ledger means for a dead job, which begins a new generation if it is replayed.
    pub fn after_decision(&self, ledger: &Ledger) -> AfterDecision {
        let runs = |at: usize| match (ledger.state(&self.steps[at].name), self.steps[at].kind) {
            (StepState::Pending | StepState::Exhausted, _) | (StepState::Started, StepKind::Auto) => {
                self.is_ready(ledger, at)
            }
            // A run would only discover that its state is unknown.
            (StepState::Started, StepKind::Once) => false,
            (StepState::Done | StepState::Failed | StepState::Unknown | StepState::GivenUp, _) => false,
        };
        match () {
            () if self.is_done(ledger) => AfterDecision::Done,
            () if (0..self.steps.len()).any(runs) => AfterDecision::Replay,
            () => AfterDecision::Stay,
        }
    }

    /// Returns true if a person has declared a step done without a result, and no step after it runs or is done: then a person may
    /// still say what its result is.
    #[doc(hidden)]
    pub fn may_amend(&self, ledger: &Ledger, name: &StepName) -> bool {
        let declared = ledger.get(name).is_some_and(|record| {
            let decision = record.decision.as_ref();
            let is_told = decision.is_some_and(|told| told.verdict == Verdict::Done);
            record.state == StepState::Done && is_told && record.result.is_none()
        });
        let begun = [StepState::Started, StepState::Done];
        let mut later = self.steps.iter().filter(|step| step.after.contains(name));
        declared && later.all(|step| !begun.contains(&ledger.state(&step.name)))
    }

    /// Returns where a step stands.
    pub fn standing(&self, ledger: &Ledger, name: &StepName) -> Standing {
        let state = ledger.state(name);
        let place = self.steps.iter().position(|step| step.name == *name);
        let skipped = state == StepState::Pending && place.is_some_and(|at| self.is_skipped(ledger, at));
        if skipped { Standing::Skipped } else { Standing::As(state) }
    }

    /// Returns true if every step is done.
    pub fn is_done(&self, ledger: &Ledger) -> bool {
        self.steps.iter().all(|step| ledger.state(&step.name) == StepState::Done)
    }

    /// Returns the first step in one of these states, for the text of a dead letter: it keeps the job from ending.
    pub fn first(&self, ledger: &Ledger, states: &[StepState]) -> Option<&PlannedStep> {
        self.steps.iter().find(|step| states.contains(&ledger.state(&step.name)))
    }

    /// Returns true if a step may still run without a person. That includes a `once` step that somebody else started:
    /// trying to begin it shows that its state is unknown.
    fn is_open(&self, ledger: &Ledger, generation: &str, at: usize) -> bool {
        let step = &self.steps[at];
        let Some(record) = ledger.get(&step.name) else { return true };
        match record.state {
            StepState::Pending | StepState::Started => true,
            StepState::Exhausted => step.kind == StepKind::Auto && !ledger.counts_in(record, generation),
            StepState::Done | StepState::Failed | StepState::Unknown | StepState::GivenUp => false,
        }
    }

    /// Returns true if every step that comes before this one is done.
    fn is_ready(&self, ledger: &Ledger, at: usize) -> bool {
        self.before[at].iter().all(|before| ledger.state(&self.steps[*before].name) == StepState::Done)
    }

    fn is_skipped(&self, ledger: &Ledger, at: usize) -> bool {
        self.before[at].iter().any(|before| {
            ledger.state(&self.steps[*before].name) == StepState::GivenUp || self.is_skipped(ledger, *before)
        })
    }

    /// Returns why a job is dead of which no step can run.
    pub fn reason(&self, ledger: &Ledger) -> DeadReason {
        let undecided = [StepState::Failed, StepState::Unknown, StepState::Started];
        match () {
            () if self.first(ledger, &undecided).is_some() => DeadReason::NeedsDecision,
            () if self.first(ledger, &[StepState::Exhausted]).is_some() => DeadReason::Exhausted,
            () => DeadReason::Fatal,
        }
    }
}
