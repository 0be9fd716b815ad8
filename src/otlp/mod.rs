//! OTLP over HTTP: what traces and metrics share on their way to a collector, and how metrics are pushed.
//!
//! `destination` posts one request. `push` reads the metrics of this process at intervals, as the text that Prometheus
//! gets (`exposition`), and sends them as OTLP (`request`). Nothing here can change what happens to a job, or make it wait.
//!
//! Without the feature `otlp`, `absent` takes the place of `push`.

#[cfg(feature = "otlp")]
pub(crate) mod destination;
#[cfg(feature = "otlp")]
mod exposition;
#[cfg_attr(not(feature = "otlp"), path = "absent.rs")]
mod push;
#[cfg(feature = "otlp")]
mod request;
mod secret_headers;

use std::path::PathBuf;
use std::time::Duration;

pub use push::{Push, Pushing, check_metrics_endpoint};
pub use secret_headers::SecretHeaders;

/// Where metrics are pushed to, and how often.
#[derive(Debug, Clone)]
pub struct PushTarget {
    /// The collector's address, to which `/v1/metrics` is added.
    pub endpoint: String,
    /// A file with additional headers, one `name: value` per line.
    pub headers_file: Option<PathBuf>,
    /// More headers.
    pub headers: Option<SecretHeaders>,
    /// The pause between two pushes.
    pub interval: Duration,
    /// The resource's `service.name`.
    pub service_name: String,
}
