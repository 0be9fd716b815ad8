//! A queue's service objectives. Alerts compare them with the measured values.

use std::time::Duration;

/// A queue's service objectives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objectives {
    /// How long a ready job may wait before it starts.
    pub latency: Duration,
    /// The fraction of ended jobs that may be dead, from 0 to 1.
    pub dead_ratio: f64,
}

impl Default for Objectives {
    fn default() -> Self {
        Self { latency: Duration::from_secs(300), dead_ratio: 0.01 }
    }
}
