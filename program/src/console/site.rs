//! What all requests share.

use std::sync::Arc;

use streamfleet::config::Effective;
use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};

/// What all requests share. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Site(Arc<Shared>);

struct Shared {
    broker: Broker,
    effective: Effective,
}

impl Site {
    /// Serves what this broker has.
    pub(super) fn new(broker: Broker, effective: Effective) -> Self {
        Self(Arc::new(Shared { broker, effective }))
    }

    /// The connection to Redis.
    pub(super) fn broker(&self) -> &Broker {
        &self.0.broker
    }

    /// One queue.
    pub(super) fn queue(&self, name: QueueName) -> Queue {
        self.broker().queue(name)
    }

    /// The configuration in effect.
    pub(super) fn effective(&self) -> &Effective {
        &self.0.effective
    }
}
