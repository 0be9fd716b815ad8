//! How spans get to a collector.
//!
//! `context` places the span of an attempt under the job's `traceparent`. When a span ends, `funnel` passes it on if the queue
//! has room. `exporter` sends the spans, on its own thread, to a destination of `otlp`. [`Traces`] connects these parts.

mod context;
mod exporter;
mod funnel;
mod pipeline;

pub(super) use context::start_linked;
pub(crate) use context::{Tracer, current};
pub use pipeline::{Exporting, Traces};

use crate::otlp::destination::address;

/// Checks the address of a collector.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    address(endpoint, pipeline::PATH).map(drop)
}
