//! Reads the state of queues and servers, and says what is wrong now. What cannot be read is not covered: then nothing is known
//! about it, and its incidents stay as they are. Changes nothing.

mod history;
mod letters;
mod outbox;
mod queue;
mod rate;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::alerts::config::Config;
use crate::broker::{Broker, IncidentChange, KnownIncident, OpenIncidents};
use crate::job::incident::decide::Checked;
use crate::job::incident::{Incident, IncidentKind, IncidentState};
use crate::job::{EntryId, JobType, QueueName, Timestamp};
use rate::Deaths;
use streamfleet::event::Events;

/// How often the queues of the namespace are listed, which takes Redis a walk over all keys.
const LIST_EVERY: Duration = Duration::from_secs(600);

/// How long the check of one queue may take.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// The most queues that are checked.
const MAX_QUEUES: usize = 1000;

/// What is checked, besides the rules.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Watched {
    /// The queues that are checked in any case, each with how long a ready job may wait. Others of the namespace are checked as
    /// well, if the login may list keys.
    pub latencies: BTreeMap<QueueName, Duration>,
    /// How long a ready job may wait in other queues.
    pub latency: Duration,
    /// The types of which each dead job is an incident of its own.
    pub each: BTreeSet<JobType>,
}

impl Watched {
    /// Returns no queue and no type, with a time that a ready job may wait in any queue.
    pub fn new(latency: Duration) -> Self {
        Self { latencies: BTreeMap::new(), latency, each: BTreeSet::new() }
    }

    setters! {
        /// Sets the queues that are checked in any case, each with how long a ready job may wait.
        latencies: impl IntoIterator<Item = (QueueName, Duration)> => latencies.into_iter().collect();
        /// Sets the types of which each dead job is an incident of its own.
        each: impl IntoIterator<Item = JobType> => each.into_iter().collect();
    }
}

/// Checks everything, and remembers what one check must know of the ones before.
pub(super) struct Observer {
    broker: Broker,
    config: Arc<Config>,
    watched: Arc<Watched>,
    events: Events,
    /// The queues of the namespace, if they could be listed, and when to list them again.
    listed: Option<BTreeSet<QueueName>>,
    list_at: Instant,
    memory: BTreeMap<QueueName, Memory>,
}

/// What the checks of a queue remember in this process.
#[derive(Default)]
struct Memory {
    deaths: Deaths,
    /// When a dead job last got no incident of its own.
    others: Option<Timestamp>,
    /// Campaigns that are over and of no interest.
    campaigns: BTreeSet<String>,
}

/// What the checks of a queue remember in Redis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    /// When it was last checked.
    checked: Option<Timestamp>,
    /// The last dead letter that was looked at.
    letter: Option<EntryId>,
}

impl Seen {
    fn read(text: &str) -> Self {
        let mut parts = text.split(' ');
        let mut part = || parts.next();
        let checked = part().and_then(|ms| ms.parse().ok()).and_then(Timestamp::from_ms);
        Self { checked, letter: part().and_then(|entry| entry.parse().ok()) }
    }

    fn write(self) -> String {
        let checked = self.checked.unwrap_or_default().as_ms();
        self.letter.map_or_else(|| checked.to_string(), |letter| format!("{checked} {letter}"))
    }
}

/// The check of one queue.
struct QueueCheck<'a> {
    queue: crate::broker::Queue,
    config: &'a Config,
    watched: &'a Watched,
    known: Vec<&'a Incident>,
    /// Those of which a person knows.
    acknowledged: Vec<&'a Incident>,
    seen: Seen,
    memory: &'a mut Memory,
    checked: Checked,
}

impl Observer {
    pub(super) fn new(broker: Broker, config: Arc<Config>, watched: Arc<Watched>, events: Events) -> Self {
        let (listed, list_at, memory) = (None, Instant::now(), BTreeMap::new());
        Self { broker, config, watched, events, listed, list_at, memory }
    }

    /// Checks everything. Also returns what the next checks must remember.
    pub(super) async fn check(&mut self, known: &OpenIncidents) -> (Checked, Vec<IncidentChange>) {
        self.list().await;
        let queues = self.queues(known);
        self.memory.retain(|queue, _| queues.contains(queue));
        let (mut all, mut seen) = (Checked::default(), Vec::new());
        for queue in &queues {
            let before = known.seen.get(queue).map(|text| Seen::read(text)).unwrap_or_default();
            if let Some((checked, after)) = self.check_queue(queue, known, before).await {
                all.observations.extend(checked.observations);
                all.covered.extend(checked.covered);
                if after != before {
                    seen.push(IncidentChange::Seen(queue.clone(), Some(after.write())));
                }
            }
        }
        self.cover_deleted(known, &queues, &mut all, &mut seen);
        let servers = server::check(&self.broker, &self.config, known.now).await;
        for checked in [servers, outbox::check(&self.broker, known.now).await] {
            match checked {
                Ok(checked) => {
                    all.observations.extend(checked.observations);
                    all.covered.extend(checked.covered);
                }
                Err(error) => self.events.redis_error(error.kind(), &error),
            }
        }
        all.observations.retain(|seen| !self.config.off.contains(&seen.kind));
        all.covered.extend(self.config.off.iter().map(|kind| (*kind, None)));
        for queue in &queues {
            all.covered.extend(self.config.off.iter().map(|kind| (*kind, Some(queue.clone()))));
        }
        (all, seen)
    }

    /// Returns what is wrong with a queue and what the next check must remember; `None` if Redis does not tell.
    async fn check_queue(
        &mut self,
        queue: &QueueName,
        known: &OpenIncidents,
        seen: Seen,
    ) -> Option<(Checked, Seen)> {
        let of_queue = |known: &&KnownIncident| {
            let incident = &known.incident;
            incident.queue.as_ref() == Some(queue) && incident.state != IncidentState::Resolved
        };
        let of_queue: Vec<&KnownIncident> = known.incidents.iter().filter(of_queue).collect();
        let acknowledged = of_queue.iter().filter(|known| known.acknowledged.is_some());
        let mut check = QueueCheck {
            queue: self.broker.queue(queue.clone()),
            config: &self.config,
            watched: &self.watched,
            known: of_queue.iter().map(|known| &known.incident).collect(),
            acknowledged: acknowledged.map(|known| &known.incident).collect(),
            seen,
            memory: self.memory.entry(queue.clone()).or_default(),
            checked: Checked::default(),
        };
        match tokio::time::timeout(QUEUE_TIMEOUT, check.run()).await {
            Ok(outcome) => {
                if let Err(error) = outcome {
                    self.events.redis_error(error.kind(), &error);
                }
                Some((check.checked, check.seen))
            }
            Err(_) => {
                tracing::warn!(%queue, "the check of a queue for incidents took too long; trying again");
                None
            }
        }
    }

    /// Lists the queues of the namespace from time to time. A login that may not list keys checks those it knows.
    async fn list(&mut self) {
        if Instant::now() < self.list_at {
            return;
        }
        self.list_at = Instant::now() + LIST_EVERY;
        match self.broker.queues().await {
            Ok(found) if found.missing.is_empty() => {
                self.listed = Some(found.found.into_iter().take(MAX_QUEUES).collect());
            }
            Ok(_) => self.listed = None,
            Err(error) => {
                tracing::debug!(%error, "cannot list the queues; checking those that are configured");
                self.listed = None;
            }
        }
    }

    fn queues(&self, known: &OpenIncidents) -> BTreeSet<QueueName> {
        let mut queues: BTreeSet<QueueName> = self.watched.latencies.keys().cloned().collect();
        match &self.listed {
            Some(listed) => queues.extend(listed.iter().cloned()),
            None => queues.extend(known.incidents.iter().filter_map(|known| known.incident.queue.clone())),
        }
        queues
    }

    /// Nothing is wrong with a queue that does not exist any more.
    fn cover_deleted(
        &self,
        known: &OpenIncidents,
        queues: &BTreeSet<QueueName>,
        all: &mut Checked,
        seen: &mut Vec<IncidentChange>,
    ) {
        if self.listed.is_none() {
            return;
        }
        let deleted = known.incidents.iter().filter_map(|known| known.incident.queue.as_ref());
        for queue in deleted.filter(|queue| !queues.contains(*queue)) {
            all.covered.extend(IncidentKind::ALL.map(|kind| (kind, Some(queue.clone()))));
        }
        let forgotten = known.seen.keys().filter(|queue| !queues.contains(*queue));
        seen.extend(forgotten.map(|queue| IncidentChange::Seen(queue.clone(), None)));
    }
}

/// A number of jobs, as in `1 job` and `2 jobs`.
fn jobs(count: u64) -> String {
    format!("{count} job{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_remembers_survives_being_stored() {
        for seen in [
            Seen { checked: Timestamp::from_ms(7), letter: None },
            Seen { checked: Timestamp::from_ms(7), letter: Some(EntryId::new(5, 1)) },
        ] {
            assert_eq!(Seen::read(&seen.write()), seen);
        }
        assert_eq!(Seen::read("rehearsed"), Seen::default());
        assert_eq!(Seen::read(""), Seen::default());
    }
}
