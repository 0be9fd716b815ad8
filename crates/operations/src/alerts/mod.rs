//! Incidents: what is wrong with the fleet, and who knows of it.

mod ack;
mod list;

pub use ack::{IncidentAck, acknowledge};
pub use list::{
    Found, IncidentAcknowledged, IncidentFacts, IncidentPage, ListedIncident, Wanted, find, list, show,
};
