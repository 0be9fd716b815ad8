//! Replaces the messages if the feature `alerts` is not enabled: types without values.

use crate::config::{Effective, Invalid};
use streamfleet::event::Events;

/// Looks for incidents and sends messages about them.
#[derive(Debug)]
pub enum Alerts {}

/// Alerts that run.
#[derive(Debug)]
pub enum Running {}

impl Alerts {
    /// Starts to look and send.
    pub fn start(self, _events: Events) -> Running {
        match self {}
    }
}

impl Running {
    /// Stops.
    pub async fn stop(self) {
        match self {}
    }
}

impl Effective {
    /// Returns `None`: this build sends no messages.
    ///
    /// # Errors
    ///
    /// Never. The check of the configuration refuses sinks.
    pub fn alerts(&self) -> Result<Option<Alerts>, Invalid> {
        Ok(None)
    }
}
