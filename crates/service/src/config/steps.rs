//! The steps of a type, as the file writes them: `[types."gift.send".steps.charge]`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::{self, BackoffSection};
use crate::job::{Backoff, JobSpec, Plan, PlanError, PlannedStep, StepKind, StepLimits, StepName};
use crate::job::{duration, format_duration};
use streamfleet::handlers;

/// One step of a type's jobs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StepSection {
    /// `auto` or `once`. There is no default: the choice must be deliberate.
    #[serde(deserialize_with = "kind", serialize_with = "text", skip_serializing_if = "Option::is_none")]
    pub kind: Option<StepKind>,
    /// What runs the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<handlers::Config>,
    /// The steps that must be done before it starts.
    #[serde(deserialize_with = "names", serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StepName>,
    /// After how many failures an `auto` step gives up; default: the type's.
    #[serde(deserialize_with = "count", skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The pause before an `auto` step's retry; default: the type's.
    #[serde(
        deserialize_with = "backoff",
        serialize_with = "as_backoff",
        skip_serializing_if = "Option::is_none"
    )]
    pub backoff: Option<Backoff>,
    /// How long one run may take; at most the type's timeout, which is also the default.
    #[serde(
        deserialize_with = "length",
        serialize_with = "as_length",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
}

impl StepSection {
    /// Returns the step's own limits.
    pub fn limits(&self) -> StepLimits {
        let Self { kind: _, handler: _, after: _, max_attempts, backoff, timeout } = self.clone();
        StepLimits::default().max_attempts(max_attempts).backoff(backoff).timeout(timeout)
    }

    /// Returns what is wrong with the step itself: keys below it, and reasons. `longest` is its type's timeout.
    fn problems(&self, longest: Duration) -> Vec<(String, String)> {
        let Self { kind, handler, after: _, max_attempts, backoff, timeout } = self;
        let mut wrong = Vec::new();
        let mut report = |key: &str, reason: &str| wrong.push((key.to_owned(), reason.to_owned()));
        match kind {
            None => report("kind", "is missing: auto (may run again) or once (never runs twice)"),
            Some(StepKind::Once) if max_attempts.is_some() => {
                report("max_attempts", "has no effect on a once step, which never runs again automatically");
            }
            Some(StepKind::Once) if backoff.is_some() => {
                report("backoff", "has no effect on a once step, which never runs again automatically");
            }
            Some(StepKind::Auto | StepKind::Once) => {}
        }
        if *max_attempts == Some(0) {
            report("max_attempts", "is 0, but must be at least 1");
        }
        if let Some(Err(reason)) = backoff.as_ref().map(Backoff::validate) {
            report("backoff", &reason);
        }
        match timeout {
            Some(timeout) if timeout.is_zero() || *timeout > JobSpec::LONGEST_TIMEOUT => {
                report(
                    "timeout",
                    &format!("is {}, but must be between 1ms and 7d", format_duration(*timeout)),
                );
            }
            Some(timeout) if *timeout > longest => {
                let (own, types) = (format_duration(*timeout), format_duration(longest));
                report("timeout", &format!("is {own}, but the type's timeout is shorter: {types}"));
            }
            Some(_) | None => {}
        }
        match handler {
            None => report("handler", "is missing"),
            Some(handler) => {
                for problem in handler.validate() {
                    let (key, reason) = problem.split_once(": ").unwrap_or(("", &problem));
                    report(&format!("handler.{key}"), reason);
                }
            }
        }
        wrong
    }
}

/// Returns what is wrong with the steps of a type with this timeout: keys below the type, and reasons.
pub(super) fn check(
    steps: &BTreeMap<StepName, StepSection>,
    timeout: Duration,
) -> Vec<(Vec<String>, String)> {
    let mut wrong = Vec::new();
    for (name, step) in steps {
        for (key, reason) in step.problems(timeout) {
            let key = key.split('.').map(str::to_owned);
            wrong.push((["steps".to_owned(), name.to_string()].into_iter().chain(key).collect(), reason));
        }
    }
    wrong.extend(plan(steps).err().map(|error| (place(&error), error.to_string())));
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

fn place(error: &PlanError) -> Vec<String> {
    let below = error.step().map(|step| [step.to_string(), "after".to_owned()]);
    std::iter::once("steps".to_owned()).chain(below.into_iter().flatten()).collect()
}

fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StepKind>, D::Error> {
    values::text(from).map(Some)
}

fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<StepName>, D::Error> {
    let names: Vec<String> = Vec::deserialize(from)?;
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    values::count(from).map(Some)
}

fn backoff<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Backoff>, D::Error> {
    BackoffSection::deserialize(from).map(Some)
}

fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}

fn text<S: Serializer>(kind: &Option<StepKind>, to: S) -> Result<S::Ok, S::Error> {
    kind.map(StepKind::as_str).serialize(to)
}

fn texts<S: Serializer>(names: &[StepName], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(names.iter().map(StepName::as_str))
}

fn as_backoff<S: Serializer>(backoff: &Option<Backoff>, to: S) -> Result<S::Ok, S::Error> {
    match backoff {
        Some(backoff) => BackoffSection::serialize(backoff, to),
        None => to.serialize_none(),
    }
}

fn as_length<S: Serializer>(length: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    length.map(format_duration).serialize(to)
}
