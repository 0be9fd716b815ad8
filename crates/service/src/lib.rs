//! A process of its own around a fleet: logs, metrics and probes, traces, signals, and notifications to systemd.
//!
//! ```no_run
//! use streamfleet_service::config::Sources;
//! use streamfleet_service::{Port, Process, Signals};
//! use streamfleet::{Handler, Job};
//!
//! # async fn example<H: Handler<Payload: Job>>(send_mail: H) -> Result<(), Box<dyn std::error::Error>> {
//! let shutdown = Signals::shutdown()?;
//! let effective = Sources::from_environment().read()?; // streamfleet.toml and STREAMFLEET__… variables
//! let fleet = effective.fleet()?.handler(send_mail);
//! Process::prepare(fleet, &effective, Port::Required).await?.run(shutdown).await?;
//! # Ok(()) }
//! ```

#[macro_use]
extern crate streamfleet_domain;

pub mod alerts;
pub mod config;
mod listener;
mod memory;
mod scale;
mod scrapes;
#[doc(hidden)]
pub mod server;
mod signals;
mod systemd;
pub mod telemetry;

use std::convert::Infallible;
use std::io;
use std::thread::JoinHandle;

use streamfleet::job::SinkName;
#[doc(hidden)]
pub use streamfleet_domain::mask_text;
use streamfleet_domain::{cron, job};
use streamfleet_engine as broker;
use tokio_util::sync::CancellationToken;

use crate::alerts::Alerts;
use crate::config::Effective;
use crate::telemetry::{Listen, Metrics, ServedQueue, UPKEEP_EVERY, logs};
use streamfleet::Builder;
use streamfleet::Shutdown;
use streamfleet::event::Events;
use streamfleet::otlp::{Push, Pushing};
use streamfleet::traces::Traces;

pub use listener::NotListening;
use listener::{Answers, Listener};
pub use memory::hide_memory;
pub use signals::Signals;
use systemd::Notifier;

/// Why a process could not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the configuration cannot be used.
    #[error("{0}")]
    Configuration(String),
    /// The telemetry port cannot be opened.
    #[error(transparent)]
    Port(#[from] NotListening),
    /// The system cannot start a thread.
    #[error("failed to start the thread {thread}: {error}")]
    Thread {
        /// What the thread is for.
        thread: &'static str,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The address of Redis, or a bound, cannot be used.
    #[error(transparent)]
    Redis(#[from] broker::Error),
}

/// What to do if the telemetry port cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Refuse to start: a worker that nobody can monitor is worse than none.
    Required,
    /// Run without it.
    IfFree,
}

/// A process that is ready to run.
pub struct Process {
    builder: Builder,
    metrics: Metrics,
    events: Events,
    listener: Option<Listener>,
    traces: Option<Traces>,
    push: Option<Push>,
    alerts: Option<Alerts>,
    // Declared last, so that it is dropped last.
    _logs: logs::Flush,
}

impl Process {
    /// Starts the logs and opens the telemetry port, as the configuration says. Does not connect to Redis yet.
    ///
    /// The builder has its handlers; [`Effective::fleet`] returns one with the configured types.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] if the logs or traces cannot be used as configured, [`Error::Port`] if the port is
    /// [required](Port::Required) and cannot be opened.
    pub async fn prepare(builder: Builder, effective: &Effective, port: Port) -> Result<Self, Error> {
        hide_memory();
        let telemetry = &effective.config.telemetry;
        let traces =
            Traces::configured(&telemetry.traces).map_err(|error| Error::Configuration(error.to_string()))?;
        let push = telemetry.metrics.target(&telemetry.traces.service_name);
        let push = push.map(|target| Push::open(&target)).transpose();
        let push = push.map_err(|reason| Error::Configuration(format!("telemetry.metrics.{reason}")))?;
        let alerts = effective.alerts().map_err(|invalid| Error::Configuration(invalid.to_string()))?;
        let logs = logs::start(telemetry, traces.as_ref()).map_err(Error::Configuration)?;
        let builder = if traces.is_some() { builder.traced() } else { builder };
        let listener = match telemetry.listen {
            Listen::Off => None,
            Listen::At(address) => or_without(Listener::open(address), port)?,
        };
        let queues = effective.config.queues.iter().map(|(name, queue)| ServedQueue {
            name,
            slots: builder.slots(queue.served.concurrency),
            objectives: queue.objectives,
        });
        let sinks: Vec<SinkName> =
            effective.config.alerts.iter().flat_map(|alerts| alerts.sinks.keys().cloned()).collect();
        let metrics = Metrics::new(
            queues,
            &builder.types(),
            &effective.config.programs(),
            &effective.config.pool_names(),
            &sinks,
            (&effective.config.history_queues(), effective.config.outbox.is_some()),
        );
        // Otherwise nobody would read the metrics or clear what they collect.
        let listeners = if listener.is_some() || push.is_some() {
            vec![metrics.listener(), logs::listener()]
        } else {
            vec![logs::listener()]
        };
        let events = Events::new(listeners);
        Ok(Self { builder, metrics, events, listener, traces, push, alerts, _logs: logs })
    }

    /// Returns the events of this process, for what else it does: metrics and logs listen to them.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// Returns the URL of the metrics, with the actual port if the configured one is 0.
    pub fn metrics_url(&self) -> Option<String> {
        let address = self.listener.as_ref()?.address().ok()?;
        Some(format!("http://{address}/metrics"))
    }

    /// Runs until `shutdown` is requested or the worker recycles itself, then stops gracefully.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`] if the address or a bound is unusable, [`Error::Thread`] if the system cannot start a thread.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let events = self.events;
        let exporting = self.traces.map(|traces| traces.start(events.clone())).transpose();
        let exporting = exporting.map_err(|error| Error::Configuration(error.to_string()))?;
        let pushing = self.push.map(|push| start_push(push, &self.metrics, events.clone())).transpose()?;
        let alerts = self.alerts.map(|alerts| alerts.start(events.clone()));
        let fleet = self.builder.events(events).build();
        let stop = CancellationToken::new();
        let upkeep = upkeep(self.metrics.clone(), pushing.is_some() && self.listener.is_none());
        let answers = Answers { metrics: self.metrics, probe: fleet.probe(), scale: fleet.autoscale() };
        let notifier =
            Notifier::start(fleet.probe()).map_err(|error| Error::Thread { thread: "systemd", error })?;
        let server_thread = serve(self.listener, answers, stop.clone())
            .map_err(|error| Error::Thread { thread: "telemetry", error })?;
        let ran = tokio::select! {
            biased;
            ran = Box::pin(fleet.run(shutdown)) => ran,
            never = upkeep => match never {},
        };
        if let Some(alerts) = alerts {
            alerts.stop().await;
        }
        let exported = async {
            if let Some(exporting) = exporting {
                exporting.close().await;
            }
        };
        let pushed = async {
            if let Some(pushing) = pushing {
                pushing.close().await;
            }
        };
        tokio::join!(exported, pushed);
        stop.cancel();
        // It ends within half a second. A panic in it was already reported and affects nothing else.
        tokio::task::spawn_blocking(move || server_thread.map(JoinHandle::join)).await.ok();
        notifier.stop();
        Ok(ran?)
    }
}

fn start_push(push: Push, metrics: &Metrics, events: Events) -> Result<Pushing, Error> {
    let metrics = metrics.clone();
    push.start(move || metrics.render(), events)
        .map_err(|reason| Error::Configuration(format!("telemetry.metrics.endpoint: {reason}")))
}

/// Does the upkeep of metrics that are pushed, if no listener does it.
async fn upkeep(metrics: Metrics, is_ours: bool) -> Infallible {
    if !is_ours {
        return std::future::pending().await;
    }
    let mut beat = tokio::time::interval(UPKEEP_EVERY);
    loop {
        beat.tick().await;
        metrics.upkeep();
    }
}

fn or_without(opened: Result<Listener, NotListening>, port: Port) -> Result<Option<Listener>, Error> {
    match opened {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if port == Port::IfFree => {
            tracing::warn!(%error, "running without metrics and probes");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Serves probes and metrics until the fleet has stopped, so that somebody can still inspect it. Runs on a separate thread,
/// so that handlers that block the other threads do not make the process look dead.
fn serve(
    listener: Option<Listener>,
    answers: Answers,
    stop: CancellationToken,
) -> io::Result<Option<JoinHandle<()>>> {
    let Some(listener) = listener else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let named = std::thread::Builder::new().name("telemetry".to_owned());
    named.spawn(move || runtime.block_on(listener.run(answers, stop))).map(Some)
}
