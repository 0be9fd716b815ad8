//! What all requests share.

use std::sync::Arc;

use streamfleet::config::Effective;
use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};

use super::access::{Gatekeeper, Mask};

/// What all requests share. Cloning is cheap.
#[derive(Clone)]
pub(super) struct Site(Arc<Shared>);

struct Shared {
    broker: Broker,
    effective: Effective,
    gatekeeper: Gatekeeper,
    mask: Mask,
}

impl Site {
    /// Serves what this broker has.
    pub(super) fn new(broker: Broker, effective: Effective, gatekeeper: Gatekeeper) -> Self {
        let mask = Mask::new(&effective.config.console.mask);
        Self(Arc::new(Shared { broker, effective, gatekeeper, mask }))
    }

    /// Who may use the console.
    pub(super) fn gatekeeper(&self) -> &Gatekeeper {
        &self.0.gatekeeper
    }

    /// The fields whose values nobody sees.
    pub(super) fn mask(&self) -> &Mask {
        &self.0.mask
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
