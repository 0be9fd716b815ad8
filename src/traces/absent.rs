//! In place of spans, where the feature `otlp` is left out: types without values.

#[cfg(feature = "cli")]
use tracing_subscriber::{Layer, Registry};

use super::{Config, Error};
use crate::event::Events;
use crate::job::TraceContext;

/// Makes the spans of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tracer {}

impl Tracer {
    /// There is none.
    pub(crate) fn new() -> Option<Self> {
        None
    }
}

/// Spans on their way to a collector, not yet under way.
#[derive(Debug)]
pub enum Traces {}

/// Spans on their way to a collector.
#[derive(Debug)]
pub enum Exporting {}

impl Traces {
    /// None: this build has no spans.
    ///
    /// # Errors
    ///
    /// None; what is configured is refused where the configuration is checked.
    pub fn configured(_config: &Config) -> Result<Option<Self>, Error> {
        Ok(None)
    }

    /// What a subscriber needs so that spans are made.
    #[cfg(feature = "cli")]
    pub fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        match *self {}
    }

    /// Starts to export.
    ///
    /// # Errors
    ///
    /// None.
    pub fn start(self, _events: Events) -> Result<Exporting, Error> {
        match self {}
    }
}

impl Exporting {
    /// Sends what is left.
    pub async fn close(self) {
        match self {}
    }
}

pub(super) fn hang(
    _span: &tracing::Span,
    _parent: Option<TraceContext>,
    _link: Option<TraceContext>,
) -> Option<TraceContext> {
    None
}

/// Where this task is in a trace: nowhere.
pub(crate) fn current() -> Option<TraceContext> {
    None
}
