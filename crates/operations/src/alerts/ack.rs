//! A person knows of an incident, and wants no reminders for a time.

use std::time::Duration;

use serde::Serialize;
use streamfleet_engine::admin::{IncidentId, Incidents, Noted};

use crate::times::rfc3339;
use crate::{ALERTS_ACK, Actor, Error};

/// What became of an acknowledgment.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct IncidentAck {
    /// The incident.
    pub incident: String,
    /// Until when no reminder is sent.
    pub until: String,
    /// Until when no reminder is sent, in milliseconds since 1970.
    pub until_ms: u64,
}

/// Keeps everybody from being reminded of an incident for this long: at most 30 days; zero to be reminded again. The audit of the
/// alerts notes it. The actor must say why, because those who look at the incident see it.
///
/// # Errors
///
/// [`Error::Invalid`] without a reason; [`Error::NotFound`] if there is no such incident, or it is over; [`Error::Redis`].
pub async fn acknowledge(
    incidents: &Incidents,
    actor: &Actor,
    id: &IncidentId,
    time: Duration,
) -> Result<Noted<IncidentAck>, Error> {
    if actor.reason().trim().is_empty() {
        return Err(Error::invalid("reason", "say why, for those who look at the incident"));
    }
    let until = incidents.acknowledge(id, time, &actor.action(&ALERTS_ACK)).await;
    let until = until.map_err(Error::redis("failed to acknowledge the incident"))?;
    let until = until.ok_or_else(|| Error::NotFound(format!("there is no open incident {id}")))?;
    Ok(until.map(|time| IncidentAck {
        incident: id.to_string(),
        until: rfc3339(time),
        until_ms: time.as_ms(),
    }))
}
