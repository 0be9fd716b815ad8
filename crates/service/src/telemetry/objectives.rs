//! A queue's service objectives. Alerts compare them with the measured values.

use std::time::Duration;

/// A queue's service objectives.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Objectives {
    /// How long a ready job may wait before it starts.
    pub latency: Duration,
    /// The fraction of ended jobs that may be dead, from 0 to 1.
    pub dead_ratio: f64,
}

impl Objectives {
    setters! {
        /// Sets how long a ready job may wait before it starts: 1 ms to 365 days, by default 5 min.
        latency: Duration;
        /// Sets the fraction of ended jobs that may be dead: above 0, at most 1, by default 0.01.
        dead_ratio: f64;
    }
}

impl Default for Objectives {
    fn default() -> Self {
        Self { latency: Duration::from_secs(300), dead_ratio: 0.01 }
    }
}
