//! Chooses the one process that checks and sends, and runs its parts for as long as it is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::checker::{Checker, LEASE, Shown, report_none};
use super::message::Sender;
use super::observe::Observer;
use super::observe::Watched;
use super::pace::Pace;
use super::sink_sender::SinkSender;
use super::sinks::{Answer, Error, Sink};
use crate::alerts::config::Config;
use crate::alerts::sink::SinkConfig;
use crate::broker::{self, Broker, Incidents};
use crate::job::{SinkName, Timestamp};
use streamfleet::chore::{self, Chore};
use streamfleet::event::Events;
use streamfleet::leadership::{Leadership, Term};

/// The pauses between two tries to open a sink.
const OPEN_PAUSE: Duration = Duration::from_secs(30);

/// How long the parts may take to end. A message that is under way takes about 20 s at most.
const STOP_TIMEOUT: Duration = Duration::from_secs(25);

/// Why a test message was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// There is no such sink.
    #[error("there is no sink {0}")]
    Unknown(SinkName),
    /// The sink cannot be used as it is configured.
    #[error(transparent)]
    Sink(#[from] Error),
    /// The sink has not taken the message.
    #[error("the sink {sink} did not take the message: {why}")]
    Failed {
        /// The sink.
        sink: SinkName,
        /// What it answered. The text has no secret.
        why: String,
    },
}

/// Looks for incidents and sends messages about them, in turn with other processes.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet_service::alerts::{Alerts, Config, SinkConfig, SinkKind, Watched};
/// use streamfleet::event::Events;
/// use streamfleet::RedisConfig;
///
/// let ops = SinkConfig::new(SinkKind::Slack).url_file("/run/secrets/slack-url");
/// let config = Config::default().sinks([("ops".parse()?, ops)]);
/// let watched = Watched::new(Duration::from_secs(300));
/// let running = Alerts::new(config, RedisConfig::from("redis://redis.internal"), watched)?.start(Events::default());
/// // … until the process ends:
/// running.stop().await;
/// # Ok(()) }
/// ```
pub struct Alerts {
    config: Arc<Config>,
    redis: broker::Config,
    watched: Arc<Watched>,
    /// The names of fields whose values no message has, in lower case.
    mask: Arc<[String]>,
}

/// Alerts that run; see the [example](Alerts). Stopping them lets another process take over at once. If this is dropped, they
/// end without that.
pub struct Running {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Alerts {
    /// Prepares alerts. Connects to nothing.
    ///
    /// # Errors
    ///
    /// [`Error`] if a sink cannot be used as it is configured: a file with a secret cannot be read, or an address is wrong.
    pub fn new(config: Config, redis: broker::Config, watched: Watched) -> Result<Self, Error> {
        for (name, sink) in &config.sinks {
            Sink::open(name, sink)?;
        }
        Ok(Self { config: Arc::new(config), redis, watched: Arc::new(watched), mask: Arc::default() })
    }

    /// Sets the names of fields whose values are hidden in messages, as far as an error shows which value belongs to a name.
    #[must_use]
    pub fn mask(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.mask = names.into_iter().map(|name| name.as_ref().to_lowercase()).collect();
        self
    }

    /// Starts to look and send, in tasks of this runtime. Redis may be out of reach for now.
    pub fn start(self, events: Events) -> Running {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(self.run(events, stop.clone()));
        Running { stop, tasks }
    }

    /// Sends a message that says it is a test. Returns what the sink answered.
    ///
    /// # Errors
    ///
    /// [`TestError`] if there is no such sink, or it does not take the message.
    pub async fn test(&self, sink: &SinkName) -> Result<String, TestError> {
        let config = self.config.sinks.get(sink).ok_or_else(|| TestError::Unknown(sink.clone()))?;
        let opened = Sink::open(sink, config)?;
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).ok().and_then(Timestamp::from_ms);
        let message = self.sender().test(sink.as_str(), now.unwrap_or_default());
        match opened.send(&message).await {
            Answer::Accepted { said } => Ok(said),
            Answer::Later { why, .. } | Answer::Refused { why } => {
                Err(TestError::Failed { sink: sink.clone(), why })
            }
        }
    }

    fn sender(&self) -> Sender {
        Sender {
            namespace: self.redis.namespace.clone(),
            config: Arc::clone(&self.config),
            mask: Arc::clone(&self.mask),
        }
    }

    async fn run(self, events: Events, stop: CancellationToken) {
        let Some(broker) = chore::connect(&self.redis, &events, &stop).await else { return };
        let incidents = broker.incidents();
        let own = format!("alerts-{:016x}", rand::random::<u64>());
        let mut leadership = Leadership::new(LEASE, &stop);
        let mut chore = Chore::every(LEASE / 5, &events, &stop).jitter(1.0..1.0);
        while chore.tick().await {
            let asked = Instant::now();
            match chore.note(incidents.lead(&own, LEASE).await) {
                Some(true) => {
                    if let Some(term) = leadership.granted(asked) {
                        self.begin(term, (&broker, own.as_str()), &events);
                    }
                }
                Some(false) => {
                    has_ended(leadership.end(), &events).await;
                }
                None => {
                    has_ended(leadership.unanswered(), &events).await;
                }
            }
        }
        if has_ended(leadership.end(), &events).await {
            release(&incidents, &own).await;
        }
    }

    /// Starts the parts.
    fn begin(&self, term: &mut Term, (broker, own): (&Broker, &str), events: &Events) {
        tracing::info!("this process looks for incidents and sends messages about them");
        let (shown, _) = watch::channel(Shown::default());
        for (name, sink) in &self.config.sinks {
            let parts = (self.sender(), broker.incidents(), events.clone());
            let (shown, until) = (shown.subscribe(), term.until());
            let (name, sink, stop) = (name.clone(), sink.clone(), term.stop());
            term.spawn(async move {
                let (sender, incidents, events) = parts;
                let opening = opened((&name, &sink), OPEN_PAUSE, (&events, &stop));
                let Some(sink) = opening.await else { return };
                let (pace, done) = (Pace::new(Instant::now()), BTreeMap::new());
                let sink_sender = SinkSender { sink, sender, incidents, events, shown, until, pace, done };
                sink_sender.run(stop).await;
            });
        }
        let observer = Observer::new(
            broker.clone(),
            Arc::clone(&self.config),
            Arc::clone(&self.watched),
            events.clone(),
        );
        let checker = Checker {
            observer,
            incidents: broker.incidents(),
            config: Arc::clone(&self.config),
            own: own.to_owned(),
            events: events.clone(),
            shown,
        };
        term.spawn(checker.run(term.stop()));
    }
}

/// Opens a sink; `None` if the term ended before. The files with the secrets are read again in each term, so that a new secret
/// needs no new process, and again until they can be read.
async fn opened(
    (name, sink): (&SinkName, &SinkConfig),
    pause: Duration,
    (events, stop): (&Events, &CancellationToken),
) -> Option<Sink> {
    let (mut chore, mut was_reported) = (Chore::every(pause, events, stop).jitter(1.0..1.0), false);
    while chore.tick().await {
        match Sink::open(name, sink) {
            Ok(sink) => return Some(sink),
            Err(error) if !was_reported => tracing::error!(%error, "a sink cannot be used; trying again"),
            Err(error) => tracing::debug!(%error, "a sink still cannot be used"),
        }
        was_reported = true;
    }
    None
}

impl Running {
    /// Stops: a message that is under way is finished, and another process can take over.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT + Duration::from_secs(5), ended).await.is_err() {
            tracing::warn!("a message about an incident was cut short");
        }
    }
}

/// Awaits the end of a term, but not for ever. Returns true if one has ended.
async fn has_ended(ending: impl Future<Output = bool>, events: &Events) -> bool {
    let has_ended = tokio::time::timeout(STOP_TIMEOUT, ending).await.unwrap_or_else(|_late| {
        tracing::warn!("a message about an incident was cut short");
        true
    });
    if has_ended {
        report_none(events);
    }
    has_ended
}

/// Gives up the lease, so that another process need not wait until it expires.
async fn release(incidents: &Incidents, own: &str) {
    if let Err(error) = incidents.lead(own, Duration::ZERO).await {
        tracing::debug!(%error, "failed to release the lease of those who send; it will expire");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::SinkKind;

    #[tokio::test]
    async fn a_sink_is_opened_as_soon_as_its_secret_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        let (sink, events) = (SinkConfig::new(SinkKind::Slack).url_file(&file), Events::default());
        let (name, stop) = ("ops".parse().unwrap(), CancellationToken::new());
        let open = || opened((&name, &sink), Duration::from_millis(1), (&events, &stop));
        let mut opening = std::pin::pin!(open());
        assert!(futures_util::poll!(&mut opening).is_pending());
        std::fs::write(&file, "https://hooks.example.com/x").unwrap();
        assert!(opening.await.is_some());
        std::fs::remove_file(&file).unwrap();
        stop.cancel();
        assert!(open().await.is_none());
    }
}
