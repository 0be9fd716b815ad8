//! Signals that come before a worker is up.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use harness::process::{Launch, Worker, python};
use harness::redis_server::RedisServer;
use harness::wait::{until, until_instant};

const SOON: Duration = Duration::from_secs(30);
const SIGTERM: i32 = 15;

/// Runs a command in a terminal, closes that once the worker serves, and exits as the command does.
const TERMINAL: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
seen = b''
while b'serving' not in seen: seen += os.read(terminal, 4096)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)
";

const TOML: &str = r#"
[types.note]
handler = "noop"
[telemetry]
listen = "off"
"#;

fn launch(url: &str) -> Launch {
    Launch::new(&["--config", "{config}", "--redis", url, "worker"]).config(TOML)
}

/// Waits without pauses, because the exact moment counts.
fn until_caught(worker: &Worker) {
    let started = Instant::now();
    while !worker.catches(SIGTERM) {
        assert!(started.elapsed() < SOON, "signals are not caught");
    }
}

#[test]
fn a_worker_asked_to_stop_at_any_point_of_its_start_exits_with_0() {
    let server = RedisServer::start();
    // A server that runs, and one that does not.
    for url in [server.url(), "redis://127.0.0.1:1/0".to_owned()] {
        for millis in 0..50 {
            let worker = launch(&url).start();
            let started = Instant::now();
            // Before the program's first instruction, the system handles signals.
            until_caught(&worker);
            until_instant(started + Duration::from_millis(millis));
            worker.term();
            let status = worker.wait_exit(SOON);
            assert_eq!((status.code(), status.signal()), (Some(0), None), "{millis} ms: {}", worker.stderr());
        }
    }
}

#[test]
fn a_worker_drains_when_its_terminal_closes_and_ignores_that_under_nohup() {
    let server = RedisServer::start();
    let program = env!("CARGO_BIN_EXE_streamfleet");
    let (url, worker) = (server.url(), ["-c", "{config}", "--redis"]);
    let worker = [&[program][..], &worker, &[url.as_str(), "worker"]].concat();
    // The tests themselves may run under nohup.
    let args = [&["-c", TERMINAL, "env", "--default-signal=HUP"][..], &worker].concat();
    let attended = Launch::program(python(), &args).config(TOML).start();
    let status = attended.wait_exit(SOON);
    assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", attended.stderr());
    let args = [&["--ignore-signal=HUP"][..], &worker].concat();
    let detached = Launch::program("env", &args).config(TOML).start();
    until("the worker serves", SOON, || detached.stdout().starts_with("serving"));
    detached.hang_up();
    detached.term();
    assert_eq!(detached.wait_exit(SOON).code(), Some(0));
    assert_eq!(detached.stderr().matches("asked to stop").count(), 1, "{}", detached.stderr());
}

#[test]
fn a_worker_asked_to_stop_before_reading_its_configuration_exits_with_0() {
    let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let pipe = dir.path().join("config.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let args = ["--config", pipe.to_str().unwrap(), "--redis", &server.url(), "worker"];
    let worker = Launch::new(&args).start();
    until_caught(&worker);
    worker.term();
    // The worker has waited for this until now.
    fs::write(&pipe, TOML).unwrap();
    let status = worker.wait_exit(SOON);
    assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", worker.stderr());
}

/// Starts a worker that follows this shell, and tells its process id.
const PARENT: &str = r#""$@" --parent $$ & echo "pid $!"; wait"#;

#[test]
fn a_worker_stops_gracefully_when_its_parent_is_killed() {
    let (server, program) = (RedisServer::start(), env!("CARGO_BIN_EXE_streamfleet"));
    let args = ["-c", PARENT, "sh", program, "-c", "{config}", "--redis", &server.url(), "worker"];
    let parent = Launch::program("sh", &args).config(TOML).start();
    until("the worker serves", SOON, || parent.stdout().contains("serving"));
    let pid = parent.stdout().lines().find_map(|line| line.strip_prefix("pid ").map(str::to_owned)).unwrap();
    // A session of its own, which the terminal of the parent does not reach.
    let session = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = session.rsplit_once(") ").unwrap().1.split(' ').nth(3).map(str::to_owned);
    assert_eq!(session, Some(pid.clone()));
    parent.kill9();
    until("the worker has ended", SOON, || fs::read_link(format!("/proc/{pid}/exe")).is_err());
    assert_eq!(parent.stderr().matches("the parent has ended").count(), 1, "{}", parent.stderr());
    assert!(!parent.stderr().contains("asked to stop"), "{}", parent.stderr());
}

#[test]
fn a_command_with_worker_among_its_arguments_is_ended_by_a_signal() {
    let server = RedisServer::start();
    let follow = ["--redis", &server.url(), "events", "--queue", "worker", "--follow"];
    let command = Launch::new(&follow).start();
    until_caught(&command);
    command.term();
    assert_eq!(command.wait_exit(SOON).signal(), Some(SIGTERM));
}
