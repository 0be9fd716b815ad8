//! Finds jobs until there are enough.

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{HumanCount, ProgressBar};
use streamfleet::job::{GateName, QueueName, State};
use streamfleet::{Broker, Shutdown};
use streamfleet_engine::admin::{Filter, Holdings, JobSearch, Listed, Missing};

use super::{Facts, Row, Start, Walk};

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
    /// Only those that this worker runs.
    pub(crate) worker: Option<String>,
    /// Only those that wait at this gate.
    pub(crate) gate: Option<GateName>,
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

impl Search {
    /// Begins to look for the jobs in these queues.
    ///
    /// # Errors
    ///
    /// If Redis does not answer, or the page begins in another queue.
    pub(crate) async fn walk(&self, broker: &Broker, names: Vec<QueueName>) -> anyhow::Result<Walk> {
        let mut sought = JobSearch::new()
            .states(self.states.clone())
            .filter(self.filter.clone())
            .gate(self.gate.clone())
            .only_places(self.reads_places());
        if self.states.contains(&State::Running) {
            let workers = broker.workers().await.context("failed to list the workers")?;
            sought = sought.holdings(Holdings::of(&workers.found));
        }
        let queues = names.into_iter().map(|name| broker.queue(name)).collect();
        Ok(Walk::new(queues, sought, self.after.as_ref())?)
    }

    /// To find the longest, nobody needs what all the others got.
    fn reads_places(&self) -> bool {
        self.running && self.filter.is_empty()
    }
}

/// Finds jobs. When the shutdown is requested, it returns what it has found so far.
pub(crate) async fn find(
    search: &Search,
    broker: &Broker,
    (stop, bar): (&Shutdown, &ProgressBar),
) -> anyhow::Result<Found> {
    let Listed { found: names, missing } = match &search.names[..] {
        [] => broker.queues().await.context("failed to list the queues")?,
        names => Listed { found: names.to_vec(), missing: Vec::new() },
    };
    let mut walk = search.walk(broker, names).await?;
    let limit = usize::try_from(search.limit).unwrap_or(usize::MAX);
    let most = if search.running { MAX_COMPARED } else { limit };
    let (mut rows, mut interrupted) = (Vec::new(), false);
    while rows.len() < most {
        let page = tokio::select! {
            biased;
            () = stop.requested() => {
                interrupted = true;
                break;
            }
            page = next_rows(&mut walk, most - rows.len()) => page?,
        };
        let Some(page) = page else { break };
        rows.extend(page.into_iter().filter(|row| row.is_of(search.worker.as_deref())));
        show_progress(&mut walk, rows.len(), bar).await;
    }
    let mut next = walk.next().map(ToString::to_string);
    let mut facts = Facts { interrupted, ..walk.facts().await };
    facts.complete &= missing.is_empty();
    let mut remarks = Vec::new();
    if search.running {
        if next.take().is_some() && !interrupted {
            remarks.push(format!(
                "only {MAX_COMPARED} running jobs were compared; others may have run for longer"
            ));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.age));
        rows.truncate(limit);
    }
    if search.reads_places() {
        rows = read(rows, broker).await?;
    }
    Ok(Found { jobs: rows, next, facts, remarks, missing })
}

/// Returns the jobs of the next page; `None` if the walk has looked at everything.
pub(crate) async fn next_rows(walk: &mut Walk, most: usize) -> anyhow::Result<Option<Vec<Row>>> {
    let name = walk.next().map(|start| start.queue.clone());
    let page = walk.page(most).await.with_context(|| match name {
        Some(name) => format!("failed to read the jobs of the queue {name}"),
        None => "failed to read the jobs".to_owned(),
    })?;
    Ok(page.map(|(name, page)| page.jobs.into_iter().map(|job| Row::new(&name, job, page.now)).collect()))
}

/// Shows how far the walk is, if somebody sees it.
async fn show_progress(walk: &mut Walk, found: usize, bar: &ProgressBar) {
    if bar.is_hidden() {
        return;
    }
    let facts = walk.facts().await;
    let of = facts.of.map_or_else(String::new, |of| format!("of {} ", HumanCount(of)));
    bar.set_position(facts.looked_at);
    bar.set_message(format!("{of}jobs looked at, {} found", HumanCount(found as u64)));
}

/// Reads the entries of these jobs. Those that have ended since are left out.
async fn read(rows: Vec<Row>, broker: &Broker) -> anyhow::Result<Vec<Row>> {
    let reading: Vec<_> = rows.into_iter().map(|row| row.read(broker.clone())).collect();
    let read: Vec<Option<Row>> = stream::iter(reading).buffered(READ_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}
