//! Where metrics are pushed to, beside `/metrics`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use streamfleet::otlp::{PushTarget, SecretHeaders, check_metrics_endpoint};

use crate::job::duration;

with_defaults! {
    /// Where metrics are pushed to, and how often.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct PushConfig {
        /// The collector's OTLP/HTTP address, to which `/v1/metrics` is added. If it is missing or `off`, nothing is pushed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint: Option<String> = None,
        /// A file with additional headers, one `name: value` per line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub headers_file: Option<PathBuf> = None,
        /// More headers, as the variable `OTEL_EXPORTER_OTLP_HEADERS` has them. Those of the file come first.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub headers: Option<SecretHeaders> = None,
        /// The pause between two pushes: 1 second to 1 hour, by default 15 seconds.
        #[serde(with = "duration")]
        pub interval: Duration = Duration::from_secs(15),
    }
}

impl PushConfig {
    setters! {
        endpoint: impl Into<String> => Some(endpoint.into());
        headers_file: impl Into<PathBuf> => Some(headers_file.into());
        interval: Duration;
    }

    /// Returns everything that is wrong with these values, each as `key: reason`.
    pub fn validate(&self) -> Vec<String> {
        let endpoint = self.wanted().map_or(Ok(()), check_metrics_endpoint);
        let mut wrong: Vec<String> =
            endpoint.err().map(|reason| format!("endpoint: {reason}")).into_iter().collect();
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&self.interval) {
            let shown = crate::job::format_duration(self.interval);
            wrong.push(format!("interval: is {shown}, but must be between 1s and 1h"));
        }
        wrong
    }

    /// Returns the collector's address if metrics are pushed.
    pub fn wanted(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|endpoint| *endpoint != "off")
    }

    /// Returns the collector and how often it gets the metrics, if it does.
    pub(crate) fn target(&self, service_name: &str) -> Option<PushTarget> {
        Some(PushTarget {
            endpoint: self.wanted()?.to_owned(),
            headers_file: self.headers_file.clone(),
            headers: self.headers.clone(),
            interval: self.interval,
            service_name: service_name.to_owned(),
        })
    }
}
