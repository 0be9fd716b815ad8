//! The form of the output: tables in a pipe and on a terminal, wide tables, JSON and names.

use std::time::Duration;

use harness::cli::{bury, json, launch, sf, stdout_of};
use harness::fleet::queue;
use harness::process::{Launch, Output, python};
use harness::redis_server::RedisServer;

const SOON: Duration = Duration::from_secs(30);

/// Runs a command on a terminal of 80 columns, and prints what the terminal gets.
const ON_A_TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        text = os.read(terminal, 65536)
    except OSError:
        break
    if not text:
        break
    os.write(1, text)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// Runs a command on a terminal, and types what a file contains once that exists.
const WITH_A_PERSON: &str = "
import os, pty, select, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
typed = sys.argv[1]
while True:
    if typed and os.path.exists(typed):
        with open(typed, 'rb') as file:
            os.write(terminal, file.read())
        typed = None
    if not select.select([terminal], [], [], 0.05)[0]:
        continue
    try:
        text = os.read(terminal, 65536)
    except OSError:
        break
    if not text:
        break
    os.write(1, text)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

/// A person before a terminal, who types a line when told to.
pub(super) struct Person {
    folder: tempfile::TempDir,
}

impl Person {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Prepares a command on the person's terminal.
    pub(super) fn runs(&self, server: &RedisServer, args: &[&str]) -> Launch {
        let (url, typed) = (server.url(), self.folder.path().join("typed"));
        let typed = typed.to_str().expect("temporary paths are UTF-8");
        let command = ["-c", WITH_A_PERSON, typed, env!("CARGO_BIN_EXE_streamfleet"), "--redis", &url];
        Launch::program(python(), &[&command, args].concat()).env("TERM", "dumb")
    }

    /// Types a line, once.
    pub(super) fn types(&self, line: &str) {
        let half = self.folder.path().join("half");
        std::fs::write(&half, format!("{line}\n")).unwrap();
        std::fs::rename(half, self.folder.path().join("typed")).unwrap();
    }
}

/// Prepares a command on a terminal of 80 columns that has colors.
pub(super) fn on_a_terminal(server: &RedisServer, args: &[&str]) -> Launch {
    let url = server.url();
    let command = ["-c", ON_A_TERMINAL, env!("CARGO_BIN_EXE_streamfleet"), "--redis", &url];
    Launch::program(python(), &[&command, args].concat()).env("TERM", "xterm").env("NO_COLOR", "")
}

fn shown(launch: &Launch) -> String {
    let output: Output = launch.output(SOON);
    assert_eq!(output.code, Some(0), "{output:?}");
    output.stdout
}

/// Starts a server with a dead letter that has a long error.
fn server() -> RedisServer {
    let server = RedisServer::start();
    let error = "the mail server refused the sender's address because its domain has no record of that kind";
    let letter = ["type", "mail.send", "dead_reason", "exhausted", "dead_kind", "error", "dead_error", error];
    server.cmd(&[&["XADD", "sf:{default}:dead", "1700000000000-0"], &letter[..]].concat());
    server
}

#[test]
fn a_table_in_a_pipe_has_neither_borders_nor_colors_and_is_not_cut() {
    let shown = stdout_of(&server(), &["dead", "list"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].starts_with("letter           type       reason     died"), "{shown}");
    assert!(lines[1].starts_with("1700000000000-0  mail.send  exhausted  "), "{shown}");
    assert!(lines[1].ends_with("no record of that kind"), "{shown}");
    assert!(shown.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{shown:?}");
}

#[test]
fn a_table_on_a_terminal_fits_its_width() {
    let server = server();
    let launch = on_a_terminal(&server, &["dead", "list"]);
    let cut = shown(&launch.env("NO_COLOR", "1"));
    assert!(cut.lines().all(|line| line.chars().count() <= 80), "{cut}");
    assert!(cut.contains("1700000000000-0  mail.send  exhausted  ") && cut.contains('…'), "{cut}");
    assert!(!cut.contains('\u{1b}'), "{cut:?}");
    let wide = shown(&on_a_terminal(&server, &["dead", "list", "-o", "wide"]));
    assert!(wide.contains("no record of that kind") && !wide.contains('…'), "{wide}");
}

/// Fills all lists with long names, ids and texts.
fn crowded() -> RedisServer {
    const REASON: &str = "the bank asked us to stop all of its jobs until somebody has called them";
    const TYPE: &str = "customers.notifications.send_weekly";
    let server = server();
    for command in [
        "enqueue TYPE {} --id 8c7ffab0-94b3-4a3a-8f28-2a4cbd6cd8a1 --queue customer-notifications-and-monthly-reports",
        "enqueue TYPE {} --id 2f5d0e83-77a1-4e0e-b1b7-9be1ab9d3a10 --delay 30d",
        "enqueue TYPE {} --queue customer-notifications-and-monthly-reports --delay 30d",
        "pause --queue default --type TYPE --for 1h --reason REASON",
        "gates set key:h.dependency --concurrency 100 --rate 100/s --breaker 50%/20/1m/30s",
        "cron add customers.notifications.monthly --schedule 30_4_1_*_* --type TYPE",
        "dead replay --all --yes --rate 10/h --reason REASON --detach",
        "dead groups --recount",
    ] {
        let words = command.split(' ').map(|word| match word {
            "REASON" => REASON.to_owned(),
            "TYPE" => TYPE.to_owned(),
            other => {
                if other.ends_with('*') {
                    other.replace('_', " ")
                } else {
                    other.to_owned()
                }
            }
        });
        let words: Vec<String> = words.collect();
        let output = sf(&server, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.code, Some(0), "{command}: {output:?}");
    }
    for queue in ["default", "customer-notifications-and-monthly-reports"] {
        let fields = ["*", "type", TYPE, "id", "8c7ffab0-94b3-4a3a-8f28-2a4cbd6cd8a1", "dead_error", REASON];
        server.cmd(&[&["XADD", &format!("sf:{{{queue}}}:dead")], &fields[..]].concat());
    }
    server
}

#[test]
fn every_list_on_a_terminal_fits_its_width() {
    let server = crowded();
    let lists = [
        "jobs",
        "queues",
        "dead list",
        "dead groups",
        "delayed list",
        "gates list",
        "cron list",
        "tasks list",
        "audit",
        "workers",
        "alerts list",
        "metrics",
        "stats default",
        "check",
    ];
    for list in lists {
        let args: Vec<&str> = list.split(' ').collect();
        let output = on_a_terminal(&server, &args).env("NO_COLOR", "1").output(SOON);
        // A line shows what came after it was last erased, as progress is.
        let lines = output.stdout.lines().filter_map(|line| line.rsplit("\u{1b}[2K").next());
        // Sentences below a table continue on the terminal's next line.
        let rows: Vec<&str> = lines.filter(|line| line.contains("  ")).collect();
        assert!(rows.iter().all(|row| row.chars().count() <= 80), "{list}: {rows:#?}");
        let is_empty = matches!(list, "workers" | "alerts list" | "stats default");
        assert!(is_empty || rows.len() >= 2, "{list}: {output:?}");
    }
    let jobs = shown(&on_a_terminal(&server, &["jobs"]).env("NO_COLOR", "1"));
    for id in ["8c7ffab0-94b3-4a3a-8f28-2a4cbd6cd8a1", "2f5d0e83-77a1-4e0e-b1b7-9be1ab9d3a10"] {
        assert!(jobs.contains(id), "{jobs}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn colors_have_a_meaning_and_are_left_out_on_request() {
    let server = RedisServer::start();
    bury(&server, &queue(&server).await, 1).await;
    let id = json(&server, &["dead", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    let status = on_a_terminal(&server, &["status", &id]);
    assert!(shown(&status).contains("\u{1b}[31mdead\u{1b}[0m"), "{}", shown(&status));
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert!(!shown(&status.clone().env(name, value)).contains('\u{1b}'), "{name}={value}");
    }
    assert!(!stdout_of(&server, &["status", &id]).contains('\u{1b}'));
}

#[test]
fn a_wide_table_has_more_columns() {
    let server = server();
    let headings = |args: &[&str]| stdout_of(&server, args).lines().next().unwrap().to_owned();
    assert!(!headings(&["dead", "list"]).contains("attempts"));
    assert!(headings(&["dead", "list", "--output", "wide"]).contains("attempts"));
    assert!(headings(&["-o", "wide", "queues"]).ends_with("leader"));
}

#[test]
fn names_are_printed_one_per_line_and_nothing_if_there_are_none() {
    let server = server();
    sf(&server, &["enqueue", "a", "--queue", "mail", "--id", "order-7", "--delay", "1h"]);
    assert_eq!(stdout_of(&server, &["queues", "-o", "name"]), "default\nmail\n");
    assert_eq!(stdout_of(&server, &["dead", "list", "-o", "name"]), "1700000000000-0\n");
    assert_eq!(stdout_of(&server, &["delayed", "list", "-q", "mail", "-o", "name"]), "order-7\n");
    assert_eq!(stdout_of(&server, &["delayed", "list", "-o", "name"]), "");
    assert_eq!(stdout_of(&server, &["status", "order-7", "-q", "mail", "-o", "name"]), "order-7\n");
    let letters = stdout_of(&server, &["dead", "list", "-o", "name"]);
    let dropped = stdout_of(&server, &["dead", "drop", letters.trim()]);
    assert_eq!(dropped, "1 dropped\n");
}

#[test]
fn times_are_local_or_utc_and_in_json_always_utc() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "a", "--id", "order-7", "--at", "2100-01-01T00:00:00Z"]);
    let in_tokyo = |more: &[&str]| {
        shown(&launch(&server, &[&["delayed", "list"], more].concat()).env("TZ", "Asia/Tokyo"))
    };
    assert!(in_tokyo(&[]).contains("  2100-01-01 09:00:00 (in "), "{}", in_tokyo(&[]));
    assert!(in_tokyo(&["--utc"]).contains("  2100-01-01 00:00:00Z (in "), "{}", in_tokyo(&["--utc"]));
    assert!(in_tokyo(&["--json"]).contains("\"2100-01-01T00:00:00.000Z\""), "{}", in_tokyo(&["--json"]));
}

#[test]
fn json_is_a_form_of_its_own_and_has_a_short_option() {
    let server = server();
    let long = stdout_of(&server, &["dead", "list", "-o", "json"]);
    assert_eq!(long, stdout_of(&server, &["dead", "list", "--json"]));
    assert!(long.starts_with('{'), "{long}");
    assert_eq!(sf(&server, &["queues", "-o", "yaml"]).code, Some(2));
}
