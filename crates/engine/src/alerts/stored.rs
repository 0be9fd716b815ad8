//! What Redis holds about an incident: JSON. What cannot be read belongs to another version, and is left alone. Texts are cut
//! and made plain again, because anybody with access to Redis may have written them.

use crate::job::incident::line::{MAX_KEY_BYTES, MAX_TEXT_BYTES, plain_line};
use crate::job::incident::{Incident, IncidentExample};

pub(super) fn pack(incident: &Incident) -> String {
    serde_json::to_string(incident).expect("every key is a string, and no number is a fraction")
}

/// Returns `None` for what this version cannot read.
pub(super) fn unpack(text: &str) -> Option<Incident> {
    let incident: Incident = serde_json::from_str(text).ok()?;
    Some(Incident {
        key: plain_line(&incident.key, MAX_KEY_BYTES),
        job_type: plain_line(&incident.job_type, MAX_KEY_BYTES),
        detail: plain_line(&incident.detail, MAX_TEXT_BYTES),
        example: incident.example.map(|example| IncidentExample::new(&example.job, &example.error)),
        ..incident
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::decode::timestamp;
    use crate::job::incident::{IncidentKind, IncidentState};

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
