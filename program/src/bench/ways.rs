//! The ways that a job can take: how its jobs are submitted, what their handler does, when they have arrived, and how
//! fast they should be.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use streamfleet::job::{Encoding, Tracking};
use streamfleet::{Submission, UniqueMode, UniqueScope};

use super::fleet::{Behavior, type_name};
use super::ratio::Budget;
use super::tally::Goal;

/// How many handlers run at once; no-op jobs need no more.
pub(super) const SLOTS: usize = 4000;

/// The most jobs of a way other than the plain one.
const MOST: usize = 100_000;

/// A way that a job can take, from its submission to its end. The comments are also the help of `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// No-op jobs.
    #[value(alias = "drain")]
    Plain,
    /// Delayed jobs that are all due at once, from then until they are done.
    Delayed,
    /// The promotion of such jobs alone, while no handler is free; and how late it is at 200 jobs/s.
    Promotion,
    /// Jobs that fail once and then succeed.
    #[value(alias = "retry")]
    Retried,
    /// Jobs that leave a record with a small result.
    Tracked,
    /// Such jobs in a queue with a history: a writer reads their ends from its journal, and deletes them there. No database takes part.
    Journaled,
    /// Jobs with ids of their own, submission included.
    OwnId,
    /// Jobs with unique keys, submission included.
    Unique,
    /// Jobs of three steps.
    Steps,
    /// Jobs whose success submits one more job; both count as one.
    Callbacks,
    /// Jobs that snooze once and then succeed.
    Snoozed,
    /// Jobs that pass the gate of their type, whose limit is not reached.
    Gated,
    /// Jobs of one value in a queue that is shared between values: all of them are sorted.
    Shared,
    /// Jobs that fail for good at once and become dead letters.
    Dead,
}

/// What distinguishes a way from the others.
pub(super) struct Spec {
    /// The way has one of this many `--jobs`.
    pub(super) share: usize,
    /// How many handlers run at once, at most.
    pub(super) slots: usize,
    pub(super) behavior: Behavior,
    pub(super) goal: Goal,
    /// How many times each job counts towards the goal.
    pub(super) goals_per_job: usize,
    /// Whether the submission is a part of what is measured.
    pub(super) includes_submission: bool,
    /// The least ratio to a raw drain.
    pub(super) budget: Option<Budget>,
}

impl Way {
    /// Returns the name, as in arguments and in JSON.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns how many jobs are measured. The slower a way, the fewer they are, so that a round takes about half a second.
    pub(super) fn jobs(self, of: usize) -> usize {
        let part = of / self.spec().share;
        if self == Self::Plain { part } else { part.min(MOST) }
    }

    /// Returns what distinguishes this way from the others.
    pub(super) fn spec(self) -> Spec {
        let least = |ratio| Some(Budget::AtLeast(ratio));
        let plain = Spec {
            share: 1,
            slots: SLOTS,
            behavior: Behavior::Succeed,
            goal: Goal::Ended,
            goals_per_job: 1,
            includes_submission: false,
            budget: least(0.9),
        };
        match self {
            Self::Plain => plain,
            Self::Delayed => Spec { share: 2, budget: least(0.33), ..plain },
            Self::Promotion => {
                let (behavior, goal) = (Behavior::Hold, Goal::Promoted);
                Spec { share: 4, slots: 1, behavior, goal, budget: least(0.55), ..plain }
            }
            Self::Retried => Spec { share: 5, behavior: Behavior::FailFirst, budget: least(0.11), ..plain },
            Self::Tracked => Spec { share: 4, behavior: Behavior::ReturnResult, budget: least(0.3), ..plain },
            Self::Journaled => Spec { share: 4, behavior: Behavior::ReturnResult, budget: None, ..plain },
            Self::OwnId => Spec { share: 4, includes_submission: true, budget: least(0.2), ..plain },
            Self::Unique => Spec { share: 10, includes_submission: true, budget: None, ..plain },
            Self::Steps => {
                Spec { share: 20, behavior: Behavior::SucceedInSteps, budget: least(0.05), ..plain }
            }
            Self::Callbacks => Spec { share: 10, goals_per_job: 2, budget: None, ..plain },
            Self::Snoozed => Spec { share: 5, behavior: Behavior::SnoozeFirst, budget: None, ..plain },
            Self::Gated => Spec { share: 2, behavior: Behavior::PassGate, budget: least(0.3), ..plain },
            Self::Shared => Spec { share: 2, behavior: Behavior::Share, budget: least(0.2), ..plain },
            Self::Dead => Spec { share: 10, behavior: Behavior::Fail, budget: None, ..plain },
        }
    }

    /// Returns this many jobs of this many types in turn.
    pub(super) fn submissions(
        self,
        jobs: usize,
        types: usize,
        payload: &[u8],
    ) -> Result<impl Iterator<Item = Submission> + use<>> {
        let each: Vec<Submission> =
            (0..types).map(|nth| self.submission(&type_name(nth), payload)).collect::<Result<_>>()?;
        Ok((0..jobs).map(move |nth| self.named(nth, each[nth % types].clone())))
    }

    fn submission(self, job_type: &str, payload: &[u8]) -> Result<Submission> {
        let one = Submission::new(job_type)?.payload(payload.to_vec(), Encoding::Json)?;
        Ok(match self {
            // They are due before the fleet starts.
            Self::Delayed | Self::Promotion => one.delay(Duration::from_millis(1)),
            Self::Tracked | Self::Journaled => one.tracking(Tracking::All),
            Self::Callbacks => one.on_success(super::FOLLOW_UP)?,
            Self::Shared => one.header("tenant", "9")?,
            Self::Plain
            | Self::Retried
            | Self::OwnId
            | Self::Unique
            | Self::Steps
            | Self::Snoozed
            | Self::Gated
            | Self::Dead => one,
        })
    }

    /// Gives a job the name by which Redis tells it from the others, if it needs one.
    fn named(self, nth: usize, job: Submission) -> Submission {
        let name = || format!("bench-{nth}");
        if self == Self::OwnId {
            return job.id(name().parse().expect("letters, a hyphen and digits form a valid id"));
        }
        if self == Self::Unique {
            let key = name().parse().expect("letters, a hyphen and digits form a valid key");
            return job.unique(key, UniqueScope::Running, UniqueMode::Reject);
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_a_way_the_fewer_its_jobs() {
        let rows = Way::value_variants().iter().map(|way| {
            format!("{}: {} of 200000, {} of 2000000", way.name(), way.jobs(200_000), way.jobs(2_000_000))
        });
        insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r"
        plain: 200000 of 200000, 2000000 of 2000000
        delayed: 100000 of 200000, 100000 of 2000000
        promotion: 50000 of 200000, 100000 of 2000000
        retried: 40000 of 200000, 100000 of 2000000
        tracked: 50000 of 200000, 100000 of 2000000
        journaled: 50000 of 200000, 100000 of 2000000
        own_id: 50000 of 200000, 100000 of 2000000
        unique: 20000 of 200000, 100000 of 2000000
        steps: 10000 of 200000, 100000 of 2000000
        callbacks: 20000 of 200000, 100000 of 2000000
        snoozed: 40000 of 200000, 100000 of 2000000
        gated: 100000 of 200000, 100000 of 2000000
        shared: 100000 of 200000, 100000 of 2000000
        dead: 20000 of 200000, 100000 of 2000000
        ");
    }
}
