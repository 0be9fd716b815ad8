//! A worker whose parent ignores the ends of its children, as some supervisors do: such a setting is inherited.

use std::time::Duration;

use harness::process::{Launch, streamfleet};
use harness::redis_server::RedisServer;
use harness::rest::state_of;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

const TOML: &str = r#"
[telemetry]
listen = "off"
[types.act]
max_attempts = 1
tracking = "all"
handler = { exec = { command = ["true"] } }
"#;

#[test]
fn a_worker_learns_how_its_programs_end_even_if_its_parent_ignores_such_signals() {
    let server = RedisServer::start();
    let (program, url) = (streamfleet(), server.url());
    // The trap of a shell would not do: dash does not pass on that it ignores this signal.
    let args = ["--ignore-signal=CHLD", program.to_str().unwrap()];
    let args = [&args[..], &["--config", "{config}", "--redis", &url, "worker"]].concat();
    let _worker = Launch::program("env", &args).config(TOML).start();
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "act", "id", "one"]);
    let state = until("the job to end", SOON, || {
        state_of(&server, "one").filter(|state| ["done", "dead"].contains(&state.as_str()))
    });
    assert_eq!(state, "done");
}
