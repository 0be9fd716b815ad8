//! A password that is given to a process never appears in its output.

use std::time::Duration;

use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::scrape::{address, get};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);
const CANARY: &str = "canary-7f3a";

const CONFIG: &str = r#"
[types.note]
handler = { exec = { command = ["false"], env = { TOKEN = "canary-7f3a" } } }
max_attempts = 1
[telemetry]
listen = "127.0.0.1:0"
log = "trace"
"#;

#[test]
fn no_log_metric_or_process_list_contains_the_password() {
    let server = RedisServer::builder().password(CANARY).start();
    let launch = Launch::new(&["--config", "{config}", "--json", "worker"]).config(CONFIG);
    let worker = launch.env("STREAMFLEET__REDIS__URL", server.url()).start();
    let address = address(&worker);
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "note", "payload", "canary-7f3a"]);
    until("the job is dead", SOON, || worker.stderr().contains("a job is dead"));
    server.kill9();
    until("redis is missed", SOON, || worker.stderr().contains("a redis command failed"));
    let (_, metrics) = get(&address, "/metrics").unwrap();
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", worker.pid())).unwrap();
    server.restart();
    worker.term();
    worker.wait_exit(SOON);
    let places =
        [("stderr", worker.stderr()), ("stdout", worker.stdout()), ("metrics", metrics), ("cmdline", line)];
    for (place, text) in places {
        assert!(!text.is_empty(), "{place} is empty");
        let hit = text.lines().find(|line| line.contains(CANARY));
        assert_eq!(hit, None, "in {place}");
    }
}

#[test]
fn no_message_about_an_invalid_configuration_contains_the_password() {
    let urls = [
        "http://u:canary-7f3a@host",
        "redis://u:canary-7f3a@host:port",
        "canary-7f3a",
        "redis://:canary-7f3a@[",
        "redis://u:canary-7f3a/x@127.0.0.1:1",
        "redis://u:1/canary-7f3a@127.0.0.1:1",
        "redis://u:1?canary-7f3a@127.0.0.1:1",
        "redis-cluster://u:1/canary-7f3a@127.0.0.1:1",
        "redis://u:canary-7f3a#@127.0.0.1:1",
        "redis://127.0.0.1:1?password=canary-7f3a",
        "redis-sentinel://127.0.0.1:1?sentinelPassword=canary-7f3a",
    ];
    for url in urls {
        for args in [&["worker"][..], &["queues"], &["config", "check"], &["config", "show"]] {
            let output = Launch::new(args).env("STREAMFLEET__REDIS__URL", url).output(SOON);
            assert_eq!(output.code, Some(2), "{url}: {output:?}");
            assert!(!format!("{output:?}").contains(CANARY), "{url}: {output:?}");
        }
    }
}

/// Errors show the address of a server that cannot be reached, which contains the login.
#[test]
fn no_address_that_is_shown_contains_the_password() {
    let urls = [
        "redis://u:canary-7f3a%2F@127.0.0.1:1",
        "redis://u:a@canary-7f3a@127.0.0.1:1",
        "redis://canary-7f3a@127.0.0.1:1",
        "redis://:canary-7f3a:@127.0.0.1:1/0",
        "redis+unix://u:canary-7f3a@localhost/no/such.sock",
        "redis-cluster://u:canary-7f3a@127.0.0.1:1?node=127.0.0.1:2",
        "redis-sentinel://u:canary-7f3a@127.0.0.1:1?sentinelServiceName=m&sentinelPassword=canary-7f3a@",
    ];
    for url in urls {
        let commands = [
            &["config", "show"][..],
            &["--json", "config", "show"],
            &["config", "check"],
            &["check"],
            &["--json", "check"],
            &["queues"],
            &["--json", "dead", "list"],
        ];
        for args in commands {
            let output = Launch::new(args).env("STREAMFLEET__REDIS__URL", url).output(SOON);
            let is_about_the_file = args.contains(&"config");
            assert_eq!(output.code, Some(if is_about_the_file { 0 } else { 3 }), "{url}: {output:?}");
            assert!(!format!("{output:?}").contains(CANARY), "{url}: {output:?}");
        }
    }
}
