//! What happens to incidents, and to messages about them.

use crate::job::SinkName;
use crate::job::incident::{Incident, IncidentKind};

/// Something that happened to incidents, or to messages about them.
#[derive(Debug, Clone, Copy)]
pub enum AlertEvent<'a> {
    /// An incident has opened, or is resolved. Reported by the process that sends messages about incidents.
    IncidentChanged {
        /// The incident.
        incident: &'a Incident,
    },
    /// How many incidents of a kind are open. Reported by the same process at each check.
    Incidents {
        /// The kind.
        kind: IncidentKind,
        /// How many.
        open: u64,
    },
    /// A sink has taken a message about incidents.
    Sent {
        /// The sink.
        sink: &'a SinkName,
        /// How many incidents the message is about.
        incidents: usize,
    },
    /// A sink has not taken a message about incidents.
    Failed {
        /// The sink.
        sink: &'a SinkName,
        /// What it answered. The text has no secret.
        why: &'a str,
        /// Whether the message is not sent again until the next reminder.
        is_given_up: bool,
    },
}
