//! A queue's service objectives, as the file writes them.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values;
use crate::job::{duration, format_duration};
use crate::telemetry::Objectives;

/// The range of latencies that can be an objective.
const LATENCY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);

/// A queue's service objectives; see [`Objectives`].
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ObjectivesSection {
    /// How long a ready job may wait before it starts.
    #[serde(with = "duration")]
    pub latency: Duration,
    /// The fraction of ended jobs that may be dead.
    #[serde(deserialize_with = "values::fraction")]
    pub dead_ratio: f64,
}

impl Default for ObjectivesSection {
    fn default() -> Self {
        let Objectives { latency, dead_ratio } = Objectives::default();
        Self { latency, dead_ratio }
    }
}

impl From<&ObjectivesSection> for Objectives {
    fn from(section: &ObjectivesSection) -> Self {
        Self { latency: section.latency, dead_ratio: section.dead_ratio }
    }
}

/// Returns the keys that are wrong, and what is wrong with each.
pub(super) fn check(section: &ObjectivesSection) -> Vec<(&'static str, String)> {
    let ObjectivesSection { latency, dead_ratio } = section;
    let mut wrong = Vec::new();
    if !LATENCY.contains(latency) {
        let (least, most) = (format_duration(*LATENCY.start()), format_duration(*LATENCY.end()));
        wrong.push((
            "latency",
            format!("is {}, but must be between {least} and {most}", format_duration(*latency)),
        ));
    }
    if !(*dead_ratio > 0.0 && *dead_ratio <= 1.0) {
        let reason = format!(
            "is {dead_ratio}, but must be more than 0 and at most 1, such as 0.01 for one job in 100"
        );
        wrong.push(("dead_ratio", reason));
    }
    wrong
}
