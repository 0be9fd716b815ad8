//! Spans: what an attempt looks like in a distributed trace, and how that gets to a collector.
//!
//! `attempt` is the span of one attempt. It is a `tracing` span, so whatever a handler says with `tracing` is inside it; by
//! `context` it hangs where the job's `traceparent` says. Of the spans that end, `funnel` hands on what there is room for;
//! `exporter` sends them, on a thread of its own, to a `destination`. [`Traces`] puts these together. Nothing here can
//! change what happens to a job, or keep it waiting.
//!
//! Without the feature `otlp` all of it is `absent`.

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
