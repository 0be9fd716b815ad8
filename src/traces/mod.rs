//! Spans: how an attempt appears in a distributed trace, and how spans get to a collector.
//!
//! `attempt` is the span of one attempt. It is a `tracing` span, so everything that a handler records with `tracing` is
//! inside it. `export` sends the spans to a collector. Nothing here can change what happens to a job, or make it wait.
//!
//! Without the feature `otlp`, `absent` takes the place of `export`.

mod attempt;
mod config;
#[cfg_attr(not(feature = "otlp"), path = "absent.rs")]
mod export;

pub use attempt::TARGET;
pub(crate) use attempt::{AttemptFacts, AttemptSpan, within};
pub use config::{Config, Error};
pub use export::{Exporting, Traces};
pub(crate) use export::{Tracer, current};

use crate::job::{TraceContext, TraceState};

/// The trace that new jobs belong to.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    pub(crate) state: Option<TraceState>,
}
