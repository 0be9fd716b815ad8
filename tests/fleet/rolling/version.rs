//! A version of the program: a configuration, and the handlers that it brings.

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;

use super::account::Ledger;

/// A single spent attempt would bury the job. `long` takes longer than a stopping worker waits; the first run of `stubborn`
/// neither ends on its own nor reacts to SIGTERM.
const OLD: &str = r#"
[worker]
lease = "2s"
drain_timeout = "1s"
prefetch = 4
[queues.default]
concurrency = 8
tracking = "all"
[telemetry]
listen = "127.0.0.1:0"
[types.short]
max_attempts = 1
handler = { exec = { command = ["sh", "{handler}", "0.05"] } }
[types.long]
max_attempts = 1
handler = { exec = { command = ["sh", "{handler}", "2.5"] } }
[types.stubborn]
max_attempts = 1
backoff = { fixed = "100ms" }
handler = { exec = { command = ["sh", "{handler}", "stubborn"], grace = "1m" } }
"#;

const FRESH: &str = r#"
[types.fresh]
max_attempts = 1
handler = { exec = { command = ["sh", "{handler}", "0.1"] } }
"#;

/// A version of the program.
pub(super) struct Version {
    launch: Launch,
}

impl Version {
    pub(super) fn old(server: &RedisServer, ledger: &Ledger) -> Self {
        Self::of(server, ledger, OLD)
    }

    /// Returns the new version, which knows one more type.
    pub(super) fn new(server: &RedisServer, ledger: &Ledger) -> Self {
        Self::of(server, ledger, &[OLD, FRESH].concat())
    }

    fn of(server: &RedisServer, ledger: &Ledger, config: &str) -> Self {
        let launch = Launch::new(&["--config", "{config}", "--json", "worker"]);
        let launch = launch.env("STREAMFLEET__REDIS__URL", server.url());
        Self { launch: launch.config(&config.replace("{handler}", &ledger.handler())) }
    }

    pub(super) fn start(&self) -> Worker {
        self.launch.start()
    }
}
