//! What a process answers to probes: has it started, is it alive, is it ready?

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::broker::{Broker, Error, Queue};
use crate::health::Liveness;
use crate::health::QueueHealth;

/// However often it is asked whether it is ready, Redis is asked once within this time.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Redis must answer within this time. Kubernetes gives up after a second.
const ANSWERS_WITHIN: Duration = Duration::from_millis(800);

/// That Redis did not answer is forgotten after this time. By then the loops know how it is.
const FORGET_AFTER: Duration = Duration::from_secs(5);

/// Answers probes about one process. Clones are one.
#[derive(Clone, Default)]
pub struct Probe {
    state: Arc<Mutex<State>>,
    /// One asks Redis, the others wait for what it hears.
    turn: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

#[derive(Default)]
enum State {
    /// It tries to join for the first time.
    #[default]
    Starting,
    /// It could not reach Redis, and tries again.
    Waiting,
    Working(Running),
    Stopping,
}

struct Running {
    broker: Broker,
    liveness: Liveness,
    queues: Vec<Watched>,
}

/// A queue of a process that works.
struct Watched {
    queue: Queue,
    health: Arc<QueueHealth>,
    /// When a probe asked its Redis last, if that was in vain.
    in_vain: Option<Instant>,
}

impl Watched {
    fn answers(&self) -> bool {
        self.health.in_touch() && self.in_vain.is_none_or(|at| at.elapsed() >= FORGET_AFTER)
    }

    fn is_served(&self) -> bool {
        self.answers() && self.health.serves()
    }
}

impl Running {
    /// The queues that are not served just now, and why, in words.
    fn unserved(&self) -> Vec<String> {
        let unserved = self.queues.iter().filter(|watched| !watched.is_served());
        let words = unserved.map(|Watched { queue, health, .. }| {
            let why = health.refusal().unwrap_or_else(|| "redis does not answer".to_owned());
            format!("queue {} is not served: {why}", queue.name())
        });
        words.collect()
    }

    fn ready(&self) -> Result<(), String> {
        if self.queues.iter().any(Watched::is_served) && self.liveness.in_contact() {
            return Ok(());
        }
        // Where Redis answers, what it says is of more use.
        let is_refused = |watched: &Watched| watched.in_vain.is_none() && watched.health.refusal().is_some();
        if self.queues.iter().any(is_refused) {
            return Err(self.unserved().join("\n"));
        }
        Err("redis does not answer".to_owned())
    }
}

impl Probe {
    /// It could not reach Redis yet, and goes on trying.
    pub(crate) fn waits(&self) {
        *self.lock() = State::Waiting;
    }

    pub(crate) fn works(&self, broker: &Broker, liveness: Liveness, queues: Vec<(Queue, Arc<QueueHealth>)>) {
        let watched = |(queue, health)| Watched { queue, health, in_vain: None };
        let (broker, queues) = (broker.clone(), queues.into_iter().map(watched).collect());
        *self.lock() = State::Working(Running { broker, liveness, queues });
    }

    pub(crate) fn stops(&self) {
        *self.lock() = State::Stopping;
    }

    /// Asks Redis whether it is there, unless somebody just did, so that [`Probe::ready`] knows: the loops, which wait for
    /// jobs, find out only after some seconds. In a cluster, each queue's server is asked.
    pub async fn look(&self) {
        let mut asked = self.turn.lock().await;
        if asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            return;
        }
        let (broker, queues) = match &*self.lock() {
            State::Working(work) => {
                let queues: Vec<Queue> = work.queues.iter().map(|watched| watched.queue.clone()).collect();
                (work.broker.clone(), queues)
            }
            State::Starting | State::Waiting | State::Stopping => return,
        };
        let are_there = if broker.is_clustered() {
            let each = queues.iter().map(|queue| is_there(queue.cancels(queue.link(), &[])));
            join_all(each).await
        } else {
            vec![is_there(broker.ping()).await; queues.len()]
        };
        let now = Instant::now();
        *asked = Some(now);
        if let State::Working(work) = &mut *self.lock() {
            for (watched, is_there) in work.queues.iter_mut().zip(are_there) {
                watched.in_vain = (!is_there).then_some(now);
            }
        }
    }

    /// Started: its handlers are made, and it has joined its queues, or found that Redis is away. Whoever waits for more
    /// would start it again and again while Redis is away, and bring nothing back.
    ///
    /// # Errors
    ///
    /// What it still does, in words.
    pub fn started(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting => Err("joining the queues".to_owned()),
            State::Waiting | State::Working(_) | State::Stopping => Ok(()),
        }
    }

    /// Alive: no loop has died, and none waits for answers that others of this process get. Redis being away is no
    /// ailment: a restart would not bring it back.
    ///
    /// # Errors
    ///
    /// What hangs or has died, in words.
    pub fn alive(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting | State::Waiting | State::Stopping => Ok(()),
            State::Working(work) => {
                let failures = work.liveness.failures();
                if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
            }
        }
    }

    /// Ready: it serves at least one of its queues, is in touch with Redis, and does not stop. What keeps it from serving
    /// others says [`Probe::unserved`].
    ///
    /// # Errors
    ///
    /// Why not, in words.
    pub fn ready(&self) -> Result<(), String> {
        match &*self.lock() {
            State::Starting | State::Waiting => Err("waiting for redis".to_owned()),
            State::Stopping => Err("stopping".to_owned()),
            State::Working(work) => work.ready(),
        }
    }

    /// The queues that a working process does not serve just now, and why, in words, with the key where it is known: a key has
    /// another type, a right is missing, or the part of a cluster that has the queue does not answer.
    pub fn unserved(&self) -> Vec<String> {
        match &*self.lock() {
            State::Starting | State::Waiting | State::Stopping => Vec::new(),
            State::Working(work) => work.unserved(),
        }
    }

    /// Whether Redis answers for each of the queues, so that nothing is lost where the process stops now. A queue that is
    /// refused has nothing to lose.
    pub(crate) fn in_touch(&self) -> bool {
        match &*self.lock() {
            State::Starting | State::Waiting | State::Stopping => false,
            State::Working(work) => {
                let answers = |watched: &Watched| watched.answers() || watched.health.refusal().is_some();
                work.ready().is_ok() && work.queues.iter().all(answers)
            }
        }
    }

    /// Whether the process has begun to stop.
    pub fn is_stopping(&self) -> bool {
        matches!(&*self.lock(), State::Stopping)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True where Redis answers in time, whatever it says: what it refuses, the queue's loops know.
async fn is_there<T>(asking: impl Future<Output = Result<T, Error>>) -> bool {
    match tokio::time::timeout(ANSWERS_WITHIN, asking).await {
        Ok(answer) => answer.err().is_none_or(|error| !error.is_transient()),
        Err(_late) => false,
    }
}
