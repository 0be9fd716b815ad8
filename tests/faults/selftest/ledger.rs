//! Tests of `harness::ledger`.

use std::time::Duration;

use harness::ledger::{Fence, How, Ledger, Record, Run};
use harness::process::Launch;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(10);

fn run(job: &str) -> Run {
    Run { job: job.to_owned(), attempt: 1, fence: Fence(1_700_000_000_000, 3), pid: 42 }
}

#[test]
fn records_are_read_back_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let writer = ledger.writer("producer");
    writer.submitted("a");
    writer.started(&run("a"));
    ledger.writer("producer").ended(&run("a"), How::Interrupted);
    let unknown = Record::Unknown { job: "b".to_owned(), t: 9 };
    writer.append(&unknown);
    let records = ledger.read();
    assert_eq!(records.len(), 4);
    assert!(matches!(&records[0], Record::Submit { job, .. } if job == "a"));
    assert!(matches!(&records[1], Record::Start { run: found, .. } if *found == run("a")));
    assert!(matches!(&records[2], Record::End { how: How::Interrupted, .. }));
    assert_eq!(records[3], unknown);
}

#[test]
fn a_killed_shell_handler_leaves_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(dir.path());
    let script = "while :; do echo \"start job 0 5-1 $$ 77\" >> \"$LEDGER\"; done";
    let path = dir.path().join("handler").display().to_string();
    let worker = Launch::program("/bin/sh", &["-c", script]).env("LEDGER", path).start();
    until("the handler has written", SOON, || !ledger.read().is_empty());
    worker.kill9();
    let expected = Run { job: "job".to_owned(), attempt: 0, fence: Fence(5, 1), pid: worker.pid() };
    assert_eq!(ledger.read()[0], Record::Start { run: expected, t: 77 });
}

#[test]
fn an_invalid_line_is_rejected() {
    for line in ["", "start", "start a 0 5 1 2", "end a 0 5-1 1 2 maybe", "submit a b 3", "submit a -3"] {
        assert!(line.parse::<Record>().is_err(), "{line}");
    }
}
