//! Pools of programs that cannot start, as the workers report them.

use serde::{Deserialize, Serialize};

use crate::client::error::Error;
use crate::inspect::server::{WorkerInfo, worker_facts};
use crate::job::{ConsumerName, JobType};
use crate::{Broker, Queue};

/// The fact of a worker that has its pools that cannot start.
const FACT: &str = "pools_down";

/// The most pools that a worker reports, …
const MAX_POOLS: usize = 10;

/// … the most types of each, …
const MAX_TYPES: usize = 100;

/// … and the most characters of what each says.
const MAX_WHY: usize = 500;

/// The longest report that is read.
const MAX_BYTES: usize = 256 * 1024;

/// A pool none of whose programs serves, because they cannot start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDown {
    /// The name of the pool.
    pub pool: String,
    /// The types that its programs have to serve; of many, the first hundred.
    pub types: Vec<String>,
    /// Why the last program did not start, with the last lines that it wrote.
    pub why: String,
}

impl PoolDown {
    /// Returns the fact that reports these pools, which is empty if there are none.
    #[doc(hidden)]
    pub fn fact(pools: impl Iterator<Item = Self>) -> (&'static str, String) {
        let pools: Vec<_> = pools.take(MAX_POOLS).map(Self::bounded).collect();
        let json = if pools.is_empty() { None } else { serde_json::to_string(&pools).ok() };
        (FACT, json.unwrap_or_default())
    }

    fn bounded(mut self) -> Self {
        self.types.truncate(MAX_TYPES);
        if let Some((at, _)) = self.why.char_indices().nth(MAX_WHY) {
            self.why.truncate(at);
            self.why.push('…');
        }
        self
    }
}

impl WorkerInfo {
    /// Returns the pools of the worker that cannot start.
    pub fn pools_down(&self) -> Vec<PoolDown> {
        let told = self.facts.get(FACT).filter(|told| told.len() <= MAX_BYTES);
        told.and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default()
    }

    /// Returns its pool that cannot start and has to serve this type.
    fn pool_down(&self, job_type: &JobType) -> Option<PoolDown> {
        self.pools_down().into_iter().find(|pool| pool.types.iter().any(|own| own == job_type.as_str()))
    }
}

impl Broker {
    /// Returns the pool that keeps jobs of this type from running, and its worker: the one that holds the job if it is named, or one
    /// of the live workers of the queue that know the type, if none of these can run it.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn pool_down(
        &self,
        queue: &Queue,
        job_type: &JobType,
        holder: Option<&ConsumerName>,
    ) -> Result<Option<(String, PoolDown)>, Error> {
        let workers = match holder {
            Some(holder) => {
                let facts = worker_facts(self, holder).await?;
                vec![WorkerInfo { consumer: holder.to_string(), facts }]
            }
            None => self.live_workers(queue).await?.1,
        };
        let mut down = None;
        for worker in workers.into_iter().filter(|worker| holder.is_some() || worker.knows(job_type)) {
            let Some(pool) = worker.pool_down(job_type) else { return Ok(None) };
            down.get_or_insert((worker.consumer, pool));
        }
        Ok(down)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn down(pool: &str, types: usize, why: &str) -> PoolDown {
        let types = (0..types).map(|nth| format!("t{nth}")).collect();
        PoolDown { pool: pool.to_owned(), types, why: why.to_owned() }
    }

    fn worker(fact: String) -> WorkerInfo {
        WorkerInfo { consumer: "w".to_owned(), facts: BTreeMap::from([(FACT.to_owned(), fact)]) }
    }

    #[test]
    fn what_a_worker_reports_is_read_again_within_bounds() {
        let (_, fact) = PoolDown::fact([down("php", 1, "no DB_HOST")].into_iter());
        assert_eq!(worker(fact).pools_down(), [down("php", 1, "no DB_HOST")]);
        let many = (0..20).map(|_| down("php", 200, &"ü".repeat(600)));
        let (_, fact) = PoolDown::fact(many);
        let read = worker(fact).pools_down();
        assert_eq!((read.len(), read[0].types.len(), read[0].why.chars().count()), (10, 100, 501));
    }

    #[test]
    fn without_such_pools_the_fact_is_empty_and_what_others_wrote_says_nothing() {
        assert_eq!(PoolDown::fact([].into_iter()).1, "");
        for fact in ["", "{}", "[1]", "[{\"pool\":1}]"]
            .map(str::to_owned)
            .into_iter()
            .chain([" ".repeat(MAX_BYTES + 1)])
        {
            assert_eq!(worker(fact).pools_down(), []);
        }
    }
}
