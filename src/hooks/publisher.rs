//! Writes facts into the streams `events`: in batches, a few times a second at most. It never insists: what Redis does not
//! take is dropped and counted, and after an error it pauses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::fact::Fact;
use super::outlet::Intake;
use crate::broker::{Broker, Error};
use crate::event::{Event, Events, Told};
use crate::job::QueueName;

/// Facts gather for so long.
const GATHER: Duration = Duration::from_millis(250);

/// The most facts of one batch over all queues.
const BATCH: usize = 2000;

/// The most events that one script appends.
const SCRIPT: usize = 500;

/// The pauses after errors begin and end with these.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The last batch gets so long when the process stops.
const LAST: Duration = Duration::from_secs(2);

/// Publishes facts.
pub(super) struct Publisher {
    pub(super) broker: Broker,
    pub(super) max_length: u64,
    pub(super) events: Events,
}

impl Publisher {
    /// Publishes until stopped, and then what is there.
    pub(super) async fn run(self, mut intake: Intake, stop: CancellationToken) {
        let mut pause = PAUSES.0;
        let mut batch = Vec::new();
        loop {
            let open = tokio::select! {
                biased;
                () = stop.cancelled() => false,
                count = intake.facts.recv_many(&mut batch, BATCH) => count > 0,
            };
            if !open {
                break;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(GATHER) => {}
            }
            if self.publish(&mut batch, &mut intake).await {
                pause = PAUSES.0;
                continue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause.mul_f64(0.5 + rand::random::<f64>())) => {}
            }
            pause = (2 * pause).min(PAUSES.1);
            // The time of an event is the time of its entry, so what is old by now would lie.
            self.note_dropped(intake.discard());
        }
        // What is not taken in time is lost with the process, uncounted.
        drop(tokio::time::timeout(LAST, self.publish(&mut batch, &mut intake)).await);
    }

    /// Publishes what there is. False where Redis did not take all of it.
    async fn publish(&self, batch: &mut Vec<Arc<Fact>>, intake: &mut Intake) -> bool {
        while batch.len() < BATCH {
            match intake.facts.try_recv() {
                Ok(fact) => batch.push(fact),
                Err(_) => break,
            }
        }
        self.note_dropped(intake.dropped());
        let mut queues: BTreeMap<&QueueName, Vec<&Fact>> = BTreeMap::new();
        for fact in batch.iter() {
            queues.entry(fact.queue()).or_default().push(fact);
        }
        let scripts =
            queues.iter().flat_map(|(queue, facts)| facts.chunks(SCRIPT).map(|facts| (*queue, facts)));
        let sent = join_all(scripts.map(|(queue, facts)| self.send(queue, facts))).await;
        batch.clear();
        sent.into_iter().all(|sent| sent.is_ok())
    }

    async fn send(&self, queue: &QueueName, facts: &[&Fact]) -> Result<(), Error> {
        let events: Vec<_> = facts.iter().map(|fact| fact.fields()).collect();
        let sent = self.broker.queue(queue.clone()).publish(self.max_length, &events).await;
        let facts = facts.len() as u64;
        match &sent {
            Ok(()) => self.events.tell(&Event::Published { events: facts }),
            Err(error) => {
                self.events.redis_error(error.kind(), error);
                self.note_dropped(facts);
            }
        }
        sent
    }

    fn note_dropped(&self, facts: u64) {
        if facts > 0 {
            self.events.tell(&Event::Untold { whom: Told::Stream, facts });
        }
    }
}
