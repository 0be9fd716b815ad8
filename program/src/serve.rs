//! Runs a worker process until it is asked to stop: what `worker` and `dev` have in common.

use std::thread::JoinHandle;

use anyhow::Context as _;
use streamfleet::config::Effective;
use streamfleet::event::Events;
use streamfleet::telemetry::{Answers, Listen, Listener, Metrics, NotListening, ServedQueue, logs};
use streamfleet::traces::Traces;
use streamfleet::{Builder, Shutdown};
use tokio_util::sync::CancellationToken;

use super::Wrong;
use super::systemd::Telling;

/// What to do if the telemetry port cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// Refuse to start: a worker that nobody can monitor is worse than none.
    Required,
    /// Run without it.
    IfFree,
}

/// A process that is ready to run.
pub(crate) struct Process {
    builder: Builder,
    metrics: Metrics,
    listener: Option<Listener>,
    traces: Option<Traces>,
    // Declared last, so that it is dropped last.
    _logs: logs::Flush,
}

impl Process {
    /// Creates the handlers and opens the port. Does not connect to Redis yet.
    pub(crate) async fn prepare(effective: &Effective, port: Port) -> anyhow::Result<Self> {
        let builder = effective.fleet().map_err(|invalid| Wrong(invalid.to_string()))?;
        Self::of(builder, effective, port).await
    }

    /// Does the same, with handlers in addition to the configured ones.
    pub(crate) async fn of(builder: Builder, effective: &Effective, port: Port) -> anyhow::Result<Self> {
        let telemetry = &effective.config.telemetry;
        let traces = Traces::configured(&telemetry.traces).map_err(|error| Wrong(error.to_string()))?;
        let logs = logs::start(telemetry, traces.as_ref()).map_err(Wrong)?;
        let builder = if traces.is_some() { builder.traced() } else { builder };
        let listener = match telemetry.listen {
            Listen::Off => None,
            Listen::At(address) => opened(Listener::open(address), port)?,
        };
        let queues = effective.config.queues.iter().map(|(name, queue)| ServedQueue {
            name,
            slots: queue.concurrency,
            objectives: (&queue.objectives).into(),
        });
        let metrics = Metrics::new(queues, &builder.types(), &effective.config.programs());
        Ok(Self { builder, metrics, listener, traces, _logs: logs })
    }

    /// Returns the URL of the metrics, with the actual port if the configured one is 0.
    pub(crate) fn metrics_url(&self) -> Option<String> {
        let address = self.listener.as_ref()?.address().ok()?;
        Some(format!("http://{address}/metrics"))
    }

    /// Runs until `shutdown`.
    pub(crate) async fn run(self, shutdown: Shutdown) -> anyhow::Result<()> {
        let listeners = match &self.listener {
            Some(_) => vec![self.metrics.listener(), logs::listener()],
            // Without a listener, nobody would read the metrics or clear what they collect.
            None => vec![logs::listener()],
        };
        let events = Events::new(listeners);
        let exporting = self.traces.map(|traces| traces.start(events.clone())).transpose()?;
        let fleet = self.builder.events(events).build();
        let stop = CancellationToken::new();
        let answers = Answers { metrics: self.metrics, probe: fleet.probe(), scale: fleet.autoscale() };
        let telling =
            Telling::start(fleet.probe()).context("failed to start the thread that notifies systemd")?;
        let answering = answer(self.listener, answers, stop.clone())
            .context("failed to start the thread for probes and metrics")?;
        let ran = Box::pin(fleet.run(shutdown)).await;
        if let Some(exporting) = exporting {
            exporting.close().await;
        }
        stop.cancel();
        // It ends within half a second. A panic in it was already reported and affects nothing else.
        tokio::task::spawn_blocking(move || answering.map(JoinHandle::join)).await?;
        telling.stop();
        Ok(ran?)
    }
}

fn opened(opened: Result<Listener, NotListening>, port: Port) -> anyhow::Result<Option<Listener>> {
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
fn answer(
    listener: Option<Listener>,
    answers: Answers,
    stop: CancellationToken,
) -> std::io::Result<Option<JoinHandle<()>>> {
    let Some(listener) = listener else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let named = std::thread::Builder::new().name("telemetry".to_owned());
    named.spawn(move || runtime.block_on(listener.run(answers, stop))).map(Some)
}

/// Joins names on one line.
pub(crate) fn listed<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
