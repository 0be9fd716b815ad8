//! Runs a fleet's process until a signal stops it: what `worker` and `dev` have in common.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use streamfleet::config::Effective;
use streamfleet::event::Events;
use streamfleet::telemetry::{Listen, Listener, Metrics, NotListening, logs};
use streamfleet::{Builder, Probe, Shutdown};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Wrong;

/// What to do where the telemetry's port cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// Refuse to start: an unseen worker is worse than none.
    Required,
    /// Do without.
    IfFree,
}

/// A process that is ready to run.
pub(crate) struct Process {
    builder: Builder,
    metrics: Metrics,
    listener: Option<Listener>,
    // Declared last, so that it is dropped last.
    _logs: logs::Flush,
}

impl Process {
    /// Makes the handlers and opens the port. Redis is not asked yet.
    pub(crate) async fn prepare(effective: &Effective, port: Port) -> anyhow::Result<Self> {
        let builder = effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
        Self::of(builder, effective, port).await
    }

    /// The same with handlers beyond the configured ones.
    pub(crate) async fn of(builder: Builder, effective: &Effective, port: Port) -> anyhow::Result<Self> {
        let telemetry = &effective.config.telemetry;
        let logs = logs::start(telemetry).map_err(Wrong)?;
        let listener = match telemetry.listen {
            Listen::Off => None,
            Listen::At(address) => opened(Listener::open(address).await, port)?,
        };
        let queues = effective.config.queues.iter().map(|(name, queue)| (name, queue.concurrency));
        let metrics = Metrics::new(queues, &builder.types());
        Ok(Self { builder, metrics, listener, _logs: logs })
    }

    /// Where metrics and probes are served, with the port that the system chose for port 0.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        let address = self.listener.as_ref()?.address().ok()?;
        Some(format!("http://{address}/metrics"))
    }

    /// Works until `shutdown`, which signals request too.
    pub(crate) async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        let listeners = match &self.listener {
            Some(_) => vec![self.metrics.listener(), logs::listener()],
            // Nobody would read the figures, nor do their upkeep.
            None => vec![logs::listener()],
        };
        let fleet = self.builder.events(Events::new(listeners)).build();
        let signals = Watch::start(shutdown.clone()).context("signals cannot be watched")?;
        let stop = CancellationToken::new();
        let mut telemetry = answer(self.listener, self.metrics, fleet.probe(), &stop);
        let ran = Box::pin(fleet.run(shutdown)).await;
        stop.cancel();
        while telemetry.join_next().await.is_some() {}
        drop(signals);
        Ok(ran?)
    }
}

fn opened(opened: Result<Listener, NotListening>, port: Port) -> anyhow::Result<Option<Listener>> {
    match opened {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if port == Port::IfFree => {
            tracing::warn!(%error, "no metrics");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Probes and metrics are answered until the fleet has stopped: somebody may want to see how it does.
fn answer(
    listener: Option<Listener>,
    metrics: Metrics,
    probe: Probe,
    stop: &CancellationToken,
) -> JoinSet<()> {
    let mut telemetry = JoinSet::new();
    if let Some(listener) = listener {
        telemetry.spawn(listener.run(metrics, probe, stop.clone()));
    }
    telemetry
}

/// Turns SIGTERM and SIGINT into requests to stop: the first in good order, the second at once.
pub(crate) struct Watch {
    handle: Handle,
}

impl Watch {
    pub(crate) fn start(shutdown: Shutdown) -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let handle = signals.handle();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                let signal = signal_hook::low_level::signal_name(signal).unwrap_or("signal");
                let again = shutdown.is_requested();
                tracing::info!(signal, again, "asked to stop");
                shutdown.request();
            }
        })?;
        Ok(Self { handle })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The types of a fleet in one line.
pub(crate) fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
