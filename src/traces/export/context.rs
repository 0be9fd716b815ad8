//! Converts between our trace contexts and OpenTelemetry's.

use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState};
use opentelemetry::{Context, SpanId, TraceId};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::job::TraceContext;
use crate::traces::Trace;

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
    parent: Option<(TraceContext, Option<&str>)>,
    link: Option<TraceContext>,
) -> Option<TraceContext> {
    if let Some(parent) = parent {
        span.set_parent(Context::new().with_remote_span_context(to_otel(parent.0, parent.1))).ok()?;
    }
    // A span that was not sampled is never exported, so a link to it would lead nowhere.
    if let Some(link) = link.filter(TraceContext::is_sampled) {
        span.add_link(to_otel(link, None));
    }
    from_otel(span.context().span().span_context())
}

/// Returns the current trace context, if there is one.
pub(crate) fn current() -> Option<Trace> {
    Context::map_current(|context| {
        let span = context.span();
        let span = span.span_context();
        let state = crate::job::TraceState::parse(span.trace_state().header().as_bytes());
        Some(Trace { context: from_otel(span)?, state })
    })
}

fn to_otel(context: TraceContext, state: Option<&str>) -> SpanContext {
    let (trace, span) = (TraceId::from(context.trace_id()), SpanId::from(context.span_id()));
    let state = state.and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    SpanContext::new(trace, span, TraceFlags::new(context.flags()), true, state)
}

fn from_otel(context: &SpanContext) -> Option<TraceContext> {
    let (trace, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
    TraceContext::new(u128::from_be_bytes(trace), u64::from_be_bytes(span), context.trace_flags().to_u8())
}
