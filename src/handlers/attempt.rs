//! The facts about an attempt that a program or an endpoint receives.

use crate::JobContext;

/// Returns the facts of an attempt, named by the last part of their full names: `id` becomes `STREAMFLEET_JOB_ID` and
/// `X-Streamfleet-Job-Id`.
pub(super) fn facts(context: &JobContext) -> [(&'static str, String); 5] {
    [
        ("id", context.id().to_string()),
        ("type", context.job_type().to_string()),
        ("queue", context.queue().to_string()),
        ("attempt", context.attempt().to_string()),
        ("fence", context.fence().to_string()),
    ]
}

/// Returns the trace context if it is plain text. It comes from the producer, who may have sent anything.
pub(super) fn traceparent(context: &JobContext) -> Option<&str> {
    const MAX_BYTES: usize = 256;
    context
        .traceparent()
        .filter(|text| text.len() <= MAX_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic()))
}
