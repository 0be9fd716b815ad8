//! Logs and metrics: what a process reports about itself. Events go to the [`Metrics`] and to the [`logs`], which only
//! listen. Nothing here can change what happens to a job. A [`Process`](crate::Process) has both; see the
//! [example](crate).

mod catalogue;
mod histogram;
pub mod logs;
mod metrics;
mod objectives;
mod process;
mod push;
mod series;
mod unix_time;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use catalogue::{Aggregate, CATALOGUE, Descriptor, Group, Kind, Label, ReportedBy, Values};
pub(crate) use metrics::UPKEEP_EVERY;
pub use metrics::{Metrics, ServedQueue};
pub use objectives::Objectives;
pub use push::PushConfig;

use streamfleet::traces;

with_defaults! {
    /// What a process reports, where and how.
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// Where `/metrics`, the probes and `/scale` are served; by default at 127.0.0.1:9464.
        pub listen: Listen = Listen::default(),
        /// Which logs are written: a level, or directives such as `info,streamfleet=debug`; by default `info`.
        pub log: String = "info".to_owned(),
        /// How logs are written; by default, as readable text on a terminal and as JSON elsewhere.
        pub log_format: LogFormat = LogFormat::default(),
        /// Where the spans of attempts go; by default, there are none.
        pub traces: traces::Config = traces::Config::default(),
        /// Where metrics are pushed to; by default, nowhere.
        pub metrics: PushConfig = PushConfig::default(),
    }
}

impl Config {
    setters! {
        listen: Listen;
        log: impl Into<String> => log.into();
        log_format: LogFormat;
        traces: traces::Config;
        metrics: PushConfig;
    }

    /// Returns everything that is wrong with these values, each as `key: reason`.
    pub fn validate(&self) -> Vec<String> {
        let log = logs::filter(&self.log).err().map(|reason| format!("log: {reason}"));
        let traces = self.traces.validate().into_iter().map(|problem| format!("traces.{problem}"));
        let metrics = self.metrics.validate().into_iter().map(|problem| format!("metrics.{problem}"));
        log.into_iter().chain(traces).chain(metrics).collect()
    }
}

/// Where the listener listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere: `off`.
    Off,
    /// At an address and port.
    At(SocketAddr),
}

impl Default for Listen {
    fn default() -> Self {
        Self::At(([127, 0, 0, 1], 9464).into())
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "" => Ok(Self::default()),
            "off" => Ok(Self::Off),
            text => text.parse().map(Self::At).map_err(|_| {
                format!("expected an address and port such as \"127.0.0.1:9464\", or \"off\", not {text:?}")
            }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("off"),
            Self::At(address) => address.fmt(out),
        }
    }
}

as_text!(Listen);

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Readable text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Readable text.
    Human,
    /// One JSON object per line.
    Json,
}
