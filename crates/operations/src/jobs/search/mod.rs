//! Finds jobs by state, type, payload, header, text or time, in one queue or in several, until there are enough.

mod past;
mod row;
mod walk;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use streamfleet::job::{GateName, QueueName, State};
use streamfleet::{Broker, Shutdown};
use streamfleet_engine::admin::{Filter, Holdings, JobSearch, Listed, Missing};

pub use self::past::Past;
use self::past::ending;
pub use self::row::Row;
use self::walk::PastPart;
pub use self::walk::{Facts, Start, Walk};
use crate::{Error, List};

/// The states to look at if none is named.
pub const USUAL_STATES: [State; 5] =
    [State::Running, State::Waiting, State::Retrying, State::Scheduled, State::Dead];

/// A page of jobs. `next` is where the next page begins.
pub type Page = List<Row, Facts>;

/// Is told now and then how far a search is, and how many jobs it has found.
pub type Told<'a> = &'a (dyn Fn(&Facts, usize) + Send + Sync);

/// The most running jobs that are compared to find the longest.
const MAX_COMPARED: usize = 10_000;

/// How many entries are read together.
const READ_AT_ONCE: usize = 8;

/// Which jobs to find.
#[derive(Debug, Clone)]
pub struct Search {
    /// In these queues; in all if there are none.
    pub names: Vec<QueueName>,
    /// In these states.
    pub states: Vec<State>,
    /// That match this.
    pub filter: Filter,
    /// Only the running ones, the longest first.
    pub running: bool,
    /// Only those that this worker runs.
    pub worker: Option<String>,
    /// Only those that wait at this gate.
    pub gate: Option<GateName>,
    /// Where to find those that have ended and that Redis no longer has.
    pub past: Option<Past>,
    /// How many to find, at most.
    pub limit: u64,
    /// Where the page begins, if it is not the first one.
    pub after: Option<Start>,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The jobs.
    pub jobs: Vec<Row>,
    /// Where to go on; `None` if everything was looked at.
    pub next: Option<String>,
    /// How far the search has looked.
    pub facts: Facts,
    /// What was left out, and why.
    pub remarks: Vec<String>,
    /// Servers of a cluster that could not be asked.
    pub missing: Vec<Missing>,
}

impl Found {
    /// The page. Servers that could not be asked count as parts that cannot be read.
    pub fn page(self) -> Page {
        let Self { jobs, next, mut facts, missing, .. } = self;
        facts.unread.extend(missing.iter().map(ToString::to_string));
        Page { items: jobs, next, facts, former: None }
    }
}

impl Search {
    /// Begins to look for the jobs in these queues.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`], or [`Error::Invalid`] if the page begins in another queue.
    pub async fn walk(&self, broker: &Broker, names: Vec<QueueName>) -> Result<Walk, Error> {
        let mut sought = JobSearch::new()
            .states(self.states.clone())
            .filter(self.filter.clone())
            .gate(self.gate.clone())
            .only_places(self.reads_places());
        if self.states.contains(&State::Running) {
            let workers = broker.workers().await.map_err(Error::redis("failed to list the workers"))?;
            sought = sought.holdings(Holdings::of(&workers.found));
        }
        let queues: Vec<_> = names.into_iter().map(|name| broker.queue(name)).collect();
        let first = queues.first().cloned();
        let walk = Walk::new(queues, sought, self.after.as_ref())?;
        Ok(match (&self.past, first) {
            (Some(past), Some(queue)) if self.looks_back() => {
                let now = queue.clock().await.map_err(Error::redis("failed to read the clock of Redis"))?;
                let (past, states, filter) = (past.clone(), self.states.clone(), self.filter.clone());
                walk.past(PastPart { past, states, filter, now })
            }
            _ => walk,
        })
    }

    /// Whether what it looks for may be in a history.
    fn looks_back(&self) -> bool {
        self.gate.is_none() && self.states.iter().any(|state| ending(*state).is_some())
    }

    /// To find the longest, nobody needs what all the others got.
    fn reads_places(&self) -> bool {
        self.running && self.filter.is_empty()
    }
}

/// Finds jobs. When the shutdown is requested, it returns what it has found so far. Without anybody to tell, it need not count the
/// jobs where it looks.
///
/// # Errors
///
/// [`Error::Redis`], or [`Error::Invalid`] if the page begins in another queue.
pub async fn find(
    search: &Search,
    broker: &Broker,
    (stop, told): (&Shutdown, Option<Told<'_>>),
) -> Result<Found, Error> {
    let Listed { found: names, missing } = match &search.names[..] {
        [] => broker.queues().await.map_err(Error::redis("failed to list the queues"))?,
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
        if let Some(told) = told {
            told(&walk.facts().await, rows.len());
        }
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
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn next_rows(walk: &mut Walk, most: usize) -> Result<Option<Vec<Row>>, Error> {
    let failed = match walk.next() {
        Some(start) => format!("failed to read the jobs of the queue {}", start.queue),
        None => "failed to read the jobs".to_owned(),
    };
    walk.page(most).await.map_err(Error::redis(failed))
}

/// Reads the entries of these jobs. Those that have ended since are left out.
async fn read(rows: Vec<Row>, broker: &Broker) -> Result<Vec<Row>, Error> {
    let reading: Vec<_> = rows.into_iter().map(|row| row.read(broker.clone())).collect();
    let read: Vec<Option<Row>> = stream::iter(reading).buffered(READ_AT_ONCE).try_collect().await?;
    Ok(read.into_iter().flatten().collect())
}
