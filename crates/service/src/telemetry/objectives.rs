//! A queue's service objectives. Alerts compare them with the measured values.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::number::fraction;
use crate::job::{OutOfBounds, bounds, duration};

const LATENCY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);

with_defaults! {
    /// A queue's service objectives.
    #[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Objectives {
        /// How long a ready job may wait before it starts; 1 ms to 365 days, by default 5 min.
        #[serde(with = "duration")]
        pub latency: Duration = Duration::from_secs(300),
        /// The fraction of ended jobs that may be dead; above 0, at most 1, by default 0.01.
        #[serde(deserialize_with = "fraction")]
        pub dead_ratio: f64 = 0.01,
    }
}

impl Objectives {
    setters! {
        latency: Duration;
        dead_ratio: f64;
    }

    /// Returns everything that is out of its bounds.
    pub fn check(&self) -> Vec<OutOfBounds> {
        let ratio = self.dead_ratio;
        let reason =
            || format!("is {ratio}, but must be more than 0 and at most 1, such as 0.01 for one job in 100");
        let ratio = (!(ratio > 0.0 && ratio <= 1.0)).then(|| OutOfBounds::new("dead_ratio", reason()));
        bounds::time("latency", self.latency, &LATENCY).into_iter().chain(ratio).collect()
    }
}
