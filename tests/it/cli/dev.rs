//! `dev`: a server and a worker that come and go together.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use redis::ConnectionLike;
use streamfleet::broker::{Broker, Config};
use streamfleet::job::{JobId, State};

use crate::harness::process::{Launch, Worker};
use crate::harness::server_program;
use crate::harness::wait::{until, until_async};

const SOON: Duration = Duration::from_secs(30);

/// The process, and the line it says to paste.
fn start(folder: &Path) -> (Worker, String) {
    let launch = Launch::new(&["dev", "--folder", folder.to_str().unwrap()]);
    let process = launch.env("STREAMFLEET__TELEMETRY__LISTEN", "127.0.0.1:0").start();
    let line = until("the line to paste", SOON, || {
        process.stdout().lines().find_map(|line| line.strip_prefix("submit a job:  ").map(str::to_owned))
    });
    (process, line)
}

fn port(line: &str) -> u16 {
    line.split(' ').nth(2).unwrap().parse().unwrap()
}

fn connect(line: &str) -> Option<redis::Connection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", port(line))).unwrap();
    client.get_connection_with_timeout(SOON).ok()
}

fn server_pid(connection: &mut redis::Connection) -> u32 {
    let info: String = redis::cmd("INFO").arg("server").query(connection).unwrap();
    let pid = info.lines().find_map(|line| line.trim().strip_prefix("process_id:")).unwrap();
    pid.parse().unwrap()
}

/// Runs what the line says, without a shell.
fn paste(line: &str) -> String {
    let words = line.split(' ').skip(3).map(|word| word.trim_matches('\''));
    let mut command = redis::Cmd::new();
    words.for_each(|word| {
        command.arg(word);
    });
    let reply = connect(line).unwrap().req_command(&command).unwrap();
    redis::from_redis_value(reply).unwrap()
}

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_to_paste_submits_a_job_that_runs_and_ctrl_c_ends_both() {
    let folder = tempfile::tempdir().unwrap();
    let (process, line) = start(folder.path());
    let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else may read what jobs carry");
    let pid = server_pid(&mut connect(&line).unwrap());
    let id: JobId = paste(&line).parse().unwrap();
    let url = format!("redis://127.0.0.1:{}", port(&line));
    let broker = Broker::connect(Config { url: url.into(), ..Config::default() }).await.unwrap();
    let queue = broker.queue("default".parse().unwrap());
    until_async("the job is done", SOON, async || {
        queue.status(&id).await.unwrap().is_some_and(|status| status.state == State::Done)
    })
    .await;
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    assert!(is_gone(pid));
    assert!(connect(&line).is_none());
}

#[test]
fn the_port_and_the_data_are_the_same_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let (process, first) = start(folder.path());
    let _: () = redis::cmd("SET").arg("k").arg("v").query(&mut connect(&first).unwrap()).unwrap();
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    let (_process, second) = start(folder.path());
    assert_eq!(port(&first), port(&second));
    let value: String = redis::cmd("GET").arg("k").query(&mut connect(&second).unwrap()).unwrap();
    assert_eq!(value, "v");
}

#[test]
fn the_server_dies_with_a_killed_process_and_its_folder_serves_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (process, line) = start(folder.path());
    let pid = server_pid(&mut connect(&line).unwrap());
    let other = Launch::new(&["dev", "--folder", folder.path().to_str().unwrap()]).output(SOON);
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("is in use by another process"), "{other:?}");
    process.kill9();
    until("the server is gone", SOON, || is_gone(pid));
}

#[test]
fn a_server_that_ends_by_itself_ends_the_worker_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (process, line) = start(folder.path());
    // The server answers nothing more, so neither does this command.
    redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut connect(&line).unwrap()).unwrap_or_default();
    assert_eq!(process.wait_exit(Duration::from_secs(60)).code(), Some(1));
    assert!(process.stderr().contains("the redis server ended by itself"), "{}", process.stderr());
}

#[test]
fn without_a_server_program_the_package_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::new(&["dev", "--folder", folder.path().to_str().unwrap()]);
    let launch = launch.env("PATH", "/nonexistent");
    let output = launch.clone().env(server_program::VARIABLE, "").output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("install the package redis-server"), "{output:?}");
    let output = launch.env(server_program::VARIABLE, "/nonexistent/server").output(SOON);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains(r#"STREAMFLEET_TEST_REDIS names "/nonexistent/server""#), "{output:?}");
}
