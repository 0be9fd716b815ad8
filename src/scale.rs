//! What a process answers to whoever chooses how many workers there are: the backlog of its queues, straight from Redis.
//! Each queue is asked about at most once a second, however often this is asked.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::broker::{Backlog, Queue};
use crate::job::QueueName;

/// An answer serves for so long.
const FRESH: Duration = Duration::from_secs(1);

/// Who asks, waits no longer: KEDA gives up after three seconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// Answers how much work there is. Clones are one.
#[derive(Clone)]
pub struct Scale {
    names: Arc<[QueueName]>,
    queues: Arc<OnceLock<Vec<Asked>>>,
}

/// One queue, and what it answered last.
struct Asked {
    queue: Queue,
    /// One asks Redis, the others wait for what it hears.
    turn: Semaphore,
    last: Mutex<Option<(Instant, Result<Backlog, String>)>>,
}

/// Why there is no figure. It is never taken for 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBacklog {
    /// This process does not serve the queue.
    #[error("this process does not serve the queue {queue}; it serves: {known}")]
    Queue {
        /// What was asked for.
        queue: String,
        /// What there is.
        known: String,
    },
    /// Redis does not answer, or refuses.
    #[error("{0}")]
    Redis(String),
}

impl Scale {
    pub(crate) fn new(names: impl IntoIterator<Item = QueueName>) -> Self {
        Self { names: names.into_iter().collect(), queues: Arc::default() }
    }

    /// Redis has been reached. Whoever calls this again changes nothing.
    pub(crate) fn started(&self, queues: impl IntoIterator<Item = Queue>) {
        self.queues.get_or_init(|| queues.into_iter().map(Asked::new).collect());
    }

    /// The backlog of each queue, or of `only` this one, at most a second old.
    ///
    /// # Errors
    ///
    /// [`NoBacklog`] where the queue is not served here, or Redis does not answer within two seconds.
    pub async fn backlogs(&self, only: Option<&str>) -> Result<Vec<(QueueName, Backlog)>, NoBacklog> {
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
        let answers = join_all(asked.map(async |asked| Ok((asked.queue.name().clone(), asked.ask().await?))));
        let answers = tokio::time::timeout(DEADLINE, answers).await;
        let late = |_| NoBacklog::Redis(format!("redis has not answered within {DEADLINE:?}"));
        answers.map_err(late)?.into_iter().collect::<Result<_, String>>().map_err(NoBacklog::Redis)
    }
}

impl Asked {
    fn new(queue: Queue) -> Self {
        Self { queue, turn: Semaphore::new(1), last: Mutex::default() }
    }

    async fn ask(&self) -> Result<Backlog, String> {
        let _turn = self.turn.acquire().await.expect("the semaphore is never closed");
        if let Some((at, answer)) = &*self.last()
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let asked = Instant::now();
        let answer = self.queue.backlog().await.map_err(|error| error.to_string());
        *self.last() = Some((asked, answer.clone()));
        answer
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Result<Backlog, String>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
