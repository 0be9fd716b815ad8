//! What a queue's users may expect of it. Alerts compare it with what is.

use std::time::Duration;

/// What a queue's users may expect of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objectives {
    /// How long a ready job may wait before it starts.
    pub latency: Duration,
    /// Which part of the jobs that end may die, 0 to 1.
    pub dead_ratio: f64,
}

impl Default for Objectives {
    fn default() -> Self {
        Self { latency: Duration::from_secs(300), dead_ratio: 0.01 }
    }
}
