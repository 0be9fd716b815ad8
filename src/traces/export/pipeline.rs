//! The way of spans to a collector: how it is set up, started, and stopped within a time limit.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::{Layer, Registry};

use super::exporter::{self, Exporter};
use super::funnel::Funnel;
use crate::batcher::{Batcher, finish, lossy_queue};
use crate::event::Events;
use crate::otlp::destination::{Destination, LAST_SEND_TIMEOUT, resource};
use crate::traces::{Config, Error};

/// What is added to a collector's address.
pub(super) const PATH: &str = "/v1/traces";

/// How many ended spans may wait for the collector.
const WAITING_MAX: usize = 4096;

/// How many of a handler's log lines one span keeps.
const EVENTS_MAX: u32 = 32;
const ATTRIBUTES_MAX: u32 = 64;

/// How much longer to wait for the thread to end.
const MARGIN: Duration = Duration::from_millis(250);

/// The export of spans to a collector, not yet started.
///
/// ```
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::event::Events;
/// use streamfleet::traces::{Config, Traces};
/// use streamfleet::{Fleet, FleetConfig, Shutdown};
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::util::SubscriberInitExt;
///
/// let config = Config::default().endpoint("http://127.0.0.1:4318");
/// let traces = Traces::configured(&config)?.expect("an endpoint is configured");
/// tracing_subscriber::registry().with(traces.layer()).init();
/// let exporting = traces.start(Events::default())?;
/// Fleet::builder(FleetConfig::default()).traced().build().run(Shutdown::new()).await?;
/// exporting.close().await;
/// # Ok(()) }
/// ```
pub struct Traces {
    provider: SdkTracerProvider,
    resource: Resource,
    destination: Destination,
    spans: Batcher<SpanData>,
}

/// A running export of spans to a collector.
#[must_use]
pub struct Exporting {
    stop: DropGuard,
    ended: oneshot::Receiver<()>,
}

impl Traces {
    /// Whether this build has the feature `otlp`.
    #[doc(hidden)]
    pub const AVAILABLE: bool = true;

    /// Sets up what the configuration asks for. Returns `None` if it names no endpoint.
    ///
    /// # Errors
    ///
    /// [`Error`] if the endpoint is not an address, or if the headers file cannot be read.
    pub fn configured(config: &Config) -> Result<Option<Self>, Error> {
        let Some(endpoint) = config.wanted() else { return Ok(None) };
        let headers = (config.headers_file.as_deref(), config.headers.as_ref());
        let destination = Destination::open(endpoint, PATH, headers).map_err(Error)?;
        let (sender, spans) = lossy_queue(WAITING_MAX);
        let attributes = resource(&config.service_name).map(|(name, value)| KeyValue::new(name, value));
        let resource = Resource::builder_empty().with_attributes(attributes).build();
        let roots = Sampler::TraceIdRatioBased(config.ratio);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Funnel { spans: sender })
            .with_sampler(Sampler::ParentBased(Box::new(roots)))
            .with_max_events_per_span(EVENTS_MAX)
            .with_max_attributes_per_span(ATTRIBUTES_MAX)
            .with_max_attributes_per_event(ATTRIBUTES_MAX)
            .with_resource(resource.clone())
            .build();
        Ok(Some(Self { provider, resource, destination, spans }))
    }

    /// Returns the layer that a subscriber needs to create spans, of level `info` and above. Add it directly to the
    /// registry.
    pub fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let layer = OpenTelemetryLayer::new(self.provider.tracer("streamfleet"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_error_events_to_status(false);
        Box::new(layer.with_filter(LevelFilter::INFO))
    }

    /// Starts the export on its own thread: handlers that block the runtime do not delay it, nor does it delay them.
    ///
    /// # Errors
    ///
    /// [`Error`] if the thread cannot be started.
    pub fn start(self, events: Events) -> Result<Exporting, Error> {
        let Self { provider: _, resource, destination, spans } = self;
        let resource = (&resource).into();
        let (dropped, listening) = (spans.dropped.clone(), events.clone());
        let mut exporter = Exporter { destination, resource, spans, events, under_way: 0 };
        let unable =
            |error: std::io::Error| Error(format!("endpoint: cannot start the export thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
        let (stop, (ending, ended)) = (CancellationToken::new(), oneshot::channel());
        let stopped = stop.clone();
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = finish(exporter.run(&stopped), (&stopped, LAST_SEND_TIMEOUT)) => {}
                    () = exporter::report_dropped(&dropped, &listening) => {}
                }
            });
            exporter.end();
            runtime.shutdown_background();
            drop(ending);
        };
        std::thread::Builder::new().name("traces".to_owned()).spawn(work).map_err(unable)?;
        Ok(Exporting { stop: stop.drop_guard(), ended })
    }
}

impl Exporting {
    /// Sends the remaining spans, for at most two seconds.
    pub async fn close(self) {
        drop(self.stop);
        // Nothing is sent through this channel. Its sender is dropped when the thread ends.
        if tokio::time::timeout(LAST_SEND_TIMEOUT + MARGIN, self.ended).await.is_err() {
            tracing::warn!("the last spans were not exported");
        }
    }
}
