//! The series of Redis, as this process sees it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge};
use rustc_hash::FxHashMap;
use streamfleet_engine::mutex::lock;

use super::Maker;
use crate::broker::{self, RedisMemory};
use crate::job::QueueName;
use crate::telemetry::catalogue;
use crate::telemetry::histogram::Histogram;
use streamfleet::event::RedisEvent;

/// The series of Redis.
pub(in super::super) struct RedisSeries {
    up: Gauge,
    reconnects: Counter,
    errors: [Counter; broker::Error::KINDS.len()],
    commands: FxHashMap<&'static str, Arc<Histogram>>,
    other: Arc<Histogram>,
    memory_used: Gauge,
    memory_max: Gauge,
    eviction_safe: Gauge,
    /// The queues that this process leads.
    led: Mutex<BTreeSet<QueueName>>,
}

impl RedisSeries {
    pub(in super::super) fn new(maker: &Maker<'_>) -> Self {
        let command = |name| (name, maker.histogram(&catalogue::COMMANDS, &[name]));
        let commands: FxHashMap<_, _> = broker::COMMANDS.into_iter().map(command).collect();
        Self {
            up: maker.gauge(&catalogue::REDIS_UP, &[]),
            reconnects: maker.counter(&catalogue::RECONNECTS, &[]),
            errors: broker::Error::KINDS.map(|kind| maker.counter(&catalogue::REDIS_ERRORS, &[kind])),
            other: Arc::clone(&commands["other"]),
            commands,
            memory_used: maker.gauge(&catalogue::MEMORY_USED, &[]),
            memory_max: maker.gauge(&catalogue::MEMORY_MAX, &[]),
            eviction_safe: maker.gauge(&catalogue::EVICTION_SAFE, &[]),
            led: Mutex::default(),
        }
    }

    /// Records an event between this process and Redis.
    pub(in super::super) fn record(&self, event: RedisEvent<'_>) {
        match event {
            RedisEvent::Error { kind, error: _ } => self.error(kind),
            RedisEvent::RoundTrip { command, took } => self.trip(command, took),
            RedisEvent::Reconnected { times } => self.reconnects.increment(times),
            RedisEvent::Contact { alive } => self.up.set(f64::from(u8::from(alive))),
        }
    }

    /// Counts an error.
    fn error(&self, kind: &str) {
        if let Some(at) = broker::Error::KINDS.iter().position(|known| *known == kind) {
            self.errors[at].increment(1);
        }
    }

    /// Counts a round trip.
    fn trip(&self, command: &str, took: Duration) {
        self.commands.get(command).unwrap_or(&self.other).record(took.as_secs_f64());
    }

    /// Records what Redis reports about its memory.
    pub(in super::super) fn memory(&self, memory: RedisMemory) {
        self.memory_used.set(memory.used as f64);
        self.memory_max.set(memory.max as f64);
        self.eviction_safe.set(f64::from(u8::from(memory.is_eviction_safe)));
    }

    /// Records whether this process leads a queue. A process that leads none knows nothing about the memory.
    pub(in super::super) fn lead(&self, queue: &QueueName, leading: bool) {
        let mut led = lock(&self.led);
        if leading {
            led.insert(queue.clone());
        } else {
            led.remove(queue);
        }
        if led.is_empty() {
            self.memory(RedisMemory::default());
        }
    }
}
