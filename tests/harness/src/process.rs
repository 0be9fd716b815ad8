//! Child processes: workers of the real binary, and runs of its command line.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::server_program;
use super::terminal::Terminal;
use super::wait::{pause_for, until};

/// The environment variable with the orders for another process of this program.
const ORDERS: &str = "STREAMFLEET_TEST_ORDERS";

/// The environment variable that activates a deliberate bug, in builds that contain them.
pub const SABOTAGE: &str = "STREAMFLEET_SABOTAGE";

/// The variable with the path of the program, which cargo builds before its tests and sets when it runs them.
const PROGRAM: &str = "CARGO_BIN_EXE_streamfleet";

const RAN: Duration = Duration::from_secs(90);

/// A program to start. Of the test's own `STREAMFLEET_*` variables, only those for the server program and the deliberate bug are
/// passed on.
#[derive(Clone)]
pub struct Launch {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    config: String,
    stdin: Vec<u8>,
}

impl Launch {
    /// Prepares a run of the program `streamfleet`. `{config}` in an argument becomes the path of the configuration file.
    pub fn new(args: &[&str]) -> Self {
        Self::program(streamfleet(), args)
    }

    /// Prepares another run of this test program, with only this test, which receives its [`orders`].
    pub fn this_program(test: &str, orders: &impl serde::Serialize) -> Self {
        let program = std::env::current_exe().unwrap();
        let launch = Self::program(program, &[test, "--exact", "--nocapture"]);
        launch.env(ORDERS, serde_json::to_string(&(std::process::id(), orders)).unwrap())
    }

    /// Prepares a run of any other program, such as a handler.
    pub fn program(program: impl AsRef<Path>, args: &[&str]) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            env: Vec::new(),
            config: String::new(),
            stdin: Vec::new(),
        }
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the text of the configuration file.
    pub fn config(mut self, toml: &str) -> Self {
        toml.clone_into(&mut self.config);
        self
    }

    pub fn stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Starts the process and lets it run.
    pub fn start(&self) -> Worker {
        self.spawn(None)
    }

    /// Starts the process on a terminal, in a session of its own.
    pub fn start_on(&self, terminal: &Terminal) -> Worker {
        let program = self.program.to_str().expect("the path of a program is UTF-8").to_owned();
        let args = ["--ctty".to_owned(), program].into_iter().chain(self.args.iter().cloned()).collect();
        Self { program: "setsid".into(), args, ..self.clone() }.spawn(Some(terminal))
    }

    fn spawn(&self, terminal: Option<&Terminal>) -> Worker {
        let dir = tempfile::Builder::new().prefix("streamfleet-process-").tempdir().unwrap();
        let config = dir.path().join("config.toml");
        fs::write(&config, &self.config).unwrap();
        fs::write(dir.path().join("stdin"), &self.stdin).unwrap();
        let config = config.to_str().expect("temporary paths are UTF-8");
        let file = |name| File::create(dir.path().join(name)).unwrap();
        let files = [File::open(dir.path().join("stdin")).unwrap(), file("stdout"), file("stderr")];
        let [stdin, stdout, stderr] = terminal.map_or(files, Terminal::ends).map(Stdio::from);
        let mut command = Command::new(&self.program);
        for (name, _value) in std::env::vars_os().filter(|(name, _value)| is_ours(name)) {
            command.env_remove(name);
        }
        let child = command
            .args(self.args.iter().map(|arg| arg.replace("{config}", config)))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("failed to start {}: {error}", self.program.display()));
        let pid = child.id();
        Worker { dir, pid, child: Mutex::new(child) }
    }

    /// Runs the process until it exits, or panics at the deadline.
    pub fn output(&self, deadline: Duration) -> Output {
        let process = self.start();
        let status = process.wait_exit(deadline);
        Output { code: status.code(), stdout: process.stdout(), stderr: process.stderr() }
    }
}

/// Returns the path of the program `streamfleet`.
pub fn streamfleet() -> PathBuf {
    let path = std::env::var_os(PROGRAM);
    path.unwrap_or_else(|| panic!("{PROGRAM} is not set: cargo 1.94 or later must run these tests")).into()
}

fn is_ours(name: &OsStr) -> bool {
    let passed_on = [server_program::VARIABLE, SABOTAGE].iter().any(|known| name == *known);
    name.as_encoded_bytes().starts_with(b"STREAMFLEET_") && !passed_on
        || name == "TRACEPARENT"
        || name == "TRACESTATE"
        || name.as_encoded_bytes().starts_with(b"OTEL_")
}

/// Returns the orders from [`Launch::this_program`], if it started this process. From then on, this process ends with the one
/// that started it.
pub fn orders<T: serde::de::DeserializeOwned>() -> Option<T> {
    #[expect(clippy::disallowed_methods, reason = "this is how the process learns what to do")]
    let orders = std::env::var(ORDERS).ok()?;
    let (parent, orders) = serde_json::from_str(&orders).unwrap();
    std::thread::spawn(move || end_after(parent));
    Some(orders)
}

/// Ends this process once its parent is gone, even if the parent was killed. A worker that is left behind would take the jobs of a
/// later test's server on the same port.
fn end_after(parent: u32) -> ! {
    while parent_id() == parent {
        pause_for(Duration::from_millis(100));
    }
    std::process::abort();
}

/// Runs the program `streamfleet`, which must exit within 90 seconds, because `check` computes for many of them on a slow machine.
pub fn run(args: &[&str], stdin: &[u8]) -> Output {
    Launch::new(args).stdin(stdin).output(RAN)
}

/// Returns the path of the interpreter that `python3` is. What is on the `PATH` may be a script of a version manager, which takes
/// many times longer to start than the interpreter itself.
pub fn python() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        let found = Launch::program("python3", &["-c", "import sys; print(sys.executable)"]).output(RAN);
        assert!(
            found.code == Some(0) && found.stdout.starts_with('/'),
            "these tests need python3: {found:?}"
        );
        found.stdout.trim().to_owned()
    });
    &PATH
}

/// The output of a finished process.
#[derive(Debug)]
pub struct Output {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A running process, killed on drop. On a panic its stderr is printed.
pub struct Worker {
    dir: TempDir,
    pid: u32,
    child: Mutex<Child>,
}

/// Returns the most memory that a process ever had, in bytes.
pub fn peak_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns its exit status if it has ended.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Waits until it ends. Panics at the deadline.
    pub fn wait_exit(&self, deadline: Duration) -> ExitStatus {
        until(&format!("the end of process {}", self.pid), deadline, || self.exit_status())
    }

    /// Kills it as a crash would, and waits until it is gone.
    pub fn kill9(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to stop.
    pub fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// Whether it catches the signal of this number yet.
    pub fn catches(&self, signal: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        caught >> (signal - 1) & 1 == 1
    }

    /// Does what Ctrl-C in a terminal does to it.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Does what a terminal that closes does to it.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Freezes it, and waits until all its threads have stopped; its connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        until(&format!("process {} to stop", self.pid), RAN, || !self.has_running_thread());
    }

    /// A thread that ends meanwhile has stopped.
    fn has_running_thread(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        threads.flatten().any(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name may contain anything, but the state follows its last bracket.
            stat.rsplit_once(") ").is_some_and(|(_, facts)| facts.starts_with(['R', 'S', 'D']))
        })
    }

    /// Lets it continue.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Returns what it has printed so far.
    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// Returns what it has logged so far.
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    /// Sends a signal. The lock and the check make sure that the id still belongs to the child.
    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.path().join(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() {
            let stderr = self.stderr();
            let lines: Vec<&str> = stderr.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("the stderr of process {} ends with:\n{tail}", self.pid);
        }
    }
}
