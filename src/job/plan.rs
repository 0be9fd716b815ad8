//! The plan of a job's steps, and what follows from it and the ledger: which step runs next, and where the job goes if none
//! does. Steps are independent unless one declares `after`. Steps that are ready run one after another in plan order.

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

/// The steps of a job type: at least one, with unique names, and none that waits for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<PlannedStep>,
    /// For each step, the indexes of the steps it comes after.
    before: Vec<Vec<usize>>,
}

/// Why a list of steps is not a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It is empty.
    #[error("a job with steps needs at least one step")]
    Empty,
    /// It has too many steps.
    #[error("{0} steps, but at most {max} are allowed", max = Plan::MAX_STEPS)]
    TooMany(usize),
    /// A step's name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Two steps have the same name.
    #[error("the step {0} appears twice")]
    Duplicate(StepName),
    /// A step comes after one that does not exist.
    #[error("the step {step} comes after {after}, which is not a step of the job")]
    UnknownStep {
        /// The step.
        step: StepName,
        /// The step it comes after.
        after: StepName,
    },
    /// Steps wait for each other.
    #[error("these steps wait for each other: {}", listed(.0))]
    Cycle(Vec<StepName>),
}

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
    /// The most steps that a job may have.
    pub const MAX_STEPS: usize = 64;

    /// Creates a plan of these steps.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if there are no steps or too many, a name occurs twice, or `after` names an unknown step or forms a cycle.
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
        match plan.find_cycle() {
            circle if circle.is_empty() => Ok(plan),
            circle => Err(PlanError::Cycle(circle)),
        }
    }

    /// Returns the steps that can never start: those in a cycle, and those that come after them.
    fn find_cycle(&self) -> Vec<StepName> {
        let mut left: BTreeSet<usize> = (0..self.steps.len()).collect();
        loop {
            let free = |at: &usize| self.before[*at].iter().all(|before| !left.contains(before));
            let Some(at) = left.iter().copied().find(free) else { break };
            left.remove(&at);
        }
        left.into_iter().map(|at| self.steps[at].name.clone()).collect()
    }

    /// Returns the steps in plan order.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// Returns the step with this name.
    pub fn get(&self, name: &StepName) -> Option<&PlannedStep> {
        self.steps.iter().find(|step| step.name == *name)
    }

    /// Returns what comes next at `now`, in an attempt of the life `life` that has already tried the steps at `tried`.
    /// No step runs twice in one attempt.
    pub fn next(&self, ledger: &Ledger, life: &str, now: Timestamp, tried: &BTreeSet<usize>) -> Next {
        let mut wait: Option<Duration> = None;
        for (at, step) in self.steps.iter().enumerate() {
            if !self.is_open(ledger, life, at) || !self.is_ready(ledger, at) {
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

    /// Returns what the ledger means for a dead job, which begins a new life if it is replayed.
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
    fn is_open(&self, ledger: &Ledger, life: &str, at: usize) -> bool {
        let step = &self.steps[at];
        let Some(record) = ledger.get(&step.name) else { return true };
        match record.state {
            StepState::Pending | StepState::Started => true,
            StepState::Exhausted => step.kind == StepKind::Auto && record.life != life,
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

    fn reason(&self, ledger: &Ledger) -> DeadReason {
        let undecided = [StepState::Failed, StepState::Unknown, StepState::Started];
        match () {
            () if self.first(ledger, &undecided).is_some() => DeadReason::NeedsDecision,
            () if self.first(ledger, &[StepState::Exhausted]).is_some() => DeadReason::Exhausted,
            () => DeadReason::Fatal,
        }
    }
}

/// Writes one line per step: its name, its kind and, if it comes after others, their names separated by commas.
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
