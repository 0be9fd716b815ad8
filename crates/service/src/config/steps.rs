//! The steps of a type, as the file writes them: `[types."gift.send".steps.charge]`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::MapAccess;
use serde::{Deserialize, Deserializer, Serialize};

use super::check::listed;
use super::joined::{self, Joined};
use crate::job::{OutOfBounds, Plan, PlanError, PlannedStep, StepKind, StepLimits, StepName};
use streamfleet::handlers;

/// One step of a type's jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct StepSection {
    /// `auto` or `once`. There is no default: the choice must be deliberate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<StepKind>,
    /// What runs the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<handlers::Config>,
    /// The steps that must be done before it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StepName>,
    /// The step's own limits.
    #[serde(flatten)]
    pub limits: StepLimits,
}

impl Joined for StepSection {
    type Part = StepLimits;

    const OWN: &'static [&'static str] = &["kind", "handler", "after"];

    fn part(&mut self) -> &mut Self::Part {
        &mut self.limits
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, table: &mut A) -> Result<(), A::Error> {
        match key {
            "kind" => self.kind = Some(table.next_value()?),
            "handler" => self.handler = Some(table.next_value()?),
            _ => self.after = table.next_value()?,
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for StepSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        joined::deserialize(from)
    }
}

impl StepSection {
    /// Returns what is wrong with the step itself. `longest` is its type's timeout.
    fn check(&self, longest: Duration) -> Vec<OutOfBounds> {
        let Self { kind, handler, after: _, limits } = self;
        let no_kind = "is missing: auto (may run again) or once (never runs twice)";
        let mut wrong = limits.check(kind.unwrap_or(StepKind::Auto), longest);
        wrong.extend(kind.is_none().then(|| OutOfBounds::new("kind", no_kind)));
        wrong.extend(handler.is_none().then(|| OutOfBounds::new("handler", "is missing")));
        wrong.extend(listed(&["handler"], handler.iter().flat_map(handlers::Config::validate)));
        wrong
    }
}

/// Returns what is wrong with the steps of a type with this timeout.
pub(super) fn check(steps: &BTreeMap<StepName, StepSection>, timeout: Duration) -> Vec<OutOfBounds> {
    let mut wrong = Vec::new();
    for (name, step) in steps {
        wrong.extend(step.check(timeout).into_iter().map(|wrong| wrong.below(&["steps", name.as_str()])));
    }
    wrong.extend(plan(steps).err().map(|error| match error.step() {
        Some(step) => OutOfBounds::new("after", error.to_string()).below(&["steps", step.as_str()]),
        None => OutOfBounds::new("steps", error.to_string()),
    }));
    wrong
}

/// Returns the plan of these steps, ordered by name because a table has no order.
fn plan(steps: &BTreeMap<StepName, StepSection>) -> Result<Plan, PlanError> {
    let planned = steps.iter().map(|(name, step)| PlannedStep {
        name: name.clone(),
        kind: step.kind.unwrap_or(StepKind::Once),
        after: step.after.clone(),
    });
    Plan::new(planned.collect())
}
