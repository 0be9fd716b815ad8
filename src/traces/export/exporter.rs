//! Sends spans to the collector in batches. A batch that the collector does not accept is retried for a while, then
//! dropped and counted. Meanwhile new spans wait in a bounded queue.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use tokio_util::sync::CancellationToken;

use crate::batcher::{BatchLimits, Batcher, Dropped};
use crate::event::{Event, Events, ReportEvent, SpanLoss};
use crate::job::jittered;
use crate::otlp::destination::{Answer, Destination};

/// The spans of one request.
const LIMITS: BatchLimits = BatchLimits { most: 512, linger: Duration::from_secs(1), lingers_full: false };

/// How often spans that were dropped from a full queue are reported.
const EVERY: Duration = Duration::from_secs(1);

/// The pauses before the retries of a batch.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// Sends spans.
pub(super) struct Exporter {
    pub(super) destination: Destination,
    pub(super) resource: ResourceAttributesWithSchema,
    pub(super) spans: Batcher<SpanData>,
    pub(super) events: Events,
    /// The number of spans in the batch that is being sent.
    pub(super) under_way: u64,
}

impl Exporter {
    /// Sends spans until `stop`, and then the rest.
    pub(super) async fn run(&mut self, stop: &CancellationToken) {
        loop {
            let batch = self.spans.batch(LIMITS, stop).await;
            if batch.is_empty() {
                return;
            }
            self.send(batch, stop).await;
        }
    }

    /// Reports the spans that are left if there was no time to send them.
    pub(super) fn end(mut self) {
        let left = self.under_way + self.spans.discard();
        report_lost(&self.events, left, SpanLoss::Unreachable, "the process stops");
        report_full(&self.spans.dropped, &self.events);
    }

    async fn send(&mut self, batch: Vec<SpanData>, stop: &CancellationToken) {
        let count = batch.len() as u64;
        self.under_way = count;
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = Bytes::from(ExportTraceServiceRequest { resource_spans }.encode_to_vec());
        let mut pauses = PAUSES.iter();
        loop {
            let (own, why) = match self.destination.post(body.clone()).await {
                Answer::Accepted { rejected } => {
                    let rejected = rejected.min(count);
                    self.events.emit(&Event::Report(ReportEvent::Exported { spans: count - rejected }));
                    report_lost(&self.events, rejected, SpanLoss::Refused, "the collector rejected them");
                    break;
                }
                Answer::Refused { why } => {
                    report_lost(&self.events, count, SpanLoss::Refused, &why);
                    break;
                }
                Answer::Later { pause, why } => (pause, why),
            };
            let Some(pause) = pauses.next().filter(|_| !stop.is_cancelled()) else {
                report_lost(&self.events, count, SpanLoss::Unreachable, &why);
                break;
            };
            let pause = jittered(own.unwrap_or(*pause), 0.75..1.25, rand::random());
            tracing::debug!(why, ?pause, "resending spans");
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
        self.under_way = 0;
    }
}

/// Reports spans that were dropped from a full queue, however long the collector takes for the others.
pub(super) async fn report_dropped(dropped: &Dropped, events: &Events) {
    loop {
        tokio::time::sleep(EVERY).await;
        report_full(dropped, events);
    }
}

fn report_full(dropped: &Dropped, events: &Events) {
    report_lost(events, dropped.take(), SpanLoss::Full, "too many are waiting for the collector");
}

fn report_lost(events: &Events, spans: u64, loss: SpanLoss, why: &str) {
    if spans > 0 {
        events.emit(&Event::Report(ReportEvent::Unexported { spans, loss, why }));
    }
}
