//! What the relay of an outbox reports: figures to this process and to Redis, and why rows wait. Those who look for incidents read it there.

use std::time::{Duration, Instant};

use streamfleet::event::{DatabaseEvent, Event, Events, OutboxReport};
use streamfleet::{Broker, RedisError};
use streamfleet_engine::OutboxState;
use streamfleet_sql::outbox::Waiting;

use super::relay::Trouble;

/// How often the rows are counted, and Redis is told.
const EVERY: Duration = Duration::from_secs(10);

/// What a relay reports.
pub(super) struct Report<'a> {
    broker: &'a Broker,
    events: &'a Events,
    looked: Option<Instant>,
    /// Whether the outbox could not be read or written the last time.
    is_failing: bool,
    /// What Redis was told last, or has from an earlier process.
    told: Option<OutboxState>,
}

impl<'a> Report<'a> {
    pub(super) fn new(broker: &'a Broker, events: &'a Events) -> Self {
        Self { broker, events, looked: None, is_failing: false, told: None }
    }

    /// Reports rows that became jobs, or never will.
    pub(super) fn relayed(&self, rows: usize, refused: usize) {
        self.emit(DatabaseEvent::Relayed { rows: rows as u64, refused: refused as u64 });
    }

    /// Whether it is time to count the rows.
    pub(super) fn is_due(&self) -> bool {
        self.is_failing || self.looked.is_none_or(|at| at.elapsed() >= EVERY)
    }

    /// Another process relays the outbox.
    pub(super) fn leave(&mut self) {
        if self.told.take().is_some() {
            self.emit(DatabaseEvent::OutboxLeft);
        }
        self.looked = None;
    }

    /// Tells what waits, and why a queue takes no rows, if there is one.
    pub(super) async fn waiting(&mut self, waiting: Waiting, why: Option<String>) -> Result<(), RedisError> {
        (self.looked, self.is_failing) = (Some(Instant::now()), false);
        if why.is_some() {
            self.emit(DatabaseEvent::OutboxFailed { class: "redis" });
        }
        let report = OutboxReport {
            rows: waiting.rows,
            refused: waiting.refused,
            oldest: Duration::from_millis(waiting.oldest_ms.unwrap_or(0)),
        };
        self.emit(DatabaseEvent::Outbox { waiting: report });
        let now = self.clock().await?;
        let since = self.told.as_ref().and_then(|told| told.failing_since_ms);
        let state = OutboxState {
            at_ms: now,
            failing_since_ms: why.is_some().then(|| since.unwrap_or(now)),
            error: why.unwrap_or_default(),
            rows: waiting.rows,
            refused: waiting.refused,
            oldest_ms: waiting.oldest_ms.map(|age| now.saturating_sub(age)),
        };
        self.tell(state).await
    }

    /// Tells why rows wait. How many there are may not be known then: what was known before stays.
    pub(super) async fn failed(&mut self, trouble: &Trouble) -> Result<(), RedisError> {
        self.is_failing = true;
        self.emit(DatabaseEvent::OutboxFailed { class: trouble.class });
        let known = match self.told.clone() {
            Some(told) => told,
            None => self.broker.outbox_state().await?.unwrap_or_default(),
        };
        let now = self.clock().await?;
        let since = Some(known.failing_since_ms.unwrap_or(now));
        self.tell(OutboxState { at_ms: now, error: trouble.why.clone(), failing_since_ms: since, ..known })
            .await
    }

    async fn tell(&mut self, state: OutboxState) -> Result<(), RedisError> {
        self.broker.note_outbox(&state).await?;
        self.told = Some(state);
        Ok(())
    }

    async fn clock(&self) -> Result<u64, RedisError> {
        // Any queue may ask for the time.
        let any = "default".parse().expect("default is a valid queue name");
        Ok(self.broker.queue(any).clock().await?.as_ms())
    }

    fn emit(&self, event: DatabaseEvent<'_>) {
        self.events.emit(&Event::Database(event));
    }
}
