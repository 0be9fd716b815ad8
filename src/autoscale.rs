//! The backlog of a process's queues, read from Redis for whatever chooses the number of workers. Redis is asked about
//! each queue at most once a second, however many clients ask.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::broker::mutex::lock;
use crate::broker::{Error, Extras, Queue, QueueSnapshot};
use crate::job::QueueName;

/// How long an answer stays valid.
const FRESH: Duration = Duration::from_secs(1);

/// How long a client waits. KEDA gives up after three seconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// Reports how much work there is. All clones share the same state.
///
/// ```no_run
/// # async fn example(fleet: streamfleet::Fleet) -> Result<(), streamfleet::NoBacklog> {
/// let autoscale = fleet.autoscale();
/// // While the fleet runs:
/// for (queue, backlog) in autoscale.backlogs(None).await? {
///     println!("{queue}: {} jobs", backlog.jobs());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Autoscale {
    names: Arc<[QueueName]>,
    queues: Arc<OnceLock<Vec<CachedQueue>>>,
}

/// One queue, and its last answer.
struct CachedQueue {
    queue: Queue,
    /// One caller asks Redis; the others wait for its answer.
    turn: Semaphore,
    cached: Mutex<Option<(Instant, Result<QueueSnapshot, Refusal>)>>,
}

/// Why a queue's backlog is not known.
#[derive(Debug, Clone)]
struct Refusal {
    why: String,
    /// True if someone must fix it: until then the queue is not served, and more workers would not help.
    lasts: bool,
}

/// Why no backlog can be reported; see the [example](Autoscale). An unknown backlog is never reported as 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBacklog {
    /// This process does not serve the queue.
    #[error("this process does not serve the queue {queue}; it serves: {known}")]
    Queue {
        /// The queue that was asked for.
        queue: String,
        /// The queues that this process serves.
        known: String,
    },
    /// Redis does not answer, or refuses the command.
    #[error("{0}")]
    Redis(String),
}

impl Autoscale {
    pub(crate) fn new(names: impl IntoIterator<Item = QueueName>) -> Self {
        Self { names: names.into_iter().collect(), queues: Arc::default() }
    }

    /// Stores the queues once Redis has been reached. Further calls have no effect.
    pub(crate) fn started(&self, queues: impl IntoIterator<Item = Queue>) {
        self.queues.get_or_init(|| queues.into_iter().map(CachedQueue::new).collect());
    }

    /// Returns the backlog of each queue, or of `only` this one, at most a second old: [`QueueSnapshot::jobs`] and its
    /// parts. The snapshots lack their oldest entries. Among several queues, one that Redis refuses counts as 0, and
    /// [`QueueSnapshot::unread`] has the reason.
    ///
    /// # Errors
    ///
    /// [`NoBacklog`] if the queue is not served here, if Redis does not answer within two seconds, or if it refuses
    /// every queue that was asked for.
    pub async fn backlogs(&self, only: Option<&str>) -> Result<Vec<(QueueName, QueueSnapshot)>, NoBacklog> {
        let is_meant = |name: &QueueName| only.is_none_or(|only| only == name.as_str());
        if let Some(queue) = only.filter(|_| !self.names.iter().any(is_meant)) {
            let known: Vec<_> = self.names.iter().map(QueueName::as_str).collect();
            let (queue, known) = (queue.chars().take(64).collect(), known.join(", "));
            return Err(NoBacklog::Queue { queue, known });
        }
        let Some(queues) = self.queues.get() else {
            return Err(NoBacklog::Redis("waiting for redis".to_owned()));
        };
        let asked = queues.iter().filter(|asked| is_meant(asked.queue.name()));
        let answers = join_all(asked.map(async |asked| (&asked.queue, asked.snapshot().await)));
        let late = |_| NoBacklog::Redis(format!("redis has not answered within {DEADLINE:?}"));
        let answers = tokio::time::timeout(DEADLINE, answers).await.map_err(late)?;
        let all_refused = answers.iter().all(|(_, answer)| answer.is_err());
        let known = answers.into_iter().map(|(queue, answer)| match answer {
            Ok(snapshot) => Ok((queue.name().clone(), snapshot)),
            Err(refusal) if refusal.lasts && !all_refused => {
                Ok((queue.name().clone(), queue.unknown_snapshot(&refusal.why)))
            }
            Err(refusal) => Err(NoBacklog::Redis(refusal.why)),
        });
        known.collect()
    }
}

impl CachedQueue {
    fn new(queue: Queue) -> Self {
        Self { queue, turn: Semaphore::new(1), cached: Mutex::default() }
    }

    async fn snapshot(&self) -> Result<QueueSnapshot, Refusal> {
        let _turn = self.turn.acquire().await.expect("the semaphore is never closed");
        if let Some((at, answer)) = &*lock(&self.cached)
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let asked = Instant::now();
        let refusal =
            |error: Error| Refusal { why: self.queue.with_keys(&error), lasts: error.is_configuration() };
        let extras = Extras { ticks: true, ..Extras::default() };
        let answer = self.queue.snapshot_with(extras).await.map_err(refusal);
        *lock(&self.cached) = Some((asked, answer.clone()));
        answer
    }
}
