//! Runs one job of Redis here, with the handlers of a fleet that does not work.

use std::time::Duration;

use super::Fleet;
use super::pools::Pools;
use crate::handlers::Pool;
use crate::worker::{self, Reproduced, Specimen};

/// How often to look whether the programs of a pool can start.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Fleet {
    /// Runs a job here once, without Redis. Returns `None` if its type has no handler. Of its steps, those that are done do not
    /// run, and the others only if `runs_steps`.
    ///
    /// # Errors
    ///
    /// Why the programs of a pool cannot run it.
    #[doc(hidden)]
    pub async fn reproduce(self, specimen: Specimen, runs_steps: bool) -> Result<Option<Reproduced>, String> {
        let mut pools = Pools::start(&self.pools, &self.events, &self.reload);
        let done = tokio::select! {
            biased;
            done = worker::reproduce(&self.registry, specimen, runs_steps) => Ok(done),
            Some(why) = pools.refusals.recv() => Err(why),
            why = self.broken_pool() => Err(why),
        };
        self.pools.iter().for_each(Pool::drain);
        pools.stop().await;
        done
    }

    /// Waits until the programs of a pool cannot start, and says why.
    async fn broken_pool(&self) -> String {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Some(down) = self.pools.iter().find_map(Pool::down) {
                return format!("no program of the pool {} can start: {}", down.pool, down.why);
            }
        }
    }
}
