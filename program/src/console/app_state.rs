//! What all requests share.

use std::sync::Arc;

use streamfleet::job::QueueName;
use streamfleet::schema::Schemas;
use streamfleet::{Broker, Producer, Queue, Shutdown};
use streamfleet_operations::jobs::search::Past;
use streamfleet_service::config::Effective;
use streamfleet_sql::{Database, LazyDatabase, Options};

use super::access::{Gatekeeper, Mask, Person};
use super::api::WorkLimits;
use super::directory::{Directory, Known};
use super::problem::Problem;
use crate::enqueue;

/// A handle of what all requests share. Cloning is cheap.
pub(super) type AppState = Arc<Shared>;

/// What all requests share.
pub(super) struct Shared {
    /// The connection to Redis.
    pub(super) broker: Broker,
    /// The configuration in effect.
    pub(super) effective: Effective,
    /// The schemas of types, as they were when the console started.
    pub(super) schemas: Schemas,
    /// Who may use the console.
    pub(super) gatekeeper: Gatekeeper,
    /// The fields whose values nobody sees …
    pub(super) mask_for_all: Mask,
    /// … and those whose values only operators see, with them.
    pub(super) guarding_mask: Mask,
    /// The work that requests share or wait for.
    pub(super) work_limits: WorkLimits,
    /// The shutdown that stops the console.
    pub(super) stopping: Shutdown,
    directory: Directory,
    /// The database of the history, if one is configured.
    history: Option<Arc<LazyDatabase>>,
}

impl Shared {
    /// Serves what this broker has, until the shutdown is requested.
    pub(super) fn new(
        broker: Broker,
        (effective, schemas): (Effective, Schemas),
        gatekeeper: Gatekeeper,
        stopping: Shutdown,
    ) -> Arc<Self> {
        let console = &effective.config.console;
        let history = effective.config.history.clone();
        Arc::new(Self {
            broker,
            mask_for_all: Mask::new(&console.mask),
            guarding_mask: Mask::new(console.mask.iter().chain(&console.secrets)),
            effective,
            schemas,
            gatekeeper,
            work_limits: WorkLimits::default(),
            stopping,
            directory: Directory::default(),
            history: history
                .map(|config| Arc::new(LazyDatabase::new(move || config.address(), Options::reading()))),
        })
    }

    /// The fields whose values this person does not see.
    pub(super) fn mask_for(&self, person: &Person) -> &Mask {
        if person.sees_secrets() { &self.mask_for_all } else { &self.guarding_mask }
    }

    /// One queue.
    pub(super) fn queue(&self, name: QueueName) -> Queue {
        self.broker.queue(name)
    }

    /// Submits and changes the jobs of a queue, with its limits and the schemas of types.
    pub(super) fn producer(&self, queue: Queue) -> Producer {
        enqueue::producer(queue, &self.effective).schemas(self.schemas.clone())
    }

    /// The database of the history.
    ///
    /// # Errors
    ///
    /// [`Problem`] if none is configured, or it cannot be reached.
    pub(super) async fn history(&self) -> Result<&Database, Problem> {
        let Some(history) = &self.history else {
            let why = "no history is configured: add [history] to the configuration of the console";
            return Err(Problem::not_found(why));
        };
        history.get().await.map_err(|error| Problem::database("the history cannot be read", &error))
    }

    /// Where a search finds jobs that Redis no longer has, if a history is configured.
    pub(super) fn past(&self) -> Option<Past> {
        self.history.clone().map(Past::new)
    }

    /// The queues and workers that Redis knew a moment ago.
    ///
    /// # Errors
    ///
    /// [`Problem`] if Redis does not answer or refuses.
    pub(super) async fn known(&self) -> Result<Arc<Known>, Problem> {
        let known = self.directory.look(&self.broker).await;
        known.map_err(|error| Problem::redis("the queues and workers could not be listed", &error))
    }
}
