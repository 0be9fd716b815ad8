//! Between our trace contexts and OpenTelemetry's.

use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState};
use opentelemetry::{Context, SpanId, TraceId};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::job::TraceContext;

/// Makes the spans of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracer(());

impl Tracer {
    /// There is one.
    pub(crate) fn new() -> Option<Self> {
        Some(Self(()))
    }
}

/// Puts a span that has not begun into its place, begins it, and says where it is. `None` where no layer of this process's
/// subscriber makes spans of OpenTelemetry.
pub(super) fn hang(
    span: &tracing::Span,
    parent: Option<TraceContext>,
    link: Option<TraceContext>,
) -> Option<TraceContext> {
    if let Some(parent) = parent {
        span.set_parent(Context::new().with_remote_span_context(remote(parent))).ok()?;
    }
    // What was not sampled is nowhere to be found.
    if let Some(link) = link.filter(TraceContext::is_sampled) {
        span.add_link(remote(link));
    }
    ours(span.context().span().span_context())
}

/// Where this task is in a trace, if it is in one.
pub(crate) fn current() -> Option<TraceContext> {
    Context::map_current(|context| ours(context.span().span_context()))
}

fn remote(context: TraceContext) -> SpanContext {
    let (trace, span) = (TraceId::from(context.trace_id()), SpanId::from(context.span_id()));
    SpanContext::new(trace, span, TraceFlags::new(context.flags()), true, TraceState::default())
}

fn ours(context: &SpanContext) -> Option<TraceContext> {
    let (trace, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
    TraceContext::new(u128::from_be_bytes(trace), u64::from_be_bytes(span), context.trace_flags().to_u8())
}
