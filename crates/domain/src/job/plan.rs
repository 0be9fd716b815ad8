//! The plan of a job's steps. Steps are independent unless one declares `after`. Its `standing` is what follows from the
//! plan and the ledger.

mod standing;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use super::{InvalidName, StepKind, StepName};
pub use standing::AfterDecision;
pub use standing::{Next, Standing};

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

impl PlanError {
    /// Returns the step that is wrong, if it is one.
    pub fn step(&self) -> Option<&StepName> {
        match self {
            Self::UnknownStep { step, .. } | Self::Duplicate(step) => Some(step),
            Self::Cycle(steps) => steps.first(),
            Self::Empty | Self::TooMany(_) | Self::Name(_) => None,
        }
    }
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
