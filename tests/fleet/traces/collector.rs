//! A stand-in for a collector: an HTTP server that reads OTLP like a real one.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use streamfleet::job::TraceContext;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);

/// A collector on loopback.
pub(super) struct Collector {
    server: MockServer,
}

impl Collector {
    /// Starts a collector that accepts everything.
    pub(super) async fn start() -> Self {
        Self::answering(&[]).await
    }

    /// Starts a collector that answers with each of these status codes once, and then accepts everything.
    pub(super) async fn answering(first: &[u16]) -> Self {
        let server = MockServer::start().await;
        for status in first {
            let refused = export().respond_with(ResponseTemplate::new(*status)).up_to_n_times(1);
            refused.mount(&server).await;
        }
        export().respond_with(ResponseTemplate::new(200)).mount(&server).await;
        Self { server }
    }

    pub(super) fn endpoint(&self) -> String {
        self.server.uri()
    }

    /// Returns the requests that arrived, decoded.
    pub(super) async fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let requests = self.server.received_requests().await.unwrap();
        requests.iter().map(|request| ExportTraceServiceRequest::decode(&*request.body).unwrap()).collect()
    }

    /// Returns the requests that arrived, as bytes with the headers.
    pub(super) async fn raw(&self) -> Vec<wiremock::Request> {
        self.server.received_requests().await.unwrap()
    }

    /// Waits for this many spans. Returns them in the order in which they began.
    pub(super) async fn spans(&self, count: usize) -> Vec<Span> {
        until_async(&format!("{count} spans"), SOON, async || {
            let mut spans: Vec<Span> = self
                .requests()
                .await
                .into_iter()
                .flat_map(|request| request.resource_spans)
                .flat_map(|resource| resource.scope_spans)
                .flat_map(|scope| scope.spans)
                .collect();
            spans.sort_by_key(|span| span.start_time_unix_nano);
            (spans.len() >= count).then_some(spans)
        })
        .await
    }
}

fn export() -> wiremock::MockBuilder {
    Mock::given(method("POST")).and(path("/v1/traces")).and(header("content-type", "application/x-protobuf"))
}

/// Returns the trace context of a span.
pub(super) fn place(span: &Span) -> TraceContext {
    TraceContext::new(trace(span), id(&span.span_id), 1).unwrap()
}

pub(super) fn trace(span: &Span) -> u128 {
    u128::from_be_bytes(span.trace_id.as_slice().try_into().unwrap())
}

/// Returns the id of the parent; zero for a root.
pub(super) fn parent(span: &Span) -> u64 {
    if span.parent_span_id.is_empty() { 0 } else { id(&span.parent_span_id) }
}

/// Returns the traces and spans that it links to.
pub(super) fn links(span: &Span) -> Vec<(u128, u64)> {
    let trace = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap());
    span.links.iter().map(|link| (trace(&link.trace_id), id(&link.span_id))).collect()
}

fn id(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Returns an attribute as text.
pub(super) fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    attributes.iter().find(|pair| pair.key == name).map(shown)
}

/// Returns all attributes, as `name=value`.
pub(super) fn attributes(span: &Span) -> Vec<String> {
    span.attributes.iter().map(|pair| format!("{}={}", pair.key, shown(pair))).collect()
}

fn shown(pair: &KeyValue) -> String {
    match pair.value.as_ref() {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => text.clone(),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => number.to_string(),
        other => format!("{other:?}"),
    }
}
