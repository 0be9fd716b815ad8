//! What Redis holds about an incident: JSON. What cannot be read belongs to another version, and is left alone. Texts are cut
//! and made plain again, because anybody with access to Redis may have written them.

use serde::{Deserialize, Serialize};

use crate::client::decode::timestamp;
use crate::job::Timestamp;
use crate::job::incident::line::{MAX_KEY_BYTES, MAX_TEXT_BYTES, plain_line};
use crate::job::incident::{Incident, IncidentExample, IncidentId, IncidentKind, IncidentState};

/// An incident as JSON. Times are in milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    id: String,
    kind: IncidentKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key: String,
    state: IncidentState,
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    job_type: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    example: Option<IncidentExample>,
    since_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opened_ms: Option<u64>,
    seen_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clear_since_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved_ms: Option<u64>,
    #[serde(default)]
    notices: u32,
    #[serde(default)]
    resolving: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_ms: Option<u64>,
}

/// Returns the incident as Redis holds it.
pub(super) fn pack(incident: &Incident) -> String {
    let ms = |time: Option<Timestamp>| time.map(Timestamp::as_ms);
    let incident = incident.clone();
    let stored = Stored {
        id: incident.id.as_str().to_owned(),
        kind: incident.kind,
        queue: incident.queue.map(|queue| queue.to_string()),
        key: incident.key,
        state: incident.state,
        job_type: incident.job_type,
        detail: incident.detail,
        count: incident.count,
        example: incident.example,
        since_ms: incident.since.as_ms(),
        opened_ms: ms(incident.opened),
        seen_ms: incident.seen.as_ms(),
        clear_since_ms: ms(incident.clear_since),
        resolved_ms: ms(incident.resolved),
        notices: incident.notices,
        resolving: incident.resolving,
        next_ms: ms(incident.next),
    };
    serde_json::to_string(&stored).expect("every key is a string, and no number is a fraction")
}

/// Reads what Redis holds.
pub(super) fn unpack(text: &str) -> Option<Incident> {
    let stored: Stored = serde_json::from_str(text).ok()?;
    let id: IncidentId = stored.id.parse().ok()?;
    let queue = stored.queue.map(|queue| queue.parse()).transpose().ok()?;
    Some(Incident {
        id,
        kind: stored.kind,
        queue,
        key: plain_line(&stored.key, MAX_KEY_BYTES),
        state: stored.state,
        job_type: plain_line(&stored.job_type, MAX_KEY_BYTES),
        detail: plain_line(&stored.detail, MAX_TEXT_BYTES),
        count: stored.count,
        example: stored.example.map(|example| IncidentExample::new(&example.job, &example.error)),
        since: timestamp(stored.since_ms),
        opened: stored.opened_ms.map(timestamp),
        seen: timestamp(stored.seen_ms),
        clear_since: stored.clear_since_ms.map(timestamp),
        resolved: stored.resolved_ms.map(timestamp),
        notices: stored.notices,
        resolving: stored.resolving,
        next: stored.next_ms.map(timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incident_survives_being_stored() {
        let incident = Incident {
            id: "0b5ff109".parse().unwrap(),
            kind: IncidentKind::DeadGroup,
            queue: Some("mail".parse().unwrap()),
            key: "00ff".to_owned(),
            state: IncidentState::Resolved,
            job_type: "mail.send".to_owned(),
            detail: "jobs die".to_owned(),
            count: 3,
            example: Some(IncidentExample::new("order-7", "no route\nto host")),
            since: timestamp(1_700_000_000_000),
            opened: Some(timestamp(1_700_000_000_001)),
            seen: timestamp(1_700_000_000_002),
            clear_since: None,
            resolved: Some(timestamp(1_700_000_000_003)),
            notices: 4,
            resolving: 3,
            next: Some(timestamp(1_700_000_000_004)),
        };
        assert_eq!(unpack(&pack(&incident)), Some(incident));
    }

    #[test]
    fn what_somebody_else_wrote_is_plain_and_chooses_no_command() {
        let text = r#"{"id":"0b5ff109","kind":"dead_group","state":"open","key":"x; rm -rf ~","detail":"a\nb\u001b[2J",
            "since_ms":1,"seen_ms":1}"#;
        let incident = unpack(text).unwrap();
        assert_eq!(incident.detail, "a b [2J");
        assert_eq!(incident.command(), "streamfleet dead groups");
    }

    #[test]
    fn what_cannot_be_read_is_no_incident() {
        for text in ["", "{}", "[]", r#"{"id":"x","kind":"backlog","state":"open","since_ms":1,"seen_ms":1}"#]
        {
            assert_eq!(unpack(text), None, "{text}");
        }
    }
}
