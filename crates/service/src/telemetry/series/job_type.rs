//! The series of a queue's types: one set for each known type, and one for all others together.

use std::sync::Arc;
use std::time::Duration;

use metrics::Counter;
use rustc_hash::FxHashMap;

use super::Maker;
use crate::job::{FailureKind, JobType};
use crate::telemetry::catalogue::{self, FAILURES, OTHER, OUTCOMES, UNKNOWN};
use crate::telemetry::histogram::Histogram;
use streamfleet::event::{Ending, Finished};

/// The series of a queue's types.
pub(super) struct Types {
    /// The index of each known type's series.
    places: FxHashMap<JobType, usize>,
    series: Vec<TypeSeries>,
    unknown: TypeSeries,
}

/// The series of one queue and type.
pub(in super::super) struct TypeSeries {
    pub(super) started: Counter,
    pub(super) started_late: Counter,
    pub(super) duration: Arc<Histogram>,
    pub(super) wait: Arc<Histogram>,
    completion: Arc<Histogram>,
    attempts: Arc<Histogram>,
    finished: [Counter; OUTCOMES.len()],
    failures: [Counter; FAILURES.len()],
}

impl Types {
    /// Creates series for these types as far as `left` allows. Types beyond it share one set.
    pub(super) fn new(maker: &Maker<'_>, queue: &str, types: &[JobType], left: &mut usize) -> Self {
        let own = types.len().min(*left);
        *left -= own;
        let (own, rest) = types.split_at(own);
        let mut series: Vec<_> =
            own.iter().map(|job_type| TypeSeries::new(maker, queue, job_type.as_str())).collect();
        let mut places: FxHashMap<_, _> = own.iter().cloned().zip(0..).collect();
        if !rest.is_empty() {
            places.extend(rest.iter().cloned().map(|job_type| (job_type, series.len())));
            series.push(TypeSeries::new(maker, queue, OTHER));
        }
        Self { places, series, unknown: TypeSeries::new(maker, queue, UNKNOWN) }
    }

    /// Returns the series of a type.
    pub(super) fn of(&self, job_type: Option<&JobType>) -> &TypeSeries {
        let place = job_type.and_then(|job_type| self.places.get(job_type));
        place.map_or(&self.unknown, |place| &self.series[*place])
    }
}

impl TypeSeries {
    fn new(maker: &Maker<'_>, queue: &str, job_type: &str) -> Self {
        let values = [queue, job_type];
        Self {
            started: maker.counter(&catalogue::STARTED, &values),
            started_late: maker.counter(&catalogue::STARTED_LATE, &values),
            duration: maker.histogram(&catalogue::DURATION, &values),
            wait: maker.histogram(&catalogue::WAITED, &values),
            completion: maker.histogram(&catalogue::COMPLETION, &values),
            attempts: maker.histogram(&catalogue::USED_ATTEMPTS, &values),
            finished: OUTCOMES
                .map(|outcome| maker.counter(&catalogue::FINISHED, &[queue, job_type, outcome])),
            failures: FAILURES
                .map(|reason| maker.counter(&catalogue::FAILURES_TOTAL, &[queue, job_type, reason])),
        }
    }

    /// Counts an attempt that starts.
    pub(in super::super) fn start(&self, wait: Duration, objective: Duration) {
        self.started.increment(1);
        self.wait.record(wait.as_secs_f64());
        if wait > objective {
            self.started_late.increment(1);
        }
    }

    /// Counts an attempt that ended, and the end of its job if this was the last attempt.
    pub(in super::super) fn finish(&self, end: &Finished<'_>) {
        self.finished[place(end.ending)].increment(1);
        if let Some(age) = end.age.filter(|_| end.ending.is_final()) {
            self.completion.record(age.as_secs_f64());
            self.attempts.record(f64::from(end.attempts));
        }
    }

    /// Counts an attempt that failed this way.
    pub(in super::super) fn fail(&self, kind: FailureKind) {
        self.failures[kind as usize].increment(1);
    }

    /// Counts an attempt whose worker stopped responding.
    pub(in super::super) fn lose(&self) {
        self.failures[4].increment(1);
    }
}

/// Returns the index of an ending in [`OUTCOMES`].
fn place(ending: Ending) -> usize {
    let outcome = ending.as_str();
    OUTCOMES.iter().position(|known| *known == outcome).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::DeadReason;

    #[test]
    fn every_ending_has_an_outcome() {
        let plain =
            [Ending::Succeeded, Ending::Retried, Ending::Snoozed, Ending::Interrupted, Ending::Cancelled];
        let endings = plain.into_iter().chain(DeadReason::ALL.map(Ending::Dead));
        assert!(endings.into_iter().all(|ending| OUTCOMES.contains(&ending.as_str())));
    }

    #[test]
    fn every_kind_of_failure_has_its_place() {
        assert_eq!(FailureKind::ALL.map(FailureKind::as_str)[..], FAILURES[..4]);
    }
}
