//! What a worker process answers to its supervisors: probes, autoscalers, service managers.

mod alive;
mod cluster;
mod crowded;
mod healthcheck;
mod host;
mod scale;
mod service_manager;
mod unread;

use std::time::Duration;

use serde_json::Value;

use harness::process::{Launch, Worker};
use harness::scrape::{address, get};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// `note` succeeds at once, `long` runs as long as the test.
const CONFIG: &str = r#"
[queues.default]
[queues.mail]
[types.note]
handler = "noop"
[types.long]
handler = { exec = { command = ["sleep", "600"] } }
[telemetry]
listen = "127.0.0.1:0"
"#;

/// Returns a worker of the queues `default` and `mail`, to be started.
fn launch(url: &str) -> Launch {
    Launch::new(&["--config", "{config}", "--json", "worker"])
        .env("STREAMFLEET__REDIS__URL", url)
        .config(CONFIG)
}

/// Starts it, waits until it is ready, and returns its address.
fn ready(launch: &Launch) -> (Worker, String) {
    let worker = launch.start();
    let address = address(&worker);
    until("the worker is ready", SOON, || status(&address, "/readyz") == Some(200));
    (worker, address)
}

fn status(address: &str, path: &str) -> Option<u16> {
    get(address, path).map(|(status, _)| status)
}

fn json(address: &str, path: &str) -> Option<(u16, Value)> {
    let (status, body) = get(address, path)?;
    Some((status, serde_json::from_str(&body).unwrap()))
}
