//! A fleet inside the test process, and a collector that receives its spans.

use streamfleet::event::Events;
use streamfleet::job::JobId;
use streamfleet::traces::{Config, Exporting, Traces};
use streamfleet::{Builder, Fleet, Handler, Producer, Queue, Submission};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::collector::Collector;
use harness::fleet::{Running, config, queue, quick};
use harness::redis_server::RedisServer;

/// The trace of a submitter.
pub(super) const SUBMITTER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
pub(super) const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
pub(super) const SPAN: u64 = 0xb7ad_6b71_6920_3331;

/// Spans are recorded only on the thread of this scene, so the runtime has only one thread.
pub(super) struct Scene {
    pub(super) server: RedisServer,
    pub(super) queue: Queue,
    pub(super) collector: Collector,
    exporting: Exporting,
    _guard: DefaultGuard,
}

impl Scene {
    pub(super) async fn start() -> Self {
        Self::sampling(1.0).await
    }

    /// Starts a scene that samples this share of the jobs without a submitter's trace.
    pub(super) async fn sampling(ratio: f64) -> Self {
        let collector = Collector::start().await;
        let traces = Config::default().endpoint(collector.endpoint()).ratio(ratio);
        let traces = Traces::configured(&traces).unwrap().unwrap();
        let _guard = tracing_subscriber::registry().with(traces.layer()).set_default();
        let exporting = traces.start(Events::default()).unwrap();
        let server = RedisServer::start();
        let queue = queue(&server).await;
        Self { server, queue, collector, exporting, _guard }
    }

    /// Starts a fleet with one handler for the type `test`.
    pub(super) fn fleet(&self, handler: impl Handler) -> Running {
        Running::of(self.builder(handler).traced().build())
    }

    pub(super) fn builder(&self, handler: impl Handler) -> Builder {
        Fleet::builder(config(&self.server.url())).handler_with("test", quick(5), handler).unwrap()
    }

    /// Submits a job of the type `test` that belongs to a trace.
    pub(super) async fn submit(&self, traceparent: Option<&str>) -> JobId {
        let plain = Submission::new("test").unwrap();
        let submission = match traceparent {
            Some(traceparent) => plain.traceparent(traceparent),
            None => plain,
        };
        Producer::new(self.queue.clone()).submit(submission).await.unwrap()
    }

    /// Returns this field of the first dead letter.
    pub(super) async fn dead(&self, field: &str) -> String {
        self.queue.dead_letters().page(None, 1).await.unwrap()[0].text(field)
    }

    pub(super) async fn end(self, fleet: Running) {
        fleet.stop().await;
        self.exporting.close().await;
    }
}
