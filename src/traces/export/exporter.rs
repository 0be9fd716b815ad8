//! Sends spans to the collector in batches. A batch that the collector does not accept is retried for a while, then
//! dropped and counted. Meanwhile new spans wait in a bounded queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::destination::{Answer, Destination};
use crate::event::{Event, Events, SpanLoss};

/// The most spans per request.
const BATCH: usize = 512;

/// The longest that a span waits for others to be sent with it.
const EVERY: Duration = Duration::from_secs(1);

/// The pauses before the retries of a batch.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// Sends spans.
pub(super) struct Exporter {
    pub(super) destination: Destination,
    pub(super) resource: ResourceAttributesWithSchema,
    pub(super) spans: Receiver<SpanData>,
    pub(super) overflow: Arc<AtomicU64>,
    pub(super) events: Events,
    /// The number of spans in the batch that is being sent.
    pub(super) under_way: u64,
}

impl Exporter {
    /// Sends spans until `stop`, and then the rest.
    pub(super) async fn run(&mut self, stop: &CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.gather(&mut batch, stop).await {
            self.send(std::mem::take(&mut batch), stop).await;
        }
    }

    /// Reports the spans that are left if there was no time to send them.
    pub(super) fn end(self) {
        let left = self.under_way + self.spans.len() as u64;
        report_lost(&self.events, left, SpanLoss::Unreachable, "the process stops");
        overflowed(&self.overflow, &self.events);
    }

    /// Waits for spans, and a little longer for more of them. Returns false if no more will come.
    async fn gather(&mut self, batch: &mut Vec<SpanData>, stop: &CancellationToken) -> bool {
        let mut end = None;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            let lingered = async {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // From here on, only the spans already in the queue are read.
                () = stop.cancelled(), if !self.spans.is_closed() => self.spans.close(),
                got = self.spans.recv_many(batch, room) => match got {
                    0 => break,
                    _ => { end.get_or_insert_with(|| Instant::now() + EVERY); }
                },
                () = lingered => break,
            }
        }
        !batch.is_empty()
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
                    self.events.emit(&Event::Exported { spans: count - rejected });
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
            let pause = own.unwrap_or(*pause).mul_f64(0.75 + rand::random::<f64>() / 2.0);
            tracing::debug!(why, ?pause, "resending spans");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        self.under_way = 0;
    }
}

/// Reports spans that were dropped from a full queue, however long the collector takes for the others.
pub(super) async fn report_overflow(overflow: &AtomicU64, events: &Events) {
    loop {
        tokio::time::sleep(EVERY).await;
        overflowed(overflow, events);
    }
}

fn overflowed(overflow: &AtomicU64, events: &Events) {
    let spans = overflow.swap(0, Ordering::Relaxed);
    report_lost(events, spans, SpanLoss::Full, "too many are waiting for the collector");
}

fn report_lost(events: &Events, spans: u64, loss: SpanLoss, why: &str) {
    if spans > 0 {
        events.emit(&Event::Unexported { spans, loss, why });
    }
}
