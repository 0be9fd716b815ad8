//! The plan of a job's steps, and what follows from it and the ledger: which step runs next, and where the job goes when
//! none does. Steps are independent unless one says `after`; those that are ready run one after another in plan order.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{DeadReason, InvalidName, Ledger, StepKind, StepName, StepState, Timestamp};

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStep {
    /// Its name, unique in the plan.
    pub name: StepName,
    /// How often it may run.
    pub kind: StepKind,
    /// The steps that must be done before it starts.
    pub after: Vec<StepName>,
}

/// The steps of a type of jobs: at least one, each name once, and none that waits for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<PlannedStep>,
    /// For each step, the places of those it comes after.
    before: Vec<Vec<usize>>,
}

/// Why steps are no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is none.
    #[error("a job of steps needs at least one step")]
    Empty,
    /// There are too many.
    #[error("{0} steps, but at most {max} are allowed", max = Plan::MAX_STEPS)]
    TooMany(usize),
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Two steps have one name.
    #[error("the step {0} is there twice")]
    Duplicate(StepName),
    /// A step comes after one that does not exist.
    #[error("the step {step} comes after {after}, which is no step of the job")]
    UnknownStep {
        /// The step.
        step: StepName,
        /// What it comes after.
        after: StepName,
    },
    /// Steps wait for each other.
    #[error("these steps wait for each other: {}", listed(.0))]
    Cycle(Vec<StepName>),
}

/// What comes next in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This step is ready.
    Run(usize),
    /// Nothing is ready; the next step is after this long.
    Wait(Duration),
    /// All steps are done, and so is the job.
    Done,
    /// Nothing can run by itself any more; why.
    Stuck(DeadReason),
}

/// What follows for a dead job from a decision about one of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDecision {
    /// All steps are done: so is the job.
    Done,
    /// Something can run: the job is replayed.
    Replay,
    /// Nothing can: the job stays where it is.
    Stay,
}

/// How a step stands in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As its state says.
    As(StepState),
    /// It has not run and never will: a step before it was given up.
    Skipped,
}

impl Plan {
    /// The most steps that a job may have.
    pub const MAX_STEPS: usize = 64;

    /// A plan of these steps.
    ///
    /// # Errors
    ///
    /// [`PlanError`] where there are none or too many, a name is there twice, or `after` names what does not exist or
    /// leads in a circle.
    pub fn new(steps: Vec<PlannedStep>) -> Result<Self, PlanError> {
        match steps.len() {
            0 => return Err(PlanError::Empty),
            1..=Self::MAX_STEPS => {}
            count => return Err(PlanError::TooMany(count)),
        }
        let mut places = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            if places.insert(&step.name, at).is_some() {
                return Err(PlanError::Duplicate(step.name.clone()));
            }
        }
        let place = |step: &PlannedStep, after: &StepName| {
            let unknown = || PlanError::UnknownStep { step: step.name.clone(), after: after.clone() };
            places.get(after).copied().ok_or_else(unknown)
        };
        let before = steps.iter().map(|step| step.after.iter().map(|after| place(step, after)).collect());
        let before: Vec<Vec<usize>> = before.collect::<Result<_, _>>()?;
        let plan = Self { before, steps };
        match plan.circle() {
            circle if circle.is_empty() => Ok(plan),
            circle => Err(PlanError::Cycle(circle)),
        }
    }

    /// The steps that can never start: those that wait for themselves, and those behind them.
    fn circle(&self) -> Vec<StepName> {
        let mut left: BTreeSet<usize> = (0..self.steps.len()).collect();
        loop {
            let free = |at: &usize| self.before[*at].iter().all(|before| !left.contains(before));
            let Some(at) = left.iter().copied().find(free) else { break };
            left.remove(&at);
        }
        left.into_iter().map(|at| self.steps[at].name.clone()).collect()
    }

    /// The steps, in their order.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// The step of this name.
    pub fn get(&self, name: &StepName) -> Option<&PlannedStep> {
        self.steps.iter().find(|step| step.name == *name)
    }

    /// What comes next at `now`, in an attempt of the life `life` that has tried the steps at `tried`: no step runs twice
    /// in one attempt.
    pub fn next(&self, ledger: &Ledger, life: &str, now: Timestamp, tried: &BTreeSet<usize>) -> Next {
        let mut wait: Option<Duration> = None;
        for (at, step) in self.steps.iter().enumerate() {
            if !self.is_open(ledger, life, at) || !self.is_free(ledger, at) {
                continue;
            }
            let due = ledger.get(&step.name).and_then(|record| record.due);
            let left = due.map_or(Duration::ZERO, |due| due.since(now));
            if left.is_zero() && !tried.contains(&at) {
                return Next::Run(at);
            }
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        match wait {
            Some(wait) => Next::Wait(wait),
            None if self.is_done(ledger) => Next::Done,
            None => Next::Stuck(self.reason(ledger)),
        }
    }

    /// What follows from the ledger for a dead job, which begins a new life when it is replayed.
    pub fn then(&self, ledger: &Ledger) -> AfterDecision {
        let runs = |at: usize| match (ledger.state(&self.steps[at].name), self.steps[at].kind) {
            (StepState::Pending | StepState::Exhausted, _) | (StepState::Started, StepKind::Auto) => {
                self.is_free(ledger, at)
            }
            // It would only be found to be unknown.
            (StepState::Started, StepKind::Once) => false,
            (StepState::Done | StepState::Failed | StepState::Unknown | StepState::GivenUp, _) => false,
        };
        match () {
            () if self.is_done(ledger) => AfterDecision::Done,
            () if (0..self.steps.len()).any(runs) => AfterDecision::Replay,
            () => AfterDecision::Stay,
        }
    }

    /// How a step stands.
    pub fn standing(&self, ledger: &Ledger, name: &StepName) -> Standing {
        let state = ledger.state(name);
        let place = self.steps.iter().position(|step| step.name == *name);
        let skipped = state == StepState::Pending && place.is_some_and(|at| self.is_skipped(ledger, at));
        if skipped { Standing::Skipped } else { Standing::As(state) }
    }

    /// True where every step is done.
    pub fn is_done(&self, ledger: &Ledger) -> bool {
        self.steps.iter().all(|step| ledger.state(&step.name) == StepState::Done)
    }

    /// The first step that keeps the job from ending, for the text of a dead letter: one of this state.
    pub fn first(&self, ledger: &Ledger, states: &[StepState]) -> Option<&PlannedStep> {
        self.steps.iter().find(|step| states.contains(&ledger.state(&step.name)))
    }

    /// True where a step may still run by itself. A `once` step that somebody else started is asked about too: beginning
    /// it finds out that it is unknown.
    fn is_open(&self, ledger: &Ledger, life: &str, at: usize) -> bool {
        let step = &self.steps[at];
        let Some(record) = ledger.get(&step.name) else { return true };
        match record.state {
            StepState::Pending | StepState::Started => true,
            StepState::Exhausted => step.kind == StepKind::Auto && record.life != life,
            StepState::Done | StepState::Failed | StepState::Unknown | StepState::GivenUp => false,
        }
    }

    /// True where all that comes before a step is done.
    fn is_free(&self, ledger: &Ledger, at: usize) -> bool {
        self.before[at].iter().all(|before| ledger.state(&self.steps[*before].name) == StepState::Done)
    }

    fn is_skipped(&self, ledger: &Ledger, at: usize) -> bool {
        self.before[at].iter().any(|before| {
            ledger.state(&self.steps[*before].name) == StepState::GivenUp || self.is_skipped(ledger, *before)
        })
    }

    fn reason(&self, ledger: &Ledger) -> DeadReason {
        let undecided = [StepState::Failed, StepState::Unknown, StepState::Started];
        match () {
            () if self.first(ledger, &undecided).is_some() => DeadReason::NeedsDecision,
            () if self.first(ledger, &[StepState::Exhausted]).is_some() => DeadReason::Exhausted,
            () => DeadReason::Fatal,
        }
    }
}

/// One line per step: its name, its kind, and after a further space what it comes after, with commas.
impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            let (end, space) =
                (if at == 0 { "" } else { "\n" }, if step.after.is_empty() { "" } else { " " });
            let after: Vec<&str> = step.after.iter().map(StepName::as_str).collect();
            write!(out, "{end}{} {}{space}{}", step.name, step.kind, after.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let step = |line: &str| {
            let mut parts = line.split(' ');
            let name = parts.next().unwrap_or_default();
            let name = name.parse().map_err(|error: InvalidName| error.to_string())?;
            let kind = parts.next().unwrap_or_default().parse()?;
            let after = parts.next().into_iter().flat_map(|list| list.split(','));
            let after = after.map(|name| name.parse().map_err(|error: InvalidName| error.to_string()));
            Ok::<_, String>(PlannedStep { name, kind, after: after.collect::<Result<_, _>>()? })
        };
        let steps: Vec<_> = text.lines().take(Self::MAX_STEPS + 1).map(step).collect::<Result<_, _>>()?;
        Self::new(steps).map_err(|error| error.to_string())
    }
}

fn listed(names: &[StepName]) -> String {
    names.iter().map(StepName::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
