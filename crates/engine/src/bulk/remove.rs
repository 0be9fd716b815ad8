//! Deleting a queue with all its keys, page by page, so that no command blocks Redis for long.

use fred::interfaces::KeysInterface;
use fred::types::Value;

use super::selection::BulkJobs;
use crate::client::error::Error;
use crate::inspect::server::scan_page;
use crate::{Broker, Queue, WorkerInfo};

/// The most keys that one command deletes.
const MAX_KEYS: usize = 200;

/// Who uses a queue; see the [example](BulkJobs::delete_page).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueUse {
    /// The live workers that serve it.
    pub workers: Vec<String>,
    /// How many jobs workers hold.
    pub running: u64,
}

/// Where a page of keys begins; see the [example](BulkJobs::delete_page). The default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCursor(Option<String>);

/// A page of deleted keys; see the [example](BulkJobs::delete_page).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeletedPage {
    /// How many keys were deleted.
    pub deleted: u64,
    /// Where the next page begins; `None` if this was the last one.
    pub next: Option<KeyCursor>,
}

impl QueueUse {
    /// Returns true if nobody uses the queue.
    pub fn is_idle(&self) -> bool {
        self.workers.is_empty() && self.running == 0
    }
}

impl Broker {
    /// Returns who uses a queue. A worker that starts later uses it, too.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn use_of(&self, queue: &Queue) -> Result<QueueUse, Error> {
        let listed = self.workers().await?;
        if let Some(missing) = listed.missing.into_iter().next() {
            return Err(missing.error);
        }
        let serves = |queues: &String| queues.split(',').any(|name| name == queue.name().as_str());
        let serving = |worker: &WorkerInfo| worker.facts.get("queues").is_some_and(serves);
        let workers = listed.found.into_iter().filter(serving).map(|worker| worker.consumer).collect();
        Ok(QueueUse { workers, running: queue.snapshot().await?.running() })
    }
}

impl BulkJobs<'_> {
    /// Returns true if the queue has keys that [`Broker::queues`] does not look for: a queue whose jobs were all delayed has no
    /// stream, and keeps its audit when these are cancelled.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn has_traces(self) -> Result<bool, Error> {
        let (link, own) = (&self.queue.link, &self.queue.keys);
        let of_people = [&own.audit, &own.campaigns, &own.tasks, &own.gates];
        let of_fleet = [&own.waitlists, &own.samples, &own.counts, &own.events];
        let traces: Vec<_> = of_people.into_iter().chain(of_fleet).cloned().collect();
        let client = link.client();
        let found: u64 = link.ask("exists", client.exists(traces)).await?;
        Ok(found > 0)
    }

    /// Deletes a page of the keys of the queue: jobs, dead letters, records, recurring jobs, gates, the audit and all else.
    /// Nothing is asked, and nothing comes back. Make sure that nobody [uses](Broker::use_of) the queue: a worker makes some
    /// keys again, and loses its jobs.
    ///
    /// Every page scans about a thousand keys of the server, and there may be none of the queue among them. After the last
    /// page, keys that were made meanwhile may be left: begin again until none is deleted.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(broker: streamfleet::Broker) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::KeyCursor;
    ///
    /// let queue = broker.queue("old".parse()?);
    /// if broker.use_of(&queue).await?.is_idle() {
    ///     let (mut deleted, mut next) = (0, Some(KeyCursor::default()));
    ///     while let Some(from) = next {
    ///         let page = queue.bulk().delete_page(&from).await?;
    ///         (deleted, next) = (deleted + page.deleted, page.next);
    ///     }
    ///     println!("{deleted} keys deleted");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn delete_page(self, from: &KeyCursor) -> Result<DeletedPage, Error> {
        let (link, mut found) = (&self.queue.link, Vec::new());
        let cursor = from.0.as_deref().unwrap_or("0");
        let next = scan_page(link, cursor, &self.queue.keys.pattern(), &mut found).await?;
        let mut deleted = 0;
        for some in found.chunks(MAX_KEYS) {
            let client = link.client();
            let reply = link.ask("unlink", client.unlink::<Value, _>(some.to_vec())).await?;
            deleted += reply.as_u64().unwrap_or(0);
        }
        let next = Some(next).filter(|next| next != "0").map(|next| KeyCursor(Some(next)));
        Ok(DeletedPage { deleted, next })
    }
}
