//! Determines which server is the primary, according to the sentinels. One [`Sentinels`] serves all links of a process:
//! it listens to every sentinel of the address and asks each every few seconds, so that no link has to.
//!
//! It listens to every sentinel because only the one that conducts a failover announces early what is going to happen:
//! that a replica is about to be promoted, and that it has been. The switch itself is announced seconds later, and
//! until then the old primary accepts writes that are lost.

mod announcement;
mod listener;
mod opinion;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fred::types::config::{Config, Server, ServerConfig};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use self::announcement::Announcement;
use self::listener::Listener;
use self::opinion::{Opinion, View};
use crate::client::error::Error;
use crate::mutex::lock;

/// How long a process looks for the primary before it reports what is wrong.
const FOUND_WITHIN: Duration = Duration::from_secs(6);

/// After this long, one sentinel's answer is enough.
const DECIDE_AFTER: Duration = Duration::from_secs(1);

/// The longest time that one lookup of another primary takes.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// What is known about the primary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PrimaryState {
    /// Its address; `None` until a sentinel has named it.
    primary: Option<Server>,
    /// How often it has changed.
    version: u64,
    /// Until when nothing should be sent, because another server is about to become the primary.
    changing_until: Option<Instant>,
}

impl PrimaryState {
    /// True if another server is about to become the primary.
    pub(crate) fn is_changing(&self, now: Instant) -> bool {
        self.changing_until.is_some_and(|until| until > now)
    }
}

/// The sentinels of one address, listened to until this is dropped.
pub(crate) struct Sentinels {
    shared: Arc<Shared>,
    _listeners: JoinSet<()>,
}

struct Shared {
    service: String,
    opinion: Mutex<Opinion>,
    known: watch::Sender<PrimaryState>,
    /// Notified if the primary does not behave like one.
    doubted: Notify,
}

impl Sentinels {
    /// Starts to listen; `None` if the address names no sentinels.
    pub(crate) fn listen(config: &Config) -> Option<Self> {
        let ServerConfig::Sentinel { hosts, service_name, username, password } = &config.server else {
            return None;
        };
        let shared = Arc::new(Shared {
            service: service_name.clone(),
            opinion: Mutex::new(Opinion::new(hosts)),
            known: watch::Sender::default(),
            doubted: Notify::new(),
        });
        let mut listeners = JoinSet::new();
        for (nth, sentinel) in hosts.iter().enumerate() {
            let config = Listener::config(config, sentinel.clone(), username.clone(), password.clone());
            listeners.spawn(Listener { shared: Arc::clone(&shared), nth, config }.run());
        }
        Some(Self { shared, _listeners: listeners })
    }

    /// Returns the address of the primary; waits until it is known.
    ///
    /// # Errors
    ///
    /// Why it is not known, in one sentence.
    pub(crate) async fn primary(&self) -> Result<Server, Error> {
        let mut known = self.watch();
        let begun = tokio::time::Instant::now();
        loop {
            known.mark_unchanged();
            let elapsed = begun.elapsed();
            {
                let opinion = lock(&self.shared.opinion);
                if let Some(primary) = opinion.primary() {
                    return Ok(primary.clone());
                }
                if elapsed >= FOUND_WITHIN || opinion.is_complete() {
                    return Err(opinion.problem(&self.shared.service));
                }
            }
            if elapsed >= DECIDE_AFTER {
                self.shared.decide_now();
            }
            let next = if elapsed < DECIDE_AFTER { DECIDE_AFTER } else { FOUND_WITHIN };
            let _news_or_late = tokio::time::timeout_at(begun + next, known.changed()).await;
        }
    }

    /// Returns the primary, as far as it is known. Sends nothing.
    pub(crate) fn current(&self) -> Server {
        self.shared.known.borrow().primary.clone().unwrap_or_else(|| Server::new("", 0))
    }

    /// Changes with [`Sentinels::current`].
    pub(crate) fn version(&self) -> u64 {
        self.shared.known.borrow().version
    }

    /// Asks all sentinels, because this server does not behave like the primary; waits briefly for another one.
    ///
    /// # Errors
    ///
    /// Why none is known, in one sentence.
    pub(crate) async fn refresh(&self, doubted: Option<&Server>) -> Result<(), Error> {
        let mut known = self.watch();
        self.shared.doubted.notify_waiters();
        let deadline = tokio::time::Instant::now() + REFRESH_TIMEOUT;
        while known.borrow_and_update().primary.as_ref() == doubted {
            if !matches!(tokio::time::timeout_at(deadline, known.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        if self.shared.known.borrow().primary.is_some() { Ok(()) } else { Err(self.problem()) }
    }

    /// True if another server is about to become the primary.
    pub(crate) fn is_changing(&self) -> bool {
        self.shared.known.borrow().is_changing(Instant::now())
    }

    /// Waits until no change is in progress, or the change takes too long.
    pub(crate) async fn await_settled(&self) {
        if !self.is_changing() {
            return;
        }
        let mut known = self.watch();
        loop {
            let until = known.borrow_and_update().changing_until.filter(|until| *until > Instant::now());
            let Some(until) = until else { return };
            if let Ok(Err(_gone)) = tokio::time::timeout_at(until.into(), known.changed()).await {
                return;
            }
        }
    }

    /// What is known, now and in future.
    pub(crate) fn watch(&self) -> watch::Receiver<PrimaryState> {
        self.shared.known.subscribe()
    }

    /// Why the primary is not known.
    fn problem(&self) -> Error {
        lock(&self.shared.opinion).problem(&self.shared.service)
    }
}

impl Shared {
    fn note_answer(&self, nth: usize, view: View) {
        let mut opinion = lock(&self.opinion);
        opinion.note_answer(nth, view, Instant::now());
        self.publish(&opinion);
    }

    fn note_announcement(&self, nth: usize, announcement: Announcement) {
        let mut opinion = lock(&self.opinion);
        opinion.note_announcement(nth, announcement, Instant::now());
        self.publish(&opinion);
    }

    fn decide_now(&self) {
        let mut opinion = lock(&self.opinion);
        opinion.decide_now();
        if opinion.primary().is_some() {
            self.publish(&opinion);
        }
    }

    /// Wakes those who wait for the first answers, even if there is only one more refusal.
    fn publish(&self, opinion: &Opinion) {
        let primary = opinion.primary().cloned();
        let changing_until = opinion.changing_until(Instant::now());
        self.known.send_if_modified(|known| {
            let moved = known.primary != primary;
            if let (true, Some(to)) = (moved, &primary) {
                tracing::info!(primary = %to, service = self.service, "the sentinels name the primary");
            }
            let news = moved || known.changing_until != changing_until || primary.is_none();
            *known = PrimaryState { primary, version: known.version + u64::from(moved), changing_until };
            news
        });
    }
}
