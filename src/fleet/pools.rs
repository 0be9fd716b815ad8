//! The pools of a process: which types their programs run, and the tasks that run the programs.

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Builder;
use crate::event::Events;
use crate::handlers::Pool;
use crate::job::{InvalidName, JobType, Policy};
use crate::reload::Reload;

/// The pools of a process while they run.
pub(super) struct Pools {
    running: JoinSet<()>,
    stop: CancellationToken,
    /// Why the process cannot work with the program of a pool.
    pub(super) refusals: mpsc::Receiver<String>,
}

impl Pools {
    pub(super) fn start(pools: &[Pool], events: &Events, reload: &Reload) -> Self {
        let (sender, refusals) = mpsc::channel(1);
        let (mut running, stop) = (JoinSet::new(), CancellationToken::new());
        for pool in pools {
            pool.set_running();
            let orders = (reload.requests(), stop.clone());
            running.spawn(pool.clone().supervise(events.clone(), sender.clone(), orders));
        }
        Self { running, stop, refusals }
    }

    /// Waits until all programs have ended. Those that hang are killed.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

impl Builder {
    /// Adds a type whose jobs run in the programs of a pool. All types of a pool together have at most as many attempts at once
    /// as its programs take, so that further jobs wait in Redis.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::handler_for`].
    pub fn pool_for(mut self, job_type: &str, policy: Policy, pool: &Pool) -> Result<Self, InvalidName> {
        self.register_pool(job_type.parse()?, policy, pool);
        Ok(self)
    }

    /// Runs the programs of a pool while the fleet works. This is for pools whose clones are the handlers of
    /// [steps](Builder::steps).
    #[must_use]
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.run_pool(pool);
        self
    }

    /// Replaces the programs of the pools whenever that is requested.
    #[must_use]
    pub fn reload(mut self, reload: &Reload) -> Self {
        self.reload = reload.clone();
        self
    }

    /// Adds a type with this pool whose name is known to be valid.
    #[doc(hidden)]
    pub fn register_pool(&mut self, job_type: JobType, policy: Policy, pool: &Pool) {
        let group = self.run_pool(pool);
        let handler = pool.serving(&job_type, &policy);
        self.registry.add(job_type.clone(), policy, handler);
        self.registry.share_places(job_type, group);
    }

    /// Adds a pool unless it is there. Returns the group of places that its types share.
    #[doc(hidden)]
    pub fn run_pool(&mut self, pool: &Pool) -> usize {
        if let Some((_, group)) = self.pools.iter().find(|(own, _)| own.is(pool)) {
            return *group;
        }
        let group = self.registry.add_places(pool.places());
        self.pools.push((pool.clone(), group));
        group
    }
}
