//! Workers that are frozen while their programs run: what a program did in the meantime counts.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use harness::cli::json;
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::rest::state_of;
use harness::wait::{until, until_instant};

const SOON: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(3);

/// How many jobs run at once when the worker is frozen.
const JOBS: usize = 8;

/// Each program ends after half a second, with the code that its payload says.
const TOML: &str = r#"
[worker]
lease = "3s"
[queues.default]
concurrency = 8
[telemetry]
listen = "off"
[types.act]
max_attempts = 1
tracking = "all"
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_JOB_ID >> ran; sleep 0.5; exit $(cat)"] } }
[types.gift]
tracking = "all"
[types.gift.steps.charge]
kind = "once"
handler = { exec = { directory = "{dir}", command = ["sh", "-c", "echo $STREAMFLEET_JOB_ID >> ran; sleep 0.5; exit $(cat)"] } }
"#;

struct Stage {
    server: RedisServer,
    dir: tempfile::TempDir,
    worker: Worker,
}

impl Stage {
    fn new() -> Self {
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        let toml = TOML.replace("{dir}", dir.path().to_str().unwrap());
        let launch = Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]);
        let worker = launch.config(&toml).start();
        Self { server, dir, worker }
    }

    fn ran(&self) -> Vec<String> {
        lines(&self.dir.path().join("ran"))
    }

    /// Submits jobs, and freezes the worker for almost a lease while all of them run.
    fn freeze(&self, job_type: &str, code: &str) -> Vec<String> {
        let before = self.ran().len();
        let ids: Vec<String> = (0..JOBS).map(|nth| format!("{job_type}-{code}-{nth}")).collect();
        for id in &ids {
            let fields = ["type", job_type, "id", id, "payload", code];
            self.server.cmd(&[&["XADD", "sf:{default}:jobs", "*"], &fields[..]].concat());
        }
        until("all programs run", SOON, || self.ran().len() == before + JOBS);
        let frozen = Instant::now();
        self.worker.freeze();
        until_instant(frozen + LEASE.mul_f64(0.92));
        self.worker.thaw();
        ids
    }

    fn until_ended(&self, id: &str) -> Value {
        until(&format!("{id} to end"), SOON, || {
            state_of(&self.server, id).is_some_and(|state| ["done", "dead"].contains(&state.as_str()))
        });
        json(&self.server, &["status", id])
    }

    fn runs(&self, id: &str) -> usize {
        self.ran().iter().filter(|ran| *ran == id).count()
    }
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn a_program_that_ends_while_its_worker_is_frozen_counts_and_runs_once() {
    let stage = Stage::new();
    for (code, state, outcome) in [("0", "done", "done"), ("3", "dead", "error")] {
        for id in stage.freeze("act", code) {
            let status = stage.until_ended(&id);
            let attempts: Vec<_> = status["attempts"].as_array().unwrap().iter().collect();
            let found = (stage.runs(&id), &status["state"], attempts.len(), &attempts[0]["outcome"]);
            assert_eq!(found, (1, &state.into(), 1, &outcome.into()), "{status}");
        }
    }
}

#[test]
fn a_once_step_that_ends_while_its_worker_is_frozen_keeps_its_result() {
    let stage = Stage::new();
    for (code, state) in [("0", "done"), ("3", "failed")] {
        for id in stage.freeze("gift", code) {
            stage.until_ended(&id);
            let step = &json(&stage.server, &["steps", &id])["steps"][0];
            assert_eq!((stage.runs(&id), &step["state"]), (1, &state.into()), "{step}");
        }
    }
}
