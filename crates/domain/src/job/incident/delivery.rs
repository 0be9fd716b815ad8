//! Which message about an incident a sink still has to get. A message that a sink has accepted is not sent to it again.

use super::{Incident, IncidentState};

/// What a sink has got about one incident.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The number of the last message that it accepted; 0 for none.
    pub handed: u32,
    /// The number of the last message that was given up because it did not accept it; 0 for none.
    pub given_up: u32,
}

impl Delivery {
    /// Returns what two notes about the same sink and incident say together.
    #[doc(hidden)]
    pub fn with(self, other: Self) -> Self {
        Self { handed: self.handed.max(other.handed), given_up: self.given_up.max(other.given_up) }
    }

    /// Returns true if the sink has got all that there is to say.
    #[doc(hidden)]
    pub fn is_complete(self, incident: &Incident) -> bool {
        match incident.state {
            IncidentState::Pending => true,
            IncidentState::Open => self.handed >= incident.notices,
            IncidentState::Resolved => self.handed >= incident.resolving,
        }
    }

    /// Returns true if the sink is to get a message now. One that was given up waits for the next reminder.
    #[doc(hidden)]
    pub fn is_due(self, incident: &Incident) -> bool {
        !self.is_complete(incident) && self.given_up < incident.notices
    }
}
