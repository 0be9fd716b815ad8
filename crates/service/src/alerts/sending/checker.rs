//! The check: reads what is known and what is wrong, writes down what follows, and shows it to the sink senders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::observe::Observer;
use crate::alerts::config::Config;
use crate::broker::{Error, IncidentChange, Incidents, KnownIncident, OpenIncidents};
use crate::job::SinkName;
use crate::job::incident::decide::{Standing, Timing, Transition, decide};
use crate::job::incident::{IncidentKind, IncidentState};
use streamfleet::chore::Chore;
use streamfleet::event::{AlertEvent, Event, Events};

/// What the sink senders see: the incidents that are not over.
pub(super) type Shown = Arc<OpenIncidents>;

/// Checks, again and again.
pub(super) struct Checker {
    pub(super) observer: Observer,
    pub(super) incidents: Incidents,
    pub(super) config: Arc<Config>,
    /// The name under which this process sends.
    pub(super) own: String,
    pub(super) events: Events,
    pub(super) shown: watch::Sender<Shown>,
}

impl Checker {
    /// Checks until stopped. A check that fails is repeated.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut chore = Chore::every(self.config.every, &self.events, &stop).jitter(0.9..1.1);
        while chore.tick().await {
            chore.note(self.check().await);
        }
    }

    async fn check(&mut self) -> Result<(), Error> {
        let mut known = self.incidents.open().await?;
        let (checked, seen) = self.observer.check(&known).await;
        // Checking takes a while; ages count from now on.
        let after = self.incidents.open().await?;
        known.now = after.now;
        known.incidents = after.incidents;
        let before: Vec<_> =
            known.incidents.iter().map(|known| (known.incident.clone(), self.standing(known))).collect();
        let decision = decide(&before, checked, &timing(&self.config), known.now, rand::random);
        let transitions = decision.transitions;
        let mut changes: Vec<IncidentChange> = transitions.iter().map(change).collect();
        // Last: if this ends in the middle, the next check sees the same again.
        changes.extend(seen);
        let Some(left_out) = self.incidents.put(&self.own, &changes).await? else { return Ok(()) };
        let left_out = left_out + decision.left_out as u64;
        if left_out > 0 {
            tracing::warn!(left_out, "there are too many open incidents; some are not kept");
        }
        for transition in transitions {
            self.apply(&mut known, transition);
        }
        self.report(&known);
        self.shown.send_replace(Arc::new(known));
        Ok(())
    }

    fn standing(&self, known: &KnownIncident) -> Standing {
        let got = |sink: &SinkName| known.deliveries.get(sink).copied().unwrap_or_default();
        Standing {
            acknowledged_until: known.acknowledged.as_ref().map(|by| by.until),
            is_delivered: self.config.sinks.keys().all(|sink| got(sink).is_complete(&known.incident)),
        }
    }

    fn apply(&self, known: &mut OpenIncidents, transition: Transition) {
        match transition {
            Transition::Put { incident, is_news } => {
                if is_news {
                    self.events.emit(&Event::Alert(AlertEvent::IncidentChanged { incident: &incident }));
                }
                match known.incidents.iter_mut().find(|known| known.incident.id == incident.id) {
                    Some(one) => one.incident = incident,
                    None => known.incidents.push(KnownIncident::new(incident)),
                }
            }
            Transition::End(incident) => known.incidents.retain(|known| known.incident.id != incident.id),
            Transition::Forget(id) => known.incidents.retain(|known| known.incident.id != id),
        }
    }

    fn report(&self, known: &OpenIncidents) {
        let mut open: BTreeMap<IncidentKind, u64> = BTreeMap::new();
        for known in known.incidents.iter().filter(|known| known.incident.state == IncidentState::Open) {
            *open.entry(known.incident.kind).or_default() += 1;
        }
        for kind in IncidentKind::ALL {
            self.events.emit(&Event::Alert(AlertEvent::Incidents {
                kind,
                open: open.get(&kind).copied().unwrap_or(0),
            }));
        }
    }
}

/// Reports that this process no longer knows of any incident.
pub(super) fn report_none(events: &Events) {
    for kind in IncidentKind::ALL {
        events.emit(&Event::Alert(AlertEvent::Incidents { kind, open: 0 }));
    }
}

fn change(transition: &Transition) -> IncidentChange {
    match transition {
        Transition::Put { incident, is_news: _ } => IncidentChange::Put(Box::new(incident.clone())),
        Transition::End(incident) => IncidentChange::End(Box::new(incident.clone())),
        Transition::Forget(id) => IncidentChange::Forget(id.clone()),
    }
}

fn timing(config: &Config) -> Timing {
    let Config { no_worker_for, unserved_for, remind_after, remind_most, resolve_after, .. } = *config;
    Timing { no_worker_for, unserved_for, remind_after, remind_most, resolve_after }
}

/// How long a process that sends keeps its place without renewing it.
pub(super) const LEASE: Duration = Duration::from_secs(15);
