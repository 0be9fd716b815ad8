//! Tests of `harness::process`.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use harness::process::{Launch, run};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Launch {
    Launch::program("/bin/sh", &["-c", script, "sh", "{config}"])
}

fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1[..1].to_owned()
}

#[test]
fn a_run_passes_stdin_config_and_environment() {
    let launch = shell("cat; cat \"$1\"; echo \"$COLOUR\"; echo oops >&2; exit 3");
    let output = launch.stdin("in ").config("cfg = 1 ").env("COLOUR", "red").output(SOON);
    assert_eq!(output.code, Some(3));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("in cfg = 1 red\n", "oops\n"));
}

#[test]
fn the_binary_of_this_crate_runs() {
    let output = run(&["--version"], b"");
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(Launch::new(&["--help"]).output(SOON).code.is_some());
}

#[test]
fn a_frozen_process_continues_after_the_thaw() {
    let worker = shell("echo up; exec sleep 60").start();
    until("the process is up", SOON, || worker.stdout() == "up\n");
    worker.freeze();
    until("the process is stopped", SOON, || state(worker.pid()) == "T");
    worker.thaw();
    until("the process continues", SOON, || state(worker.pid()) != "T");
    worker.kill9();
    assert_eq!(worker.exit_status().unwrap().signal(), Some(9));
}

#[test]
fn a_terminated_process_chooses_its_own_exit() {
    let worker = shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done").start();
    until("the process is up", SOON, || worker.stdout() == "up\n");
    worker.term();
    assert_eq!(worker.wait_exit(SOON).code(), Some(7));
}

#[test]
fn a_dropped_worker_is_gone() {
    let worker = Launch::program("/bin/sleep", &["60"]).start();
    let proc = format!("/proc/{}", worker.pid());
    assert!(std::fs::exists(&proc).unwrap());
    drop(worker);
    assert!(!std::fs::exists(&proc).unwrap());
}
