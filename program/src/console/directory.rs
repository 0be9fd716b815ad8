//! The queues and workers that Redis knows. To find them, all keys of the server are scanned, so what was found is kept for a
//! moment and shared by all requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use streamfleet::admin::WorkerInfo;
use streamfleet::job::QueueName;
use streamfleet::{Broker, RedisError};

/// How long what was found is used at least. If a scan takes long, it is used for longer.
const FRESH: Duration = Duration::from_secs(1);

/// How much longer than a scan took what it found is used.
const SHARE: u32 = 20;

/// How long it is used at most, however long the scan took.
const STALE: Duration = Duration::from_secs(10);

/// What Redis knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) queues: Vec<QueueName>,
    pub(super) workers: Vec<WorkerInfo>,
    /// The servers of a cluster that could not be asked, and why.
    pub(super) missing: Vec<String>,
}

/// Looks for queues and workers.
#[derive(Debug, Default)]
pub(super) struct Directory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What was found, and until when it is used.
    last: Option<(Arc<Known>, Instant)>,
    /// Whether somebody is looking.
    is_looking: bool,
}

/// Ends a look, even if its request was given up.
struct Looking<'a>(&'a Directory);

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.state().is_looking = false;
    }
}

impl Directory {
    /// Returns what Redis knew at most a moment ago.
    ///
    /// # Errors
    ///
    /// [`RedisError`] if Redis does not answer or refuses.
    pub(super) async fn look(&self, broker: &Broker) -> Result<Arc<Known>, RedisError> {
        let _looking = {
            let mut state = self.state();
            if let Some((known, until)) = &state.last
                && (state.is_looking || Instant::now() < *until)
            {
                return Ok(Arc::clone(known));
            }
            state.is_looking = true;
            Looking(self)
        };
        let begun = Instant::now();
        let (queues, workers) = tokio::try_join!(broker.queues(), broker.workers())?;
        let mut missing: Vec<String> =
            queues.missing.iter().chain(&workers.missing).map(ToString::to_string).collect();
        missing.sort();
        missing.dedup();
        let known = Arc::new(Known { queues: queues.found, workers: workers.found, missing });
        let until = Instant::now() + (begun.elapsed() * SHARE).clamp(FRESH, STALE);
        self.state().last = Some((Arc::clone(&known), until));
        Ok(known)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
