//! Spans: how an attempt appears in a distributed trace, and how spans get to a collector.
//!
//! `attempt` is the span of one attempt. It is a `tracing` span, so everything that a handler records with `tracing` is
//! inside it. `context` places it under the job's `traceparent`. When a span ends, `funnel` passes it on if the queue
//! has room. `exporter` sends the spans, on its own thread, to a `destination`. [`Traces`] connects these parts.
//! Nothing here can change what happens to a job, or make it wait.
//!
//! Without the feature `otlp`, `absent` takes the place of all of it.

#[cfg(not(feature = "otlp"))]
mod absent;
mod attempt;
mod config;
#[cfg(feature = "otlp")]
mod context;
#[cfg(feature = "otlp")]
mod destination;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod funnel;
#[cfg(feature = "otlp")]
mod pipeline;

#[cfg(not(feature = "otlp"))]
use absent as context;
#[cfg(not(feature = "otlp"))]
pub use absent::{Exporting, Traces};
pub use attempt::TARGET;
pub(crate) use attempt::{AttemptSpan, Facts, within};
pub use config::{Config, Error};
pub(crate) use context::{Tracer, current};
#[cfg(feature = "otlp")]
pub use pipeline::{Exporting, Traces};
