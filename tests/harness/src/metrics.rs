//! Workers of the real binary, and their metrics as a scraper gets them.

use std::time::Duration;

use crate::process::{Launch, Worker};
use crate::redis_server::RedisServer;
use crate::scrape::{address, get};
use crate::wait::until;

pub const SOON: Duration = Duration::from_secs(40);

/// A worker and the address of its metrics.
pub struct Scraped {
    pub worker: Worker,
    pub address: String,
}

impl Scraped {
    /// Starts a worker with this configuration. It reports queue lengths every second.
    pub fn start(url: &str, config: &str) -> Self {
        let config =
            format!("[telemetry]\nlisten = \"127.0.0.1:0\"\n[events]\nqueue_length_every = \"1s\"\n{config}");
        let launch = Launch::new(&["--config", "{config}", "--json", "worker"]);
        let worker = launch.env("STREAMFLEET__REDIS__URL", url).config(&config).start();
        let address = address(&worker);
        let is_ready = || get(&address, "/readyz").is_some_and(|(status, _)| status == 200);
        until("the worker is ready", SOON, is_ready);
        Self { worker, address }
    }

    /// Returns its current metrics.
    pub fn scrape(&self) -> Figures {
        Figures(until("the metrics", SOON, || get(&self.address, "/metrics")).1)
    }

    /// Returns the value of one series.
    pub fn value(&self, series: &str) -> f64 {
        self.scrape().value(series)
    }
}

/// One scrape.
pub struct Figures(pub String);

impl Figures {
    /// Returns the value of one series, which must exist. Its name is given without the prefix.
    pub fn value(&self, series: &str) -> f64 {
        let named = [format!("streamfleet_{series} "), format!("{series} ")];
        let line = self.0.lines().find_map(|line| named.iter().find_map(|name| line.strip_prefix(name)));
        line.unwrap_or_else(|| panic!("{series} is not reported")).parse().unwrap()
    }

    /// Returns the names and labels of all series.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        let lines = self.0.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series)
    }
}

/// Submits a job of this type at the end of the normal lane.
pub fn submit(server: &RedisServer, job_type: &str) {
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", job_type]);
}
