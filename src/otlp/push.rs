//! The push of metrics: at each interval, the values of that moment. A push that fails is not repeated, and nothing is kept
//! for it: the next one has the sums. Runs on its own thread, so that handlers do not delay it, nor does it delay them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::PushTarget;
use super::destination::{Answer, Destination, LAST_SEND_TIMEOUT, address, resource};
use super::request::{Span, attribute, request};
use crate::batcher::finish;
use crate::event::{Event, Events, PushResult, ReportEvent};

/// What is added to a collector's address.
const PATH: &str = "/v1/metrics";

/// How much longer to wait for the thread to end.
const MARGIN: Duration = Duration::from_millis(250);

/// The push of metrics to a collector, not yet started. Open it before anything is counted: the sums begin then.
pub struct Push {
    destination: Destination,
    resource: Resource,
    interval: Duration,
    began: SystemTime,
}

/// A running push of metrics.
#[must_use]
pub struct Pushing {
    stop: DropGuard,
    ended: oneshot::Receiver<()>,
}

impl Push {
    /// Sets up the push. Whether the collector answers only shows with the first one.
    ///
    /// # Errors
    ///
    /// If the endpoint is not an address, or the headers cannot be read.
    pub fn open(target: &PushTarget) -> Result<Self, String> {
        let headers = (target.headers_file.as_deref(), target.headers.as_ref());
        let destination = Destination::open(&target.endpoint, PATH, headers)?;
        let attributes = resource(&target.service_name).into_iter();
        let attributes = attributes.map(|(name, value)| attribute(name, &value)).collect();
        let resource = Resource { attributes, ..Default::default() };
        Ok(Self { destination, resource, interval: target.interval, began: wall_clock() })
    }

    /// Starts pushing what `read` returns: all metrics in Prometheus's text format.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        self,
        read: impl Fn() -> String + Send + 'static,
        events: Events,
    ) -> Result<Pushing, String> {
        let unable = |error: std::io::Error| format!("cannot start the thread that pushes metrics: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
        let (stop, (ending, ended)) = (CancellationToken::new(), oneshot::channel());
        let stopped = stop.clone();
        let work = move || {
            let rounds = self.run(read, &events, &stopped);
            runtime.block_on(finish(rounds, (&stopped, LAST_SEND_TIMEOUT)));
            runtime.shutdown_background();
            drop(ending);
        };
        std::thread::Builder::new().name("metrics".to_owned()).spawn(work).map_err(unable)?;
        Ok(Pushing { stop: stop.drop_guard(), ended })
    }

    /// Pushes until `stop`, and then once more.
    async fn run(&self, read: impl Fn() -> String, events: &Events, stop: &CancellationToken) {
        // Processes that start together do not push together.
        let mut pause = self.interval.mul_f64(rand::random());
        let mut failures = 0;
        loop {
            let is_last = stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none();
            let body = self.body(&read());
            let (result, own, why) = told(self.destination.post(body).await);
            if result != PushResult::Accepted {
                failures += 1;
            }
            events.emit(&Event::Report(ReportEvent::MetricsPushed { result, failures, why: &why }));
            if result == PushResult::Accepted {
                failures = 0;
            }
            if is_last {
                return;
            }
            pause = own.unwrap_or_default().max(self.interval);
        }
    }

    fn body(&self, text: &str) -> Bytes {
        let nanos = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        };
        let start = nanos(self.began);
        // The clock may have been set back.
        let span = Span { start, now: nanos(wall_clock()).max(start) };
        request(text, self.resource.clone(), span).encode_to_vec().into()
    }
}

impl Pushing {
    /// Pushes once more, for at most two seconds.
    pub async fn close(self) {
        drop(self.stop);
        // Nothing is sent through this channel. Its sender is dropped when the thread ends.
        if tokio::time::timeout(LAST_SEND_TIMEOUT + MARGIN, self.ended).await.is_err() {
            tracing::warn!("the last metrics were not pushed");
        }
    }
}

/// Returns what became of a push, how long the collector asks to wait, and why.
fn told(answer: Answer) -> (PushResult, Option<Duration>, String) {
    match answer {
        Answer::Accepted { rejected: 0 } => (PushResult::Accepted, None, String::new()),
        Answer::Accepted { rejected } => {
            (PushResult::Refused, None, format!("the collector rejected {rejected} values"))
        }
        Answer::Refused { why } => (PushResult::Refused, None, why),
        Answer::Later { pause, why } => (PushResult::Unreachable, pause, why),
    }
}

/// Checks the address of a collector.
///
/// # Errors
///
/// Says what is wrong with it, without showing it.
pub fn check_metrics_endpoint(endpoint: &str) -> Result<(), String> {
    address(endpoint, PATH).map(drop)
}

/// The time by this machine's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the collector compares it with clocks of machines, not with Redis's"
)]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}
