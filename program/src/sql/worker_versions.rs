//! Which version a worker has: what its heartbeat says, remembered for when the worker is gone.

use std::collections::{BTreeSet, HashMap};

use streamfleet::job::ConsumerName;
use streamfleet::{Broker, RedisError};

/// How many workers are remembered. Beyond that, all are forgotten, and those that live are asked again.
const MOST: usize = 10_000;

/// The versions of workers by their consumer names.
#[derive(Debug, Default)]
pub(super) struct WorkerVersions {
    known: HashMap<String, String>,
}

impl WorkerVersions {
    /// Asks for those of these workers that are not known.
    pub(super) async fn learn(
        &mut self,
        broker: &Broker,
        workers: impl Iterator<Item = &str>,
    ) -> Result<(), RedisError> {
        let unknown: BTreeSet<&str> =
            workers.map(process_of).filter(|name| !self.known.contains_key(*name)).collect();
        // A person who has ended a job has a name, too.
        for consumer in unknown.into_iter().filter_map(|name| name.parse::<ConsumerName>().ok()) {
            let worker = broker.worker(&consumer).await?;
            let Some(version) = worker.and_then(|mut worker| worker.facts.remove("version")) else {
                continue;
            };
            if self.known.len() >= MOST {
                self.known.clear();
            }
            self.known.insert(consumer.to_string(), version);
        }
        Ok(())
    }

    /// The version of a worker, if it is known.
    pub(super) fn of(&self, worker: &str) -> Option<&str> {
        self.known.get(process_of(worker)).map(String::as_str)
    }
}

/// The consumer name of the process: an entry that was claimed is settled under it with `.claims`.
fn process_of(worker: &str) -> &str {
    worker.strip_suffix(".claims").unwrap_or(worker)
}
