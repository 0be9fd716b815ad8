//! `make demo`: the account is complete, and nothing is left running however the demo ends.
#![expect(clippy::unwrap_used, reason = "a test that cannot run the demo fails")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::wait::until;
use rustix::process::{Pid, Signal, kill_process};

/// Prepares a demo that writes to this folder.
fn demo(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streamfleet-demo"));
    command.arg("--output").arg(folder).stdin(Stdio::null());
    command
}

/// Returns the names of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

/// Returns the processes that run in this folder or below it.
fn processes(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let inside =
        |process: &PathBuf| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    all.filter(inside).collect()
}

/// Returns the whole numbers in the first line that contains this text.
fn numbers(said: &str, text: &str) -> Vec<usize> {
    let line =
        said.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no {text:?} in:\n{said}"));
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn the_demo_accounts_for_every_job_although_a_worker_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let ended = demo(dir.path()).args(["--pace", "200"]).output().unwrap();
    let (said, complaint) =
        (String::from_utf8(ended.stdout).unwrap(), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}\n{complaint}");
    let [submitted, done, dead, lost] = numbers(&said, " = done ")[..] else { panic!("{said}") };
    assert_eq!((submitted, lost), (done + dead, 0), "{said}");
    let events = ["took over its jobs", "its jobs started again", "The job is done."];
    for text in events.into_iter().chain(["1 malformed", "worker 3 finished"]) {
        assert!(said.contains(text), "no {text:?} in:\n{said}");
    }
    let running = numbers(&said, "killed with SIGKILL").pop();
    assert!(running > Some(0), "{said}");

    let [found, expected] = numbers(&said, "are on disk")[..] else { panic!("{said}") };
    assert_eq!(found, expected, "{said}");
    let reports = files(&dir.path().join("reports"));
    assert_eq!(reports.iter().filter(|name| name.ends_with(".md")).count(), expected, "{reports:?}");
    let month = fs::read_to_string(dir.path().join("reports/month/2012-01-wind.md")).unwrap();
    assert!(month.contains("| 31 | 3.90 |"), "{month}");

    assert_eq!(processes(dir.path()), Vec::<PathBuf>::new());
    let log = fs::read_to_string(dir.path().join("redis/server.log")).unwrap();
    assert!(log.contains("ready to exit"), "{log}");
}

#[test]
fn a_demo_that_is_stopped_or_killed_leaves_no_process() {
    for signal in [Signal::TERM, Signal::KILL] {
        let dir = tempfile::tempdir().unwrap();
        let mut demo = demo(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(demo.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("jobs at once each")), "no worker started");
        // Redis and two workers, at least: a worker that starts a program is briefly two processes.
        assert!(processes(dir.path()).len() >= 3);
        kill_process(Pid::from_child(&demo), signal).unwrap();
        let ended = demo.wait_with_output().unwrap();
        if signal == Signal::TERM {
            assert_eq!(ended.status.code(), Some(1));
            let complaint = String::from_utf8_lossy(&ended.stderr);
            assert!(complaint.contains("stopped by a signal"), "{complaint}");
        }
        let gone = || processes(dir.path()).is_empty();
        until("the end of the demo's processes", Duration::from_secs(15), gone);
    }
}
