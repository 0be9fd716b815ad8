//! `dev`: a server and a worker that start and stop together.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use redis::ConnectionLike;

use harness::process::{Launch, Output, Worker};
use harness::server_program;
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// The lines to paste into another terminal.
struct Pasted {
    /// The values of environment variables.
    variables: BTreeMap<String, String>,
    /// The words of the command that submits a job.
    submit: Vec<String>,
}

impl Pasted {
    /// Lets a shell interpret the printed lines.
    fn of(stdout: &str) -> Option<Self> {
        let line = |start| stdout.lines().find_map(|line| line.strip_prefix(start));
        let (login, submit) = (line("log in:        ")?, line("submit a job:  ")?);
        let printed =
            Command::new("sh").args(["-c", &format!("{login}; env; printf '\\0%s' {submit}")]).output();
        let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
        let mut parts = printed.split('\0').map(str::to_owned);
        let variables = parts.next()?;
        let variables = variables.lines().filter_map(|line| line.split_once('='));
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Self { variables, submit: parts.collect() })
    }

    fn port(&self) -> u16 {
        assert_eq!(self.submit[1], "-p");
        self.submit[2].parse().unwrap()
    }

    fn connect(&self) -> Option<redis::Connection> {
        let password = &self.variables["REDISCLI_AUTH"];
        let client = redis::Client::open(format!("redis://:{password}@127.0.0.1:{}", self.port())).unwrap();
        client.get_connection_with_timeout(SOON).ok()
    }

    /// Submits the job and returns its id.
    fn submit(&self) -> String {
        let mut command = redis::Cmd::new();
        command.arg(&self.submit[3..]);
        let reply = self.connect().unwrap().req_command(&command).unwrap();
        redis::from_redis_value(reply).unwrap()
    }

    /// Runs the program with these variables.
    fn run(&self, args: &[&str]) -> Output {
        let ours = self.variables.iter().filter(|(name, _)| name.starts_with("STREAMFLEET__REDIS"));
        ours.fold(Launch::new(args), |launch, (name, value)| launch.env(name, value)).output(SOON)
    }
}

/// Starts the process and returns it with the lines to paste.
fn start(folder: &Path) -> (Worker, Pasted) {
    start_with(folder, &[])
}

/// Starts the process with more arguments.
fn start_with(folder: &Path, more: &[&str]) -> (Worker, Pasted) {
    let launch = Launch::new(&[&["dev", "--folder", folder.to_str().unwrap()], more].concat());
    let process = launch.env("STREAMFLEET__TELEMETRY__LISTEN", "127.0.0.1:0").start();
    let pasted = until("the lines to paste", SOON, || Pasted::of(&process.stdout()));
    (process, pasted)
}

fn server_pid(connection: &mut redis::Connection) -> u32 {
    let info: String = redis::cmd("INFO").arg("server").query(connection).unwrap();
    let pid = info.lines().find_map(|line| line.trim().strip_prefix("process_id:")).unwrap();
    pid.parse().unwrap()
}

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn without_a_terminal_a_hang_up_replaces_programs_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (program, path) = (env!("CARGO_BIN_EXE_streamfleet"), folder.path().to_str().unwrap());
    // The tests themselves may run under nohup.
    let args = ["env", "--default-signal=HUP", program, "dev", "--verbose", "--folder", path];
    let launch = Launch::program("setsid", &args).env("STREAMFLEET__TELEMETRY__LISTEN", "127.0.0.1:0");
    let process = launch.start();
    let pasted = until("the lines to paste", SOON, || Pasted::of(&process.stdout()));
    process.hang_up();
    until("the signal to be heard", SOON, || process.stderr().contains("asked to replace the programs"));
    assert!(pasted.connect().is_some(), "the server runs as before: {}", process.stderr());
    process.term();
    assert_eq!(process.wait_exit(SOON).code(), Some(0), "{}", process.stderr());
}

#[test]
fn the_printed_lines_submit_a_job_and_ctrl_c_ends_worker_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let (process, pasted) = start(folder.path());
    let pid = server_pid(&mut pasted.connect().unwrap());
    let id = pasted.submit();
    until("the job is done", SOON, || {
        pasted.run(&["status", &id, "--json"]).stdout.contains(r#""state": "done""#)
    });
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    assert!(is_gone(pid));
    assert!(pasted.connect().is_none());
}

/// Sends a request that begins with this line and may have one more header, and returns the answer.
fn ask(address: &str, line: &str, header: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: {address}\r\n{header}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_printed_link_opens_the_console_which_stops_with_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    // Accounts are for a console that others use, so a missing file does not matter.
    let launch =
        Launch::new(&["dev", "--folder", folder.path().to_str().unwrap(), "--console", "127.0.0.1:0"]);
    let launch = launch.env("STREAMFLEET__CONSOLE__ACCOUNTS_FILE", "/nonexistent");
    let process = launch.env("STREAMFLEET__TELEMETRY__LISTEN", "127.0.0.1:0").start();
    let link = until("the link", SOON, || {
        let stdout = process.stdout();
        let link = stdout.lines().find_map(|line| line.strip_prefix("console:       http://"))?;
        stdout.contains("Ctrl-C").then(|| link.to_owned())
    });
    let (address, path) = link.split_once('/').unwrap();
    let document = ask(address, &format!("GET /{path}"), "Accept: text/html", "");
    assert!(document.starts_with("HTTP/1.1 200 ") && document.contains("<script"), "{document}");
    // What the scripts of the document do with the key.
    let body = format!(r#"{{"key":"{}"}}"#, path.split_once("key=").unwrap().1);
    let entered = ask(address, "POST /api/v1/session", "Content-Type: application/json", &body);
    assert!(entered.starts_with("HTTP/1.1 204 "), "{entered}");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let queues = ask(address, "GET /api/v1/queues", &format!("Cookie: {cookie}"), "");
    assert!(queues.starts_with("HTTP/1.1 200 "), "{queues}");
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn the_console_is_not_served_to_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        Launch::new(&["dev", "--folder", folder.path().to_str().unwrap(), "--console", "0.0.0.0:0"])
            .output(SOON);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--console: others can reach 0.0.0.0:0"), "{refused:?}");
}

#[test]
fn other_users_cannot_read_the_data_or_use_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, pasted) = start(folder.path());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.path()), 0o700);
    assert_eq!(mode(&folder.path().join("password")), 0o600);
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", pasted.port())).unwrap();
    let refused = redis::cmd("PING").query::<()>(&mut client.get_connection().unwrap()).unwrap_err();
    assert_eq!(refused.code(), Some("NOAUTH"));
    // All users of a machine can see all arguments.
    let pid = server_pid(&mut pasted.connect().unwrap());
    let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!arguments.contains(&pasted.variables["REDISCLI_AUTH"]), "{arguments}");
}

#[test]
fn port_password_and_data_are_kept_between_runs() {
    // A path with characters that are special to a shell stays one word.
    let folder = tempfile::Builder::new().prefix("it's $HOME ").tempdir().unwrap();
    let (process, first) = start(folder.path());
    let _: () = redis::cmd("SET").arg("k").arg("v").query(&mut first.connect().unwrap()).unwrap();
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    let (_process, second) = start(folder.path());
    assert_eq!(first.port(), second.port());
    let value: String = redis::cmd("GET").arg("k").query(&mut first.connect().unwrap()).unwrap();
    assert_eq!(value, "v");
}

#[test]
fn a_port_is_used_if_it_is_free_and_kept_for_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let args = ["dev", "--folder", folder.path().to_str().unwrap(), "--port", &port];
    let refused = Launch::new(&args).output(SOON);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let told = format!(
        "error: the port {port} is in use: choose another one, or leave out --port to get one that is free\n"
    );
    assert_eq!(refused.stderr, told);
    assert!(!folder.path().join("password").exists(), "of a server that was not started");
    drop(taken);
    let (process, first) = start_with(folder.path(), &["--port", &port]);
    assert_eq!(first.port().to_string(), port);
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
    let (_process, second) = start(folder.path());
    assert_eq!(second.port(), first.port());
}

#[test]
fn a_folder_serves_one_process_and_the_server_dies_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (process, pasted) = start(folder.path());
    let pid = server_pid(&mut pasted.connect().unwrap());
    let other = Launch::new(&["dev", "--folder", folder.path().to_str().unwrap()]).output(SOON);
    assert_eq!(other.code, Some(1), "{other:?}");
    let told = "is in use by another process: probably another `streamfleet dev`; stop it, or choose another folder with --folder";
    assert!(other.stderr.contains(told), "{other:?}");
    process.kill9();
    until("the server is gone", SOON, || is_gone(pid));
}

#[test]
fn a_server_that_exits_ends_the_worker_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (process, pasted) = start(folder.path());
    // The server no longer answers, so this command gets no reply.
    redis::cmd("SHUTDOWN").arg("NOSAVE").query::<()>(&mut pasted.connect().unwrap()).unwrap_or_default();
    assert_eq!(process.wait_exit(Duration::from_secs(60)).code(), Some(1));
    assert!(process.stderr().contains("the redis server exited unexpectedly"), "{}", process.stderr());
}

#[test]
fn a_missing_server_program_is_reported_with_its_package() {
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
