//! The queues of the namespace. Listing them scans the keys of the server, so requests share one list for a short time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use streamfleet::admin::Listed;
use streamfleet::job::QueueName;
use tokio::sync::Semaphore;

use super::failure::redis;
use crate::console::access::{Person, Role};
use crate::console::problem::Problem;
use crate::console::site::Site;

/// How long a list is used.
const FRESH: Duration = Duration::from_secs(1);

/// The last list of queues.
pub(super) struct Names {
    last: Mutex<Option<(Instant, Found)>>,
    /// One request scans. Others that come meanwhile wait for its list.
    scanning: Semaphore,
}

impl Default for Names {
    fn default() -> Self {
        Self { last: Mutex::default(), scanning: Semaphore::new(1) }
    }
}

/// The queues that were found.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) queues: Vec<QueueName>,
    /// The servers of a cluster that could not be asked, and why.
    pub(super) unread: Vec<String>,
}

impl Names {
    /// Returns all queues.
    ///
    /// # Errors
    ///
    /// [`Problem`] if Redis does not answer.
    pub(super) async fn all(&self, site: &Site) -> Result<Found, Problem> {
        if let Some(found) = self.fresh() {
            return Ok(found);
        }
        let _scanning = self.scanning.acquire().await.expect("the semaphore is never closed");
        if let Some(found) = self.fresh() {
            return Ok(found);
        }
        let listed = site.broker().queues().await;
        let Listed { found: queues, missing } = listed.map_err(redis("failed to list the queues"))?;
        let found = Found { queues, unread: missing.iter().map(ToString::to_string).collect() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    fn fresh(&self) -> Option<Found> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(since, _)| since.elapsed() < FRESH).map(|(_, found)| found.clone())
    }

    /// Returns the queues that a person may see.
    ///
    /// # Errors
    ///
    /// As [`Names::all`].
    pub(super) async fn visible(&self, site: &Site, person: &Person) -> Result<Found, Problem> {
        let mut found = self.all(site).await?;
        found.queues.retain(|queue| person.may(Role::Viewer, queue));
        Ok(found)
    }

    /// Refuses a queue that does not exist: Redis has no key of it, and the configuration does not name it.
    ///
    /// # Errors
    ///
    /// [`Problem`] with the status 404, or as [`Names::all`].
    pub(super) async fn must_have(&self, site: &Site, queue: &QueueName) -> Result<(), Problem> {
        if site.effective().config.queues.contains_key(queue) {
            return Ok(());
        }
        // A queue that has jobs may be newer than the list.
        let snapshot =
            site.queue(queue.clone()).snapshot().await.map_err(redis("failed to count the jobs"))?;
        let jobs = snapshot.jobs().saturating_add(snapshot.delayed).saturating_add(snapshot.dead);
        if jobs > 0 || snapshot.leader.is_some() {
            return Ok(());
        }
        let Found { queues, unread } = self.all(site).await?;
        // A queue that is not listed may be on a server that could not be asked.
        if queues.contains(queue) || !unread.is_empty() {
            return Ok(());
        }
        Err(Problem::not_found(format!("there is no queue {queue}")))
    }
}
