//! Replaces the push of metrics if the feature `otlp` is not enabled: types without values.

use super::PushTarget;
use crate::event::Events;

/// The push of metrics to a collector, not yet started.
#[derive(Debug)]
pub enum Push {}

/// A running push of metrics.
#[derive(Debug)]
pub enum Pushing {}

impl Push {
    /// Refuses every target: this build pushes nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn open(_target: &PushTarget) -> Result<Self, String> {
        check_metrics_endpoint("").map(|()| unreachable!("this build has no collectors"))
    }

    /// Starts pushing.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn start(
        self,
        _read: impl Fn() -> String + Send + 'static,
        _events: Events,
    ) -> Result<Pushing, String> {
        match self {}
    }
}

impl Pushing {
    /// Pushes once more.
    pub async fn close(self) {
        match self {}
    }
}

/// Refuses the address of a collector: this build sends nothing to one.
///
/// # Errors
///
/// Always.
pub fn check_metrics_endpoint(_endpoint: &str) -> Result<(), String> {
    Err("this build cannot push metrics; it needs the feature otlp".to_owned())
}
