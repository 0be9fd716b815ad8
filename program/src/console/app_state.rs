//! What all requests share.

use std::sync::Arc;

use streamfleet::job::QueueName;
use streamfleet::schema::Schemas;
use streamfleet::{Broker, Producer, Queue, Shutdown};
use streamfleet_service::config::Effective;

use super::access::{Gatekeeper, Mask};
use super::api::WorkLimits;
use super::directory::{Directory, Known};
use super::problem::Problem;
use crate::enqueue;

/// What all requests share. Cloning is cheap.
#[derive(Clone)]
pub(super) struct AppState(Arc<Shared>);

struct Shared {
    broker: Broker,
    effective: Effective,
    schemas: Schemas,
    gatekeeper: Gatekeeper,
    mask: Mask,
    directory: Directory,
    work_limits: WorkLimits,
    stopping: Shutdown,
}

impl AppState {
    /// Serves what this broker has, until the shutdown is requested.
    pub(super) fn new(
        broker: Broker,
        (effective, schemas): (Effective, Schemas),
        gatekeeper: Gatekeeper,
        stopping: Shutdown,
    ) -> Self {
        let mask = Mask::new(&effective.config.console.mask);
        let (directory, work_limits) = (Directory::default(), WorkLimits::default());
        Self(Arc::new(Shared {
            broker,
            effective,
            schemas,
            gatekeeper,
            mask,
            directory,
            work_limits,
            stopping,
        }))
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

    /// Submits and changes the jobs of a queue, with its limits and the schemas of types.
    pub(super) fn producer(&self, queue: Queue) -> Producer {
        enqueue::producer(queue, self.effective()).schemas(self.schemas().clone())
    }

    /// The schemas of types, as they were when the console started.
    pub(super) fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }

    /// The work that requests share or wait for.
    pub(super) fn work_limits(&self) -> &WorkLimits {
        &self.0.work_limits
    }

    /// The shutdown that stops the console.
    pub(super) fn stopping(&self) -> &Shutdown {
        &self.0.stopping
    }

    /// The configuration in effect.
    pub(super) fn effective(&self) -> &Effective {
        &self.0.effective
    }

    /// The queues and workers that Redis knew a moment ago.
    ///
    /// # Errors
    ///
    /// [`Problem`] if Redis does not answer or refuses.
    pub(super) async fn known(&self) -> Result<Arc<Known>, Problem> {
        let known = self.0.directory.look(self.broker()).await;
        known.map_err(|error| Problem::redis("the queues and workers could not be listed", &error))
    }
}
