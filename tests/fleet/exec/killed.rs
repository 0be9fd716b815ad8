//! Workers that are killed while programs start: no program acts on a partial payload.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::{until, until_instant};

const SOON: Duration = Duration::from_secs(30);

/// How many workers are killed.
const KILLS: u64 = 30;
/// How many jobs there are for each worker.
const JOBS: usize = 160;

/// A job's id begins with the length of its payload. Its program reads to the end and then acts on what it got.
const TOML: &str = r#"
[worker]
lease = "2s"
[queues.default]
concurrency = 16
[telemetry]
listen = "off"
[types.act]
max_losses = 1000
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo >> started; n=$(wc -c); echo $STREAMFLEET_JOB_ID $n $STREAMFLEET_PAYLOAD_BYTES >> acted"] } }
"#;

fn lines(dir: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(dir.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What `make test` leaves to `make long`.
mod long {
    use super::*;

    #[test]
    fn no_program_acts_on_a_partial_payload_after_its_worker_is_killed() {
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let toml = TOML.replace("{dir}", dir.path().to_str().unwrap());
        let launch = Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(&toml);
        let payloads = [12, 300_000].map(|length| (length, "x".repeat(length)));
        for kill in 0..KILLS {
            let started = lines(dir.path(), "started").len();
            for nth in 0..JOBS {
                let (length, payload) = &payloads[nth % 2];
                let id = format!("{length}-{kill}-{nth}");
                server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "act", "id", &id, "payload", payload]);
            }
            let worker = launch.start();
            until("programs start", SOON, || lines(dir.path(), "started").len() > started + 16);
            // A different moment each time, while programs keep starting.
            until_instant(Instant::now() + Duration::from_micros(kill * 7919 % 20_000));
            worker.kill9();
            server.cmd(&["XTRIM", "sf:{default}:jobs", "MAXLEN", "0"]);
        }
        let mut acted = BTreeMap::<String, u32>::new();
        for line in lines(dir.path(), "acted") {
            let [id, got, announced] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let length = id.split('-').next().unwrap();
            assert_eq!((got, announced), (length, length), "{id} acted on a partial payload");
            *acted.entry(length.to_owned()).or_default() += 1;
        }
        let started = lines(dir.path(), "started").len();
        println!("{started} programs started, and acted: {acted:?}");
        assert!(acted.len() == 2 && acted.values().sum::<u32>() < started as u32, "{started} {acted:?}");
    }
}
