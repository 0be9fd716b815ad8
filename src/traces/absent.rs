//! Replaces the spans if the feature `otlp` is not enabled: types without values.

use super::{Config, Error, Trace};
use crate::event::Events;
use crate::job::TraceContext;

/// Creates the spans of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tracer {}

impl Tracer {
    /// Returns `None`: this build has no tracer.
    pub(crate) fn new() -> Option<Self> {
        None
    }
}

/// The export of spans to a collector, not yet started.
#[derive(Debug)]
pub enum Traces {}

/// A running export of spans to a collector.
#[derive(Debug)]
pub enum Exporting {}

impl Traces {
    /// Whether this build has the feature `otlp`.
    #[doc(hidden)]
    pub const AVAILABLE: bool = false;

    /// Returns `None`: this build has no spans.
    ///
    /// # Errors
    ///
    /// Never. The check of the configuration refuses an endpoint.
    pub fn configured(_config: &Config) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    /// Returns the layer that a subscriber needs to create spans.
    pub fn layer<L>(&self) -> L {
        match *self {}
    }

    /// Starts the export.
    ///
    /// # Errors
    ///
    /// Never.
    pub fn start(self, _events: Events) -> Result<Exporting, Error> {
        match self {}
    }
}

impl Exporting {
    /// Sends the remaining spans.
    pub async fn close(self) {
        match self {}
    }
}

pub(super) fn start_linked(
    _span: &tracing::Span,
    _parent: Option<(TraceContext, Option<&str>)>,
    _link: Option<TraceContext>,
) -> Option<TraceContext> {
    None
}

/// Returns the current trace context, which does not exist in this build.
pub(crate) fn current() -> Option<Trace> {
    None
}

/// Refuses the address of a collector: this build sends nothing to one.
pub(super) fn check_endpoint(_endpoint: &str) -> Result<(), String> {
    Err("this build cannot export traces; it needs the feature otlp".to_owned())
}
