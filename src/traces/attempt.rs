//! The spans of an attempt and of its steps: their names, attributes and status. They follow OpenTelemetry's
//! conventions for messaging, and never contain a payload, a header or an error's text.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tracing::Instrument;
use tracing::field::Empty;

use super::export::{self, Tracer};
use crate::event::Ending;
use crate::job::{
    ConsumerName, Envelope, FailureKind, JobSpec, Outcome, QueueName, StepName, TraceContext, TraceState,
};

/// The target of the spans of attempts, for filters.
pub const TARGET: &str = "streamfleet::attempt";

/// What is known about an attempt when it starts.
pub(crate) struct AttemptFacts<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) consumer: &'a ConsumerName,
    pub(crate) job: &'a JobSpec,
    pub(crate) envelope: &'a Envelope,
    /// The time from when the job was ready until the attempt starts.
    pub(crate) wait: Duration,
}

/// The span of a running attempt or step. It ends when it is dropped.
pub(crate) struct AttemptSpan {
    span: tracing::Span,
    /// Its trace context, for whatever the attempt calls.
    pub(crate) context: TraceContext,
}

impl Tracer {
    /// Starts the span of an attempt: a child of the span that submitted the job, or otherwise of the previous attempt.
    /// It is linked to the previous attempt in either case. Returns `None` if nothing in this process records spans.
    pub(crate) fn begin(&self, facts: &AttemptFacts<'_>) -> Option<AttemptSpan> {
        let AttemptFacts { queue, consumer, job, envelope, wait } = facts;
        let carried = |name: &[u8]| envelope.get(name).and_then(TraceContext::parse);
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "attempt",
            "otel.name" = %format_args!("process {}", job.job_type),
            "otel.kind" = "consumer",
            "otel.status_code" = Empty,
            "messaging.system" = "streamfleet",
            "messaging.operation.name" = "process",
            "messaging.operation.type" = "process",
            "messaging.destination.name" = queue.as_str(),
            "messaging.message.id" = %job.id,
            "messaging.client.id" = consumer.as_str(),
            "streamfleet.job_type" = job.job_type.as_str(),
            "streamfleet.lane" = job.own_lane.as_str(),
            "streamfleet.attempt" = i64::from(job.attempt) + 1,
            "streamfleet.lost" = i64::from(job.lost),
            "streamfleet.wait_ms" = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX),
            "streamfleet.outcome" = Empty,
            "error.type" = Empty,
        );
        let before = carried(b"trace_link");
        let own = carried(b"traceparent").map(|own| (own, TraceState::carried(envelope)));
        let parent = own.or_else(|| Some((before?, None)));
        let context = export::start_linked(&span, parent, before)?;
        Some(AttemptSpan { span, context })
    }

    /// Starts the span of a step, inside the span of the current task's attempt.
    pub(crate) fn begin_step(&self, name: &StepName, attempts: u32) -> Option<AttemptSpan> {
        let span = tracing::info_span!(
            target: TARGET,
            "step",
            "otel.name" = %format_args!("step {name}"),
            "otel.status_code" = Empty,
            "streamfleet.step" = name.as_str(),
            "streamfleet.attempt" = i64::from(attempts) + 1,
            "error.type" = Empty,
        );
        let context = export::start_linked(&span, None, None)?;
        Some(AttemptSpan { span, context })
    }
}

impl AttemptSpan {
    /// Ends the span with the attempt's outcome, and with what follows for the job.
    pub(crate) fn end(self, outcome: &Outcome, ending: Ending) {
        self.span.record("streamfleet.outcome", ending.as_str());
        self.end_step(outcome);
    }

    /// Ends the span of a step.
    pub(crate) fn end_step(self, outcome: &Outcome) {
        match outcome {
            // Set explicitly, so that an error that the handler logged and recovered from does not count as the
            // attempt's.
            Outcome::Done(_) => self.status("ok"),
            Outcome::Failed(failure) => {
                let kind: FailureKind = failure.kind;
                self.span.record("error.type", kind.as_str());
                self.status("error");
            }
            Outcome::Snoozed(_)
            | Outcome::Interrupted
            | Outcome::Cancelled
            | Outcome::Dropped(_)
            | Outcome::NotDue(_)
            | Outcome::Parked(_)
            | Outcome::Unroutable
            | Outcome::Expired
            | Outcome::Lost(_)
            | Outcome::Malformed(_)
            | Outcome::Invalid(_) => {}
        }
    }

    fn status(&self, code: &str) {
        self.span.record("otel.status_code", code);
    }
}

/// Runs the future inside the span, if there is one.
pub(crate) fn within<'a, T: 'a>(span: Option<&AttemptSpan>, running: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
    match span {
        None => running,
        Some(AttemptSpan { span, .. }) => Box::pin(running.instrument(span.clone())),
    }
}
