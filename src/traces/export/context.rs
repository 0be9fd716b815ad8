//! Converts between our trace contexts and OpenTelemetry's.

use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState};
use opentelemetry::{Context, SpanId, TraceId};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::job::TraceContext;

/// Creates the spans of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracer(());

impl Tracer {
    /// Returns the tracer, which this build has.
    pub(crate) fn new() -> Option<Self> {
        Some(Self(()))
    }
}

/// Sets the parent and the link of a span that has not started, starts it, and returns its trace context. Returns
/// `None` if no layer of this process's subscriber creates OpenTelemetry spans.
pub(in crate::traces) fn start_linked(
    span: &tracing::Span,
    parent: Option<TraceContext>,
    link: Option<TraceContext>,
) -> Option<TraceContext> {
    if let Some(parent) = parent {
        span.set_parent(Context::new().with_remote_span_context(to_otel(parent))).ok()?;
    }
    // A span that was not sampled is never exported, so a link to it would lead nowhere.
    if let Some(link) = link.filter(TraceContext::is_sampled) {
        span.add_link(to_otel(link));
    }
    from_otel(span.context().span().span_context())
}

/// Returns the current trace context, if there is one.
pub(crate) fn current() -> Option<TraceContext> {
    Context::map_current(|context| from_otel(context.span().span_context()))
}

fn to_otel(context: TraceContext) -> SpanContext {
    let (trace, span) = (TraceId::from(context.trace_id()), SpanId::from(context.span_id()));
    SpanContext::new(trace, span, TraceFlags::new(context.flags()), true, TraceState::default())
}

fn from_otel(context: &SpanContext) -> Option<TraceContext> {
    let (trace, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
    TraceContext::new(u128::from_be_bytes(trace), u64::from_be_bytes(span), context.trace_flags().to_u8())
}
