//! The state of a `once` step whose handler answered, or whose answer was lost.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use harness::cli::json;
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

const TOML: &str = r#"
[telemetry]
listen = "off"
[types.lost.steps.charge]
kind = "once"
handler = { http = { url = "http://{hangs_up}/" } }
[types.slow.steps.charge]
kind = "once"
timeout = "300ms"
handler = { http = { url = "http://{hangs_up}/wait" } }
[types.refused.steps.charge]
kind = "once"
handler = { http = { url = "http://{refuses}/" } }
[types.killed.steps.charge]
kind = "once"
handler = { exec = { command = ["sh", "-c", "kill -9 $$"] } }
[types.failed.steps.charge]
kind = "once"
handler = { exec = { command = ["sh", "-c", "exit 1"] } }
[types.ruled.steps.charge]
kind = "once"
handler = { exec = { command = ["sh", "-c", "exit 1"], rules = [{ exit = 1, then = "unknown" }] } }
"#;

/// Nothing listens there. A port that was free a moment ago may belong to another test's server now.
const REFUSES: &str = "127.0.0.1:1";

/// Starts an endpoint that reads each request and then hangs up, or waits for the client to do so if the path says so.
fn hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            if head[..read].starts_with(b"POST /wait") {
                while stream.read(&mut head).is_ok_and(|read| read > 0) {}
            }
        }
    });
    address
}

#[test]
fn a_once_step_fails_on_an_answer_and_is_unknown_without_one() {
    let server = RedisServer::start();
    let toml = TOML.replace("{hangs_up}", &hangs_up()).replace("{refuses}", REFUSES);
    let launch = Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]);
    let _worker = launch.config(&toml).start();
    let cases = [
        ("lost", "unknown", "unknown"),
        ("slow", "unknown", "timeout"),
        ("refused", "failed", "error"),
        ("killed", "unknown", "unknown"),
        ("failed", "failed", "error"),
        ("ruled", "unknown", "unknown"),
    ];
    for (id, ..) in cases {
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", id, "id", id]);
    }
    until("all of them to be dead", SOON, || json(&server, &["dead", "list"])["total"] == cases.len());
    for (id, state, kind) in cases {
        assert_eq!(json(&server, &["steps", id])["steps"][0]["state"], state, "{id}");
        let letter = json(&server, &["dead", "show", id]);
        assert_eq!((&letter["reason"], &letter["kind"]), (&"needs_decision".into(), &kind.into()), "{id}");
    }
}
