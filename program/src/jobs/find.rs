//! Reads pages of jobs from one queue after the other, until there are enough.

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::ProgressBar;
use streamfleet::job::{QueueName, State};
use streamfleet::{Broker, Queue, Shutdown};
use streamfleet_engine::admin::{Filter, FoundJob, Holdings, JobCursor, JobPage, JobSearch, Listed, Missing};

use super::{Facts, Row, Start};
use crate::Wrong;

/// The most running jobs that are compared to find the longest.
const MAX_COMPARED: usize = 10_000;

/// How many entries are read together.
const READ_AT_ONCE: usize = 8;

/// Which jobs to find.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// In these queues; in all if there are none.
    pub(crate) names: Vec<QueueName>,
    pub(crate) states: Vec<State>,
    pub(crate) filter: Filter,
    /// Only the running ones, the longest first.
    pub(crate) running: bool,
    pub(crate) limit: u64,
    /// Where the page begins, if it is not the first one.
    pub(crate) after: Option<Start>,
}

/// What was found.
pub(crate) struct Found {
    pub(super) jobs: Vec<Row>,
    pub(super) next: Option<String>,
    pub(super) facts: Facts,
    pub(super) remarks: Vec<String>,
    /// Servers of a cluster that could not be asked.
    pub(super) missing: Vec<Missing>,
}

/// Finds jobs. When the shutdown is requested, it returns what it has found so far.
pub(crate) async fn find(
    search: &Search,
    broker: &Broker,
    (stop, bar): (&Shutdown, &ProgressBar),
) -> anyhow::Result<Found> {
    let Search { names, states, filter, running, limit, after } = search;
    let mut listed = match &names[..] {
        [] => broker.queues().await.context("failed to list the queues")?,
        names => Listed { found: names.to_vec(), missing: Vec::new() },
    };
    listed.found.sort();
    listed.found.dedup();
    if let Some(start) = after {
        listed.found.retain(|name| *name >= start.queue);
        if listed.found.first() != Some(&start.queue) {
            return Err(Wrong(format!("--after names the queue {}, which is not listed", start.queue)).into());
        }
    }
    // To find the longest, nobody needs what all the others got.
    let only_places = *running && filter.is_empty();
    let mut sought = JobSearch::new().states(states.clone()).filter(filter.clone()).only_places(only_places);
    if states.contains(&State::Running) {
        let workers = broker.workers().await.context("failed to list the workers")?;
        sought = sought.holdings(Holdings::of(&workers.found));
    }
    let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
    let most = if *running { MAX_COMPARED } else { limit };
    let mut walk = Walk { search: sought, most, rows: Vec::new(), next: None, facts: Facts::default() };
    let from = after.as_ref().and_then(|start| start.cursor);
    walk.all(broker, &listed.found, from, (stop, bar)).await?;
    let Walk { mut rows, mut next, facts, .. } = walk;
    let mut remarks = Vec::new();
    if *running {
        if next.take().is_some() {
            remarks.push(format!(
                "only {MAX_COMPARED} running jobs were compared; others may have run for longer"
            ));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.age));
        rows.truncate(limit);
    }
    if only_places {
        rows = read(rows, broker).await?;
    }
    Ok(Found { jobs: rows, next, facts, remarks, missing: listed.missing })
}

/// Reads the entries of these jobs. Those that have ended since are left out.
async fn read(rows: Vec<Row>, broker: &Broker) -> anyhow::Result<Vec<Row>> {
    let reading: Vec<_> = rows.into_iter().map(|row| row.read(broker.clone())).collect();
    let read: Vec<Option<Row>> = stream::iter(reading).buffered(READ_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}

/// A walk over the queues.
struct Walk {
    search: JobSearch,
    most: usize,
    rows: Vec<Row>,
    /// Where the next page begins.
    next: Option<String>,
    facts: Facts,
}

impl Walk {
    /// Reads pages until there are enough jobs, or somebody interrupts.
    async fn all(
        &mut self,
        broker: &Broker,
        names: &[QueueName],
        mut from: Option<JobCursor>,
        (stop, bar): (&Shutdown, &ProgressBar),
    ) -> anyhow::Result<()> {
        for (at, name) in names.iter().enumerate() {
            let queue = broker.queue(name.clone());
            loop {
                let page = tokio::select! {
                    biased;
                    () = stop.requested() => {
                        self.facts.interrupted = true;
                        self.next = Some(start(name, from));
                        return Ok(());
                    }
                    page = queue.find_jobs(&self.search, from) => page,
                };
                let page = page.with_context(|| format!("failed to read the jobs of the queue {name}"))?;
                bar.inc(page.read);
                from = self.take(&queue, page);
                if self.rows.len() >= self.most {
                    let here = from.map(|_| start(name, from));
                    self.next = here.or_else(|| names.get(at + 1).map(|name| start(name, None)));
                    return Ok(());
                }
                if from.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes the jobs of a page, and returns where the next page begins.
    fn take(&mut self, queue: &Queue, page: JobPage) -> Option<JobCursor> {
        let page = page.cut(self.most.saturating_sub(self.rows.len()).max(1));
        self.facts.read += page.read;
        self.facts.too_large += page.too_large;
        self.facts.unreadable += page.unreadable;
        let unread =
            page.unread.map(|error| format!("a part of the queue {} is not shown: {error}", queue.name()));
        self.facts.unread.extend(unread);
        let row = |job: FoundJob| Row::new(queue.name(), job, page.now);
        self.rows.extend(page.jobs.into_iter().map(row));
        page.next
    }
}

/// The value of `--after` for a page that begins there.
fn start(name: &QueueName, from: Option<JobCursor>) -> String {
    from.map_or_else(|| format!("{name}/"), |from| format!("{name}/{from}"))
}
