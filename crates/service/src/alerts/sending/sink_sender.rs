//! A sink sender brings messages to one sink: those that Redis does not say the sink has got. A sink that does not answer delays only
//! its own sink sender. If much has piled up, it becomes one message.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::checker::Shown;
use super::message::Sender;
use super::pace::Pace;
use super::sinks::{Answer, Sink};
use crate::broker::Incidents;
use crate::job::incident::delivery::Delivery;
use crate::job::incident::{Incident, IncidentId};
use crate::job::{Timestamp, jittered};
use streamfleet::event::{AlertEvent, Event, Events};

/// How many incidents have a message of their own if they come at once. More share one.
const MOST_ALONE: usize = 3;

/// The most incidents in one message. The others follow.
const MOST_AT_ONCE: usize = 300;

/// The pauses before a message that was not taken is sent again. Then it is given up until the next reminder.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];

/// The pause before Redis is asked again to note what was delivered.
const NOTE_PAUSE: Duration = Duration::from_secs(2);

/// Brings messages to one sink.
pub(super) struct SinkSender {
    pub(super) sink: Sink,
    pub(super) sender: Sender,
    pub(super) incidents: Incidents,
    pub(super) events: Events,
    pub(super) shown: watch::Receiver<Shown>,
    /// Until when this process surely is the one that sends.
    pub(super) until: watch::Receiver<Instant>,
    pub(super) pace: Pace,
    /// What was delivered, of incidents that are not over.
    pub(super) done: BTreeMap<IncidentId, Delivery>,
}

impl SinkSender {
    /// Delivers until stopped. A message that is under way when it is stopped is finished and noted.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let due = self.due();
            if due.is_empty() {
                let Some(Ok(())) = stop.run_until_cancelled(self.shown.changed()).await else { return };
                continue;
            }
            if let Err(wait) = self.pace.take(Instant::now()) {
                let Some(()) = stop.run_until_cancelled(tokio::time::sleep(wait)).await else { return };
                continue;
            }
            let batch = if due.len() <= MOST_ALONE { &due[..1] } else { &due[..due.len().min(MOST_AT_ONCE)] };
            let Some(is_handed) = self.deliver(batch, &stop).await else { return };
            self.note(batch, is_handed, &stop).await;
        }
    }

    /// Returns the incidents about which the sink is to get a message now, those that opened first first.
    fn due(&mut self) -> Vec<Incident> {
        let shown = self.shown.borrow_and_update().clone();
        let is_there = |id: &IncidentId| shown.incidents.iter().any(|known| known.incident.id == *id);
        self.done.retain(|id, _| is_there(id));
        let due = shown.incidents.iter().filter(|known| {
            let noted = known.deliveries.get(&self.sink.name).copied().unwrap_or_default();
            let own = self.done.get(&known.incident.id).copied().unwrap_or_default();
            noted.with(own).is_due(&known.incident)
        });
        due.map(|known| known.incident.clone()).collect()
    }

    /// Sends one message, several times if need be. Returns whether the sink has taken it; `None` if it was stopped before.
    async fn deliver(&mut self, incidents: &[Incident], stop: &CancellationToken) -> Option<bool> {
        let mut pauses = PAUSES.into_iter();
        loop {
            self.surely_sends(stop).await?;
            let message = self.sender.message(incidents, self.now());
            let sink = &self.sink.name;
            let (pause, why) = match self.sink.send(&message).await {
                Answer::Accepted { said: _ } => {
                    self.events.emit(&Event::Alert(AlertEvent::Sent { sink, incidents: incidents.len() }));
                    return Some(true);
                }
                Answer::Refused { why } => (None, why),
                Answer::Later { pause, why } => match pauses.next() {
                    Some(usual) => (Some(pause.map_or(usual, |wanted| wanted.max(usual))), why),
                    None => (None, why),
                },
            };
            self.events.emit(&Event::Alert(AlertEvent::Failed {
                sink,
                why: &why,
                is_given_up: pause.is_none(),
            }));
            let Some(pause) = pause else { return Some(false) };
            let pause = jittered(pause, 1.0..1.25, rand::random());
            stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
        }
    }

    /// Waits until this process surely is the one that sends; `None` if it was stopped before.
    async fn surely_sends(&mut self, stop: &CancellationToken) -> Option<()> {
        loop {
            if stop.is_cancelled() {
                return None;
            }
            if Instant::now() < *self.until.borrow_and_update() {
                return Some(());
            }
            stop.run_until_cancelled(self.until.changed()).await?.ok()?;
        }
    }

    /// Notes in Redis what became of a message. Until that is done, this process remembers it.
    async fn note(&mut self, incidents: &[Incident], is_handed: bool, stop: &CancellationToken) {
        let delivery = |incident: &Incident| {
            let notice = incident.notices;
            let (handed, given_up) = if is_handed { (notice, 0) } else { (0, notice) };
            (incident.id.clone(), Delivery { handed, given_up })
        };
        let deliveries: Vec<_> = incidents.iter().map(delivery).collect();
        for (id, delivery) in &deliveries {
            let before = self.done.get(id).copied().unwrap_or_default();
            self.done.insert(id.clone(), before.with(*delivery));
        }
        while let Err(error) = self.incidents.note_deliveries(&self.sink.name, &deliveries).await {
            self.events.redis_error(error.kind(), &error);
            // One last try was made; what is not noted is sent again by the next process.
            if stop.is_cancelled() {
                return;
            }
            stop.run_until_cancelled(tokio::time::sleep(NOTE_PAUSE)).await;
        }
    }

    fn now(&self) -> Timestamp {
        self.shown.borrow().now
    }
}
