//! A worker that is killed while jobs wait in it for others of their type: real processes, from their configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::rest::jobs_left;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(60);

const JOBS: usize = 40;

const TOML: &str = r#"
[worker]
lease = "1s"
[telemetry]
listen = "off"
[types.act]
concurrency = 4
limit_key = "h.tenant"
concurrency_per_key = 3
backoff = { fixed = "10ms" }
jitter = 0
max_losses = 100
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_JOB_ID >> started; sleep 0.2; echo $STREAMFLEET_JOB_ID >> ended"] } }
"#;

fn counted(dir: &Path, file: &str) -> BTreeMap<String, u32> {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.lines().fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line.to_owned()).or_default() += 1;
        counts
    })
}

#[test]
fn jobs_that_wait_in_a_killed_worker_run_once_elsewhere() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let toml = TOML.replace("{dir}", dir.path().to_str().unwrap());
    let launch = Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(&toml);
    for nth in 0..JOBS {
        let tenant = format!("t{}", nth % 3);
        let id = format!("job-{nth}");
        server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "act", "id", &id, "h.tenant", &tenant]);
    }
    let first = launch.start();
    until("four programs start", SOON, || counted(dir.path(), "started").len() >= 4);
    first.kill9();
    let second = launch.start();
    until("all jobs to end", SOON, || jobs_left(&server) == 0);
    let (started, ended) = (counted(dir.path(), "started"), counted(dir.path(), "ended"));
    assert_eq!((started.len(), ended.len()), (JOBS, JOBS));
    // Only what ran when the worker was killed may have run twice.
    let again = started.values().filter(|starts| **starts > 1).count();
    assert!(again <= 8 && started.values().all(|starts| *starts <= 2), "{started:?}");
    second.term();
    second.wait_exit(SOON);
}
