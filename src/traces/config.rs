//! Where spans are exported to, and for which jobs.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use super::export;
use crate::job::number::number;
use crate::otlp::SecretHeaders;

with_defaults! {
    /// Where spans are exported to, and for which jobs.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// The collector's OTLP/HTTP address, to which `/v1/traces` is added. If it is missing or `off`, there are no
        /// spans.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint: Option<String> = None,
        /// A file with additional headers for the collector, one `name: value` per line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub headers_file: Option<PathBuf> = None,
        /// More headers, as the variable `OTEL_EXPORTER_OTLP_HEADERS` has them. Those of the file come first.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub headers: Option<SecretHeaders> = None,
        /// The fraction, from 0 to 1, of the jobs submitted without a trace context that get spans. For the other jobs, the
        /// sampled flag of their trace context decides. By default 1.
        #[serde(deserialize_with = "fraction")]
        pub ratio: f64 = 1.0,
        /// The name of this process's service, the resource's `service.name`: 1 to 255 bytes, by default `streamfleet`.
        pub service_name: String = "streamfleet".to_owned(),
    }
}

impl Config {
    setters! {
        endpoint: impl Into<String> => Some(endpoint.into());
        headers_file: impl Into<PathBuf> => Some(headers_file.into());
        ratio: f64;
        service_name: impl Into<String> => service_name.into();
    }

    /// Returns everything that is wrong with these values, each as `key: reason`.
    pub fn validate(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self.check_endpoint().err().into_iter().collect();
        if !(0.0..=1.0).contains(&self.ratio) {
            wrong.push(format!("ratio: is {}, but must be between 0 and 1", self.ratio));
        }
        if self.service_name.is_empty() || self.service_name.len() > 255 {
            wrong.push("service_name: must have 1 to 255 bytes".to_owned());
        }
        wrong
    }

    /// Returns the collector's address if spans are enabled.
    pub fn wanted(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|endpoint| *endpoint != "off")
    }

    fn check_endpoint(&self) -> Result<(), String> {
        let Some(endpoint) = self.wanted() else { return Ok(()) };
        export::check_endpoint(endpoint).map_err(|reason| format!("endpoint: {reason}"))
    }
}

/// Why spans cannot be exported. The text never contains a header's value.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.traces.{0}")]
pub struct Error(pub(super) String);

fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, "a number such as 0.1")
}
