//! Sends each event of this process to every listener.

use std::fmt;
use std::sync::Arc;

use super::{Event, QueueEvent, RedisEvent};
use crate::job::QueueName;

type Listener = dyn Fn(&Event<'_>) + Send + Sync;

/// Sends events to every listener, in the order in which the listeners were given. Clones share the listeners.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use streamfleet::event::{Event, Events};
/// use streamfleet::{Fleet, FleetConfig};
///
/// let events = Events::new(vec![Arc::new(|event: &Event<'_>| {
///     if let Event::Failed { job, error, .. } = event {
///         eprintln!("{job} failed: {error}");
///     }
/// })]);
/// let fleet = Fleet::builder(FleetConfig::default()).events(events).build();
/// ```
#[derive(Clone, Default)]
pub struct Events {
    listeners: Arc<[Arc<Listener>]>,
}

impl Events {
    /// Creates events that go to these listeners. A listener must be quick, and must not block.
    pub fn new(listeners: Vec<Arc<Listener>>) -> Self {
        Self { listeners: listeners.into() }
    }

    /// Returns events that also go to one more listener.
    #[must_use]
    pub fn and(&self, listener: Arc<Listener>) -> Self {
        Self { listeners: self.listeners.iter().cloned().chain([listener]).collect() }
    }

    /// Reports to every listener that Redis did not do what was asked.
    #[doc(hidden)]
    pub fn redis_error(&self, kind: &str, error: &impl fmt::Display) {
        self.emit(&Event::Redis(RedisEvent::Error { kind, error: &error.to_string() }));
    }

    /// Reports to every listener what happened to a queue.
    pub fn of_queue(&self, queue: &QueueName, event: QueueEvent<'_>) {
        self.emit(&Event::Queue { queue, event });
    }

    /// Reports an event to every listener.
    pub fn emit(&self, event: &Event<'_>) {
        for listener in self.listeners.iter() {
            listener(event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Events({} listeners)", self.listeners.len())
    }
}
