//! A process's answers to probes: has it started, is it alive, is it ready?

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::broker::mutex::lock;
use crate::broker::{Broker, Error, Queue};
use crate::health::{Liveness, QueueHealth};

/// However often readiness is probed, Redis is asked only once within this time.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Redis must answer within this time. Kubernetes gives up after a second.
const ANSWERS_WITHIN: Duration = Duration::from_millis(800);

/// A missing answer from Redis is forgotten after this time. By then, the loops know whether it answers.
const FORGET_AFTER: Duration = Duration::from_secs(5);

/// Answers probes about one process. Clones share its state.
///
/// ```no_run
/// # async fn example(fleet: streamfleet::Fleet) {
/// let probe = fleet.probe();
/// // While the fleet runs:
/// probe.refresh().await;
/// match probe.ready() {
///     Ok(()) => println!("ready"),
///     Err(why) => println!("not ready: {why}"),
/// }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Probe {
    state: Arc<Mutex<State>>,
    /// One probe asks Redis; the others wait for its result.
    turn: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[derive(Default)]
enum State {
    /// It is trying to join for the first time.
    #[default]
    Starting,
    /// It could not reach Redis, and is trying again.
    Waiting,
    Working(Running),
    Stopping,
}

struct Running {
    broker: Broker,
    liveness: Liveness,
    queues: Vec<WatchedQueue>,
}

/// A queue of a working process.
struct WatchedQueue {
    queue: Queue,
    health: Arc<QueueHealth>,
    /// When a probe last asked its Redis, if there was no answer.
    unanswered_at: Option<Instant>,
}

impl WatchedQueue {
    fn answers(&self) -> bool {
        self.health.in_touch() && self.unanswered_at.is_none_or(|at| at.elapsed() >= FORGET_AFTER)
    }

    fn is_served(&self) -> bool {
        self.answers() && self.health.is_served()
    }
}

impl Running {
    /// Returns the queues that are not being served, with the reasons in words.
    fn unserved(&self) -> Vec<String> {
        let unserved = self.queues.iter().filter(|watched| !watched.is_served());
        let words = unserved.map(|WatchedQueue { queue, health, .. }| {
            let why = health.refusal().unwrap_or_else(|| "redis does not answer".to_owned());
            format!("queue {} is not served: {why}", queue.name())
        });
        words.collect()
    }

    fn ready(&self) -> Result<(), String> {
        if self.queues.iter().any(WatchedQueue::is_served) && self.liveness.in_contact() {
            return Ok(());
        }
        // If Redis answers, what it says is more useful.
        let is_refused =
            |watched: &WatchedQueue| watched.unanswered_at.is_none() && watched.health.refusal().is_some();
        if self.queues.iter().any(is_refused) {
            return Err(self.unserved().join("\n"));
        }
        Err("redis does not answer".to_owned())
    }
}

impl Probe {
    /// Notes that the process has not reached Redis yet, and keeps trying.
    pub(crate) fn set_waiting(&self) {
        *lock(&self.state) = State::Waiting;
    }

    pub(crate) fn set_working(
        &self,
        broker: &Broker,
        liveness: Liveness,
        queues: Vec<(Queue, Arc<QueueHealth>)>,
    ) {
        let watched = |(queue, health)| WatchedQueue { queue, health, unanswered_at: None };
        let (broker, queues) = (broker.clone(), queues.into_iter().map(watched).collect());
        *lock(&self.state) = State::Working(Running { broker, liveness, queues });
    }

    pub(crate) fn set_stopping(&self) {
        *lock(&self.state) = State::Stopping;
    }

    /// Asks Redis whether it answers, unless somebody just did, so that [`Probe::ready`] knows. The loops, which wait
    /// for jobs, find out only after some seconds. In a cluster, each queue's server is asked.
    pub async fn refresh(&self) {
        let mut asked = self.turn.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            return;
        }
        let (broker, queues) = match &*lock(&self.state) {
            State::Working(work) => {
                let queues: Vec<Queue> = work.queues.iter().map(|watched| watched.queue.clone()).collect();
                (work.broker.clone(), queues)
            }
            State::Starting | State::Waiting | State::Stopping => return,
        };
        let are_reachable = if broker.is_clustered() {
            let each = queues.iter().map(|queue| is_reachable(queue.cancel_requests(queue.link(), &[])));
            join_all(each).await
        } else {
            vec![is_reachable(broker.ping()).await; queues.len()]
        };
        let now = Instant::now();
        *asked = Some(now);
        if let State::Working(work) = &mut *lock(&self.state) {
            for (watched, is_reachable) in work.queues.iter_mut().zip(are_reachable) {
                watched.unanswered_at = (!is_reachable).then_some(now);
            }
        }
    }

    /// Checks whether the process has started: its handlers are made, and it has joined its queues or found that Redis is away.
    /// A probe that waited for more would restart the process again and again while Redis is away, and bring nothing back.
    ///
    /// # Errors
    ///
    /// What the process is still doing, in words.
    pub fn started(&self) -> Result<(), String> {
        match &*lock(&self.state) {
            State::Starting => Err("joining the queues".to_owned()),
            State::Waiting | State::Working(_) | State::Stopping => Ok(()),
        }
    }

    /// Checks whether the process is alive: no loop has died, and none waits for answers that others of this process
    /// get. An outage of Redis does not count, because a restart would not end it.
    ///
    /// # Errors
    ///
    /// What hangs or has died, in words.
    pub fn alive(&self) -> Result<(), String> {
        match &*lock(&self.state) {
            State::Starting | State::Waiting | State::Stopping => Ok(()),
            State::Working(work) => {
                let failures = work.liveness.failures();
                if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
            }
        }
    }

    /// Checks whether the process is ready: it serves at least one of its queues, is in contact with Redis, and is not
    /// stopping. [`Probe::unserved`] says what keeps it from serving the others.
    ///
    /// # Errors
    ///
    /// Why it is not ready, in words.
    pub fn ready(&self) -> Result<(), String> {
        match &*lock(&self.state) {
            State::Starting | State::Waiting => Err("waiting for redis".to_owned()),
            State::Stopping => Err("stopping".to_owned()),
            State::Working(work) => work.ready(),
        }
    }

    /// Returns the queues that a working process does not serve, with the reasons in words, and with the key if it is known: a
    /// key has another type, a permission is missing, or the part of a cluster that holds the queue does not answer.
    pub fn unserved(&self) -> Vec<String> {
        match &*lock(&self.state) {
            State::Starting | State::Waiting | State::Stopping => Vec::new(),
            State::Working(work) => work.unserved(),
        }
    }

    /// Returns true if Redis answers for each of the queues, so that nothing is lost if the process stops now. A
    /// refused queue has nothing to lose.
    pub(crate) fn in_touch(&self) -> bool {
        match &*lock(&self.state) {
            State::Starting | State::Waiting | State::Stopping => false,
            State::Working(work) => {
                let answers =
                    |watched: &WatchedQueue| watched.answers() || watched.health.refusal().is_some();
                work.ready().is_ok() && work.queues.iter().all(answers)
            }
        }
    }

    /// Returns true if the process has begun to stop.
    pub fn is_stopping(&self) -> bool {
        matches!(&*lock(&self.state), State::Stopping)
    }
}

/// Returns true if Redis answers in time, whatever it says: the queue's loops know what it refuses.
async fn is_reachable<T>(asking: impl Future<Output = Result<T, Error>>) -> bool {
    match tokio::time::timeout(ANSWERS_WITHIN, asking).await {
        Ok(answer) => answer.err().is_none_or(|error| !error.is_transient()),
        Err(_late) => false,
    }
}
