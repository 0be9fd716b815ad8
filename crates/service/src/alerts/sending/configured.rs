//! The alerts that a configuration describes.

use super::observe::Watched;
use super::sender::Alerts;
use crate::config::{Effective, Invalid, TypeAlert};
use crate::telemetry::Objectives;

impl Effective {
    /// Returns the alerts that the section `[alerts]` describes; `None` without the section.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a sink cannot be used: a file with a secret cannot be read, or an address is wrong.
    pub fn alerts(&self) -> Result<Option<Alerts>, Invalid> {
        let Some(config) = &self.config.alerts else { return Ok(None) };
        let queues = &self.config.queues;
        let latencies = queues.iter().map(|(name, queue)| (name.clone(), queue.objectives.latency));
        let each = self.config.types.iter().filter(|(_, section)| section.alert == Some(TypeAlert::Each));
        let watched = Watched::new(Objectives::default().latency)
            .latencies(latencies)
            .each(each.map(|(name, _)| name.clone()));
        let alerts = Alerts::new(config.clone(), self.config.redis.clone(), watched);
        // Not only operators read messages.
        let console = &self.config.console;
        let mask = console.mask.iter().chain(&console.secrets);
        alerts.map(|alerts| Some(alerts.mask(mask))).map_err(|error| {
            let key = ["alerts", "sinks", error.sink.as_str()];
            Invalid { problems: vec![self.problem(&key, &error.reason)] }
        })
    }
}
