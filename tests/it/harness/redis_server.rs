//! A real Redis (or Valkey) server for one test, with its own directory, port and process. Nothing is shared.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use redis::{Connection, ConnectionLike, RedisResult, ToRedisArgs, Value};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::clock::Shift;
use super::server_program;
use super::wait::until;

/// How long a start may take: a long append-only file takes time to load.
const STARTED: Duration = Duration::from_secs(60);
const ANSWERED: Duration = Duration::from_secs(10);
/// The harness logs in as its own user, so a test may restrict `default` as it likes.
pub(super) const HARNESS_USER: &str = "harness";
pub(super) const HARNESS_PASSWORD: &str = "harness-only";

/// How the server writes its append-only file. RDB snapshots are always off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aof {
    /// No file: everything is lost with the process.
    None,
    /// fsync once a second.
    EverySec,
    /// fsync before each reply.
    Always,
}

/// What kind of server to start.
pub(crate) struct Builder {
    aof: Aof,
    password: Option<String>,
    acl: String,
    file: Option<PathBuf>,
    args: Vec<String>,
    shifts: bool,
}

impl Builder {
    /// Default: [`Aof::None`].
    pub(crate) fn aof(mut self, aof: Aof) -> Self {
        self.aof = aof;
        self
    }

    /// Sets the password of the user `default`, which otherwise needs none.
    pub(crate) fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds lines of an ACL file (`user worker on >w ~sf:* +@all`). One for `default` replaces the built-in one.
    pub(crate) fn users_acl(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.acl);
        self
    }

    /// Sets a configuration file that replaces the harness's choices.
    pub(crate) fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds arguments for the server, such as `["--maxmemory", "20mb"]`.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Makes the server's wall clock [shiftable](RedisServer::shift_clock).
    pub(crate) fn clock_shifts(mut self) -> Self {
        self.shifts = true;
        self
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn start(self) -> RedisServer {
        let dir = tempfile::Builder::new().prefix("streamfleet-redis-").tempdir().unwrap();
        fs::write(dir.path().join("users.acl"), self.acl_file()).unwrap();
        let args = self.arguments(&dir);
        let shift = self.shifts.then(|| Shift::new(&dir.path().join("clock")));
        let child = Mutex::new(None);
        let mut server = RedisServer { dir, port: 0, args, password: self.password, child, shift };
        for _another_port in 0..20 {
            server.port = free_port();
            if server.launch() {
                return server;
            }
        }
        panic!("redis-server did not start; its log ends with:\n{}", server.log_tail());
    }

    fn acl_file(&self) -> String {
        let default = match &self.password {
            Some(password) => format!("user default on >{password} ~* &* +@all\n"),
            None => "user default on nopass ~* &* +@all\n".to_owned(),
        };
        let default = if self.acl.contains("user default ") { String::new() } else { default };
        format!("{default}user {HARNESS_USER} on >{HARNESS_PASSWORD} ~* &* +@all\n{}\n", self.acl)
    }

    fn arguments(&self, dir: &TempDir) -> Vec<String> {
        let (append_only, fsync) = match self.aof {
            Aof::None => ("no", "no"),
            Aof::EverySec => ("yes", "everysec"),
            Aof::Always => ("yes", "always"),
        };
        let dir = dir.path().display().to_string();
        let acl = format!("{dir}/users.acl");
        let fixed = ["--bind", "127.0.0.1", "--daemonize", "no", "--dir", &dir, "--aclfile", &acl];
        let ours = ["--save", "", "--appendonly", append_only, "--appendfsync", fsync];
        let file = self.file.iter().map(|path| path.display().to_string());
        let ours = ours.into_iter().filter(|_| self.file.is_none());
        let fixed = fixed.into_iter().chain(ours).map(str::to_owned);
        file.chain(fixed).chain(self.args.iter().cloned()).collect()
    }
}

/// A running server. It is killed and its directory removed on drop.
pub(crate) struct RedisServer {
    dir: TempDir,
    port: u16,
    args: Vec<String>,
    password: Option<String>,
    child: Mutex<Option<Child>>,
    shift: Option<Shift>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk and asks for no password.
    pub(crate) fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub(crate) fn builder() -> Builder {
        Builder {
            aof: Aof::None,
            password: None,
            acl: String::new(),
            file: None,
            args: Vec::new(),
            shifts: false,
        }
    }

    /// Returns the URL for the user `default`, with its password if it has one.
    pub(crate) fn url(&self) -> String {
        self.url_through(self.addr())
    }

    /// Returns the same URL with another address, such as a proxy's.
    pub(crate) fn url_through(&self, addr: SocketAddr) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@{addr}/0"),
            None => format!("redis://{addr}/0"),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Opens a connection with all rights, or panics.
    pub(crate) fn client(&self) -> Connection {
        self.connect()
            .unwrap_or_else(|error| panic!("failed to connect to redis on port {}: {error}", self.port))
    }

    /// Runs one command on its own connection: `cmd(&["XLEN", "s"])`. Panics on any error.
    pub(crate) fn cmd<A: ToRedisArgs>(&self, args: &[A]) -> Value {
        let reply = self.try_cmd(args);
        reply.unwrap_or_else(|error| panic!("redis on port {} answered: {error}", self.port))
    }

    /// Like [`cmd`](Self::cmd), for a command that may fail.
    pub(crate) fn try_cmd<A: ToRedisArgs>(&self, args: &[A]) -> RedisResult<Value> {
        let mut command = redis::Cmd::new();
        for arg in args {
            command.arg(arg);
        }
        self.connect()?.req_command(&command)
    }

    /// Whether the server knows this command.
    pub(crate) fn knows(&self, command: &str) -> bool {
        let known: Vec<Value> = redis::from_redis_value(self.cmd(&["COMMAND", "INFO", command])).unwrap();
        known.iter().any(|known| *known != Value::Nil)
    }

    /// Runs a pipeline on its own connection. Returns a reply for each command, which may be an error.
    pub(crate) fn try_pipe(&self, pipe: &redis::Pipeline) -> RedisResult<Vec<Value>> {
        let mut connection = self.connect()?;
        connection.req_packed_commands(&pipe.get_packed_pipeline(), 0, pipe.len())
    }

    /// Returns the process id. Panics while the server is down.
    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().as_ref().expect("the redis server is down").id()
    }

    /// Returns the CPU time of the process so far, user and system.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let after_name = stat.rsplit_once(") ").expect("the name is in parentheses").1;
        // The third field is the first here; utime and stime are the fields 14 and 15.
        let ticks: f64 =
            after_name.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    /// Kills the process as a crash would, and waits until it is gone.
    pub(crate) fn kill9(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) fn stop_gracefully(&self) {
        self.signal(Signal::TERM);
        self.thaw();
        until("redis to stop", STARTED, || self.has_ended());
        *self.child.lock().unwrap() = None;
    }

    /// Restarts it with the same port and directory, after [`kill9`](Self::kill9) if it is still running.
    pub(crate) fn restart(&self) {
        self.kill9();
        assert!(self.launch(), "redis did not restart:\n{}", self.log_tail());
    }

    /// Shifts its wall clock by this many milliseconds. Panics unless it was started with a shiftable clock.
    pub(crate) fn shift_clock(&self, by_ms: i64) {
        self.shift.as_ref().expect("the server must be built with clock_shifts()").by(by_ms);
    }

    /// Freezes the process; its connections stay open.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen process continue.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.lock().unwrap();
        kill_process(Pid::from_child(child.as_ref().expect("the redis server is down")), signal).unwrap();
    }

    fn connect(&self) -> RedisResult<Connection> {
        let url = format!("redis://{HARNESS_USER}:{HARNESS_PASSWORD}@{}/0", self.addr());
        let connection = redis::Client::open(url)?.get_connection_with_timeout(ANSWERED)?;
        connection.set_read_timeout(Some(ANSWERED))?;
        Ok(connection)
    }

    /// Starts the process. Returns false if it ended instead, as it does when the port is taken.
    fn launch(&self) -> bool {
        let child = self.spawn();
        let pid = child.id();
        *self.child.lock().unwrap() = Some(child);
        let running = until("redis to answer PING", STARTED, || {
            if self.has_ended() { Some(false) } else { self.is_served_by(pid).then_some(true) }
        });
        if !running {
            *self.child.lock().unwrap() = None;
        }
        running
    }

    fn has_ended(&self) -> bool {
        let mut child = self.child.lock().unwrap();
        child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut command = server_program::command();
        // A configuration file, if there is one, comes first.
        command.args(&self.args).args(["--port", &self.port.to_string()]);
        command.envs(self.shift.iter().flat_map(Shift::environment));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        command.spawn().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"))
    }

    /// Another server on the same port would answer PING too, so the process id is compared.
    fn is_served_by(&self, pid: u32) -> bool {
        let Ok(mut connection) = self.connect() else { return false };
        let ready = redis::cmd("PING").query::<String>(&mut connection).is_ok();
        let info = redis::cmd("INFO").arg("server").query::<String>(&mut connection).unwrap_or_default();
        ready && info.lines().any(|line| line.trim_end() == format!("process_id:{pid}"))
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of redis on port {} ends with:\n{}", self.port, self.log_tail());
        }
        self.kill9();
    }
}

/// Returns a free port below the ephemeral range. A port inside that range could become the client end of another connection
/// while the server is down, even of a client that tries to reconnect to it and then talks to itself.
pub(crate) fn free_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ephemeral = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32_768_u16);
    for _try in 0..100 {
        let port = if ephemeral > 20_000 { rand::random_range(10_000..ephemeral) } else { 0 };
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().unwrap().port();
        }
    }
    panic!("no free port on the loopback address");
}
