//! The parts of a rehearsal about no queue: an incident opens, is acknowledged, and is over; and a person logs out of the console.

use super::super::alerts::incidents::IncidentChange;
use super::super::{Action, Incidents};
use super::{Error, LEASE, Rehearsal, expect_same};
use crate::job::incident::delivery::Delivery;
use crate::job::incident::{Incident, IncidentId, IncidentKind, IncidentState};

impl Rehearsal<'_> {
    /// Does what the process that sends messages does, and what a person does about an incident. On keys of its own.
    pub(super) async fn alert(&self) -> Result<(), Error> {
        let incidents = self.incidents();
        for key in incidents.keys() {
            self.note_key(key);
        }
        let (own, id) = ("the rehearsal", IncidentId::of(1));
        expect_same("lease", incidents.lead(own, LEASE).await?, true)?;
        let now = incidents.open().await?.now;
        let incident = Incident {
            id: id.clone(),
            kind: IncidentKind::Backlog,
            queue: Some(self.queue.name().clone()),
            key: String::new(),
            state: IncidentState::Open,
            job_type: String::new(),
            detail: "rehearsed".to_owned(),
            count: 1,
            example: None,
            since: now,
            opened: Some(now),
            seen: now,
            clear_since: None,
            resolved: None,
            notices: 1,
            resolving: 0,
            next: None,
        };
        let seen = IncidentChange::Seen(self.queue.name().clone(), Some("rehearsed".to_owned()));
        let opened = [IncidentChange::Put(Box::new(incident.clone())), seen];
        expect_same("incident_put", incidents.put(own, &opened).await?, Some(0))?;
        let sink = "rehearsal".parse().expect("a plain word is a valid name of a sink");
        let delivery = Delivery { handed: 1, given_up: 0 };
        incidents.note_deliveries(&sink, &[(id.clone(), delivery)]).await?;
        let known = incidents.acknowledge(&id, LEASE, &Action::new("rehearsal", own)).await?;
        expect_same("incident_ack", known.is_some(), true)?;
        let found = incidents.open().await?.incidents;
        expect_same("incidents", found.first().map(|known| known.incident.clone()), Some(incident.clone()))?;
        let over = [
            IncidentChange::End(Box::new(incident)),
            IncidentChange::Forget(id),
            IncidentChange::Seen(self.queue.name().clone(), None),
        ];
        expect_same("incident_put", incidents.put(own, &over).await?, Some(0))?;
        expect_same("the past incidents", incidents.past(None, 1).await?.len(), 1)?;
        incidents.audit(None, 1).await?;
        incidents.lead(own, std::time::Duration::ZERO).await.map(drop)
    }

    /// Ends a session of the console. On a key of the queue, because only consoles may access those of people.
    pub(super) async fn log_out(&self) -> Result<(), Error> {
        let key = self.queue.keys.receipt("session");
        self.note_key(key.clone());
        let ended = self.broker.ended_sessions_in(key);
        let ends_s = self.incidents().open().await?.now.as_ms() / 1000 + LEASE.as_secs();
        expect_same("session_ended", ended.contains("rehearsal", ends_s).await?, false)?;
        ended.end("rehearsal", ends_s).await?;
        expect_same("session_ended", ended.contains("rehearsal", ends_s).await?, true)
    }

    /// Incidents with keys in the slot of the queue that the rehearsal uses.
    fn incidents(&self) -> Incidents {
        self.broker.incidents_of(self.queue.name().as_str())
    }
}
