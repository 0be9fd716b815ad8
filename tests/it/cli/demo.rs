//! `demo`: the account is complete, and nothing is left running however the demo ends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::harness::process::Launch;
use crate::harness::wait::until;

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

/// Returns the command lines of the running processes that contain this text.
fn processes(text: &str) -> Vec<String> {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(text)).collect()
}

fn count(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

#[test]
fn the_demo_accounts_for_every_job_although_a_worker_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().to_str().unwrap();
    let demo = Launch::new(&["demo", "--json", "--pace", "200ms", "--output", output]);
    let ended = demo.output(Duration::from_secs(100));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let account: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&account["holds"], &account["lost"]), (&true.into(), &0.into()), "{account:#}");
    assert_eq!(
        count(&account["submitted"]),
        count(&account["done"]) + count(&account["dead"]),
        "{account:#}"
    );
    assert_eq!(account["dead_by_reason"]["malformed"], 1, "{account:#}");
    assert_eq!(account["replay"]["done"], true, "{account:#}");

    let reports = files(&dir.path().join("reports"));
    let finished = reports.iter().filter(|name| name.ends_with(".md")).count();
    assert_eq!(finished, count(&account["reports"]["expected"]), "{account:#}");
    let month = fs::read_to_string(dir.path().join("reports/month/2012-01-wind.md")).unwrap();
    assert!(month.contains("| 31 | 3.90 |"), "{month}");

    let killed = &account["killed"];
    assert!(!killed["jobs"].as_array().unwrap().is_empty(), "{killed:#}");
    assert!(killed["taken_over_ms"].is_u64() && killed["last_restart_ms"].is_u64(), "{killed:#}");
    assert_eq!(account["workers"].as_array().unwrap().len(), 3);

    assert_eq!(processes(output), Vec::<String>::new());
    let log = fs::read_to_string(dir.path().join("redis/server.log")).unwrap();
    assert!(log.contains("ready to exit"), "{log}");
}

#[test]
fn a_demo_that_is_stopped_or_killed_leaves_no_process() {
    for is_killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().to_str().unwrap();
        let demo = Launch::new(&["demo", "--output", output]).start();
        let working = || (demo.stdout().contains("jobs at once each")).then_some(());
        until("the demo's workers", Duration::from_secs(30), working);
        // Two or more: a worker that starts a program is briefly two processes.
        assert!(processes(output).iter().filter(|line| line.contains("demo-worker")).count() >= 2);
        if is_killed {
            demo.kill9();
        } else {
            demo.term();
            assert_eq!(demo.wait_exit(Duration::from_secs(10)).code(), Some(1));
            assert!(demo.stderr().contains("stopped by a signal"), "{}", demo.stderr());
        }
        let gone = || processes(output).is_empty().then_some(());
        until("the end of the demo's workers", Duration::from_secs(15), gone);
    }
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let demo = Launch::new(&["demo", "--output", dir.path().to_str().unwrap()]);
    let ended = demo.output(Duration::from_secs(10));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("not a demo's"), "{}", ended.stderr);
}
