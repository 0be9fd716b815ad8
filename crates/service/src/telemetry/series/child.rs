//! The series of the programs that exec handlers run.

use metrics::Counter;
use rustc_hash::FxHashMap;

use super::{Maker, PAIRS_MAX};
use crate::job::JobType;
use crate::telemetry::catalogue::{self, CHILDREN, OTHER};
use streamfleet::event::ChildEnding;

/// The series of the programs that exec handlers run.
pub(in super::super) struct ChildSeries {
    by_type: FxHashMap<JobType, [Counter; CHILDREN.len()]>,
    /// The series of all types beyond the limit.
    other: [Counter; CHILDREN.len()],
}

impl ChildSeries {
    /// Creates series for the types whose handlers run programs.
    pub(in super::super) fn new(maker: &Maker<'_>, types: &[JobType]) -> Self {
        let series = |job_type: &str| {
            CHILDREN.map(|outcome| maker.counter(&catalogue::CHILDREN_TOTAL, &[job_type, outcome]))
        };
        let own = types.iter().take(PAIRS_MAX);
        let by_type = own.map(|job_type| (job_type.clone(), series(job_type.as_str()))).collect();
        Self { by_type, other: series(OTHER) }
    }

    /// Counts a program that ended this way.
    pub(in super::super) fn ended(&self, job_type: &JobType, ending: ChildEnding) {
        self.by_type.get(job_type).unwrap_or(&self.other)[ending as usize].increment(1);
    }
}
