//! A real Redis (or Valkey) server for one test, with its own directory, port and process. Nothing is shared.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use redis::{Connection, ConnectionLike, RedisResult, ToRedisArgs, Value};
use rustix::process::{Pid, Signal, kill_process};
use streamfleet::dev_server::DevServer;
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use super::clock::Shift;
use super::wait::until;

const ANSWERED: Duration = Duration::from_secs(10);
const SYNCED: Duration = Duration::from_secs(20);
/// The ports to choose from: many, so that another test rarely takes the port of a server that is down. They are below the range
/// that most systems use for outgoing connections. A port inside that range could even become the client end of a connection that
/// tries to reconnect to it, and then talks to itself.
const PORTS: Range<u16> = 10_000..32_768;

/// The nodes of a cluster talk to each other on the port plus 10,000, which must be below that range, too.
pub(super) const CLUSTER_PORTS: Range<u16> = PORTS.start..PORTS.end - 10_000;
/// The harness logs in as its own user, so a test may restrict `default` as it likes.
pub(super) const HARNESS_USER: &str = "harness";
pub(super) const HARNESS_PASSWORD: &str = "harness-only";

/// How the server writes its append-only file. RDB snapshots are always off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aof {
    /// No file: everything is lost with the process.
    None,
    /// fsync once a second.
    EverySec,
    /// fsync before each reply.
    Always,
}

/// What kind of server to start.
pub struct Builder {
    aof: Aof,
    password: Option<String>,
    acl: String,
    file: Option<PathBuf>,
    args: Vec<String>,
    shifts: bool,
}

impl Builder {
    /// Default: [`Aof::None`].
    pub fn aof(mut self, aof: Aof) -> Self {
        self.aof = aof;
        self
    }

    /// Sets the password of the user `default`, which otherwise needs none.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Adds lines of an ACL file (`user worker on >w ~sf:* +@all`). One for `default` replaces the built-in one.
    pub fn users_acl(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.acl);
        self
    }

    /// Sets a configuration file that replaces the harness's choices.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds arguments for the server, such as `["--maxmemory", "20mb"]`.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Makes the server's wall clock [shiftable](RedisServer::shift_clock).
    pub fn clock_shifts(mut self) -> Self {
        self.shifts = true;
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> RedisServer {
        let dir = tempfile::Builder::new().prefix("streamfleet-redis-").tempdir().unwrap();
        fs::write(dir.path().join("users.acl"), self.acl_file()).unwrap();
        let shift = self.shifts.then(|| Shift::new(dir.path()));
        let is_clustered = self.args.iter().any(|arg| arg == "--cluster-enabled");
        let ports = if is_clustered { CLUSTER_PORTS } else { PORTS };
        let mut server = DevServer::builder().ports(ports).arguments(self.arguments(dir.path()));
        for (name, value) in shift.iter().flat_map(Shift::environment) {
            server = server.env(name, value);
        }
        let server = block_on(server.start(dir.path())).unwrap_or_else(|error| panic!("{error}"));
        let port = server.port();
        RedisServer { server: Mutex::new(server), dir, port, password: self.password, shift }
    }

    fn acl_file(&self) -> String {
        let default = match &self.password {
            Some(password) => format!("user default on >{password} ~* &* +@all\n"),
            None => "user default on nopass ~* &* +@all\n".to_owned(),
        };
        let default = if self.acl.contains("user default ") { String::new() } else { default };
        format!("{default}user {HARNESS_USER} on >{HARNESS_PASSWORD} ~* &* +@all\n{}\n", self.acl)
    }

    fn arguments(&self, dir: &Path) -> Vec<String> {
        let (append_only, fsync) = match self.aof {
            Aof::None => ("no", "no"),
            Aof::EverySec => ("yes", "everysec"),
            Aof::Always => ("yes", "always"),
        };
        let kept = match &self.file {
            Some(file) => vec!["--include".to_owned(), file.display().to_string()],
            None => ["--appendonly", append_only, "--appendfsync", fsync].map(str::to_owned).to_vec(),
        };
        let acl = ["--aclfile".to_owned(), dir.join("users.acl").display().to_string()];
        kept.into_iter().chain(acl).chain(self.args.iter().cloned()).collect()
    }
}

/// A running server. It is killed and its directory removed on drop.
pub struct RedisServer {
    // Dropped before its directory.
    server: Mutex<DevServer>,
    dir: TempDir,
    port: u16,
    password: Option<String>,
    shift: Option<Shift>,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk and asks for no password.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub fn builder() -> Builder {
        Builder {
            aof: Aof::None,
            password: None,
            acl: String::new(),
            file: None,
            args: Vec::new(),
            shifts: false,
        }
    }

    /// Starts a replica of this server, and waits until it is in sync.
    pub fn replica(&self) -> Self {
        let port = self.port.to_string();
        let follow = ["--replicaof", "127.0.0.1", &port, "--repl-diskless-sync-delay", "0"];
        let login = ["--masteruser", HARNESS_USER, "--masterauth", HARNESS_PASSWORD];
        self.cmd(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let replica = Self::builder().args(&follow).args(&login).start();
        // There must be something to sync: before the first write, every replica is in sync.
        self.cmd(&["SET", "in-step", "1"]);
        until("the replica to be in sync", SYNCED, || self.cmd(&["WAIT", "1", "10"]) == Value::Int(1));
        replica
    }

    /// Returns the URL for the user `default`, with its password if it has one.
    pub fn url(&self) -> String {
        self.url_through(self.addr())
    }

    /// Returns the same URL with another address, such as a proxy's.
    pub fn url_through(&self, addr: SocketAddr) -> String {
        match &self.password {
            Some(password) => format!("redis://:{password}@{addr}/0"),
            None => format!("redis://{addr}/0"),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Opens a connection with all rights, or panics.
    pub fn client(&self) -> Connection {
        self.connect()
            .unwrap_or_else(|error| panic!("failed to connect to redis on port {}: {error}", self.port))
    }

    /// Runs one command on its own connection: `cmd(&["XLEN", "s"])`. Panics on any error.
    pub fn cmd<A: ToRedisArgs>(&self, args: &[A]) -> Value {
        let reply = self.try_cmd(args);
        reply.unwrap_or_else(|error| panic!("redis on port {} answered: {error}", self.port))
    }

    /// Sends a command that may fail.
    pub fn try_cmd<A: ToRedisArgs>(&self, args: &[A]) -> RedisResult<Value> {
        let mut command = redis::Cmd::new();
        for arg in args {
            command.arg(arg);
        }
        self.connect()?.req_command(&command)
    }

    /// Whether the server knows this command.
    pub fn knows(&self, command: &str) -> bool {
        let known: Vec<Value> = redis::from_redis_value(self.cmd(&["COMMAND", "INFO", command])).unwrap();
        known.iter().any(|known| *known != Value::Nil)
    }

    /// Returns the server's time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        let (seconds, us): (u64, u64) = redis::from_redis_value(self.cmd(&["TIME"])).unwrap();
        seconds * 1000 + us / 1000
    }

    /// Returns how often a command was called, by clients and by scripts. Its name is in lower case.
    pub fn calls(&self, command: &str) -> u64 {
        let info: String = redis::from_redis_value(self.cmd(&["INFO", "commandstats"])).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// Runs a pipeline on its own connection. Returns a reply for each command, which may be an error.
    pub fn try_pipe(&self, pipe: &redis::Pipeline) -> RedisResult<Vec<Value>> {
        let mut connection = self.connect()?;
        connection.req_packed_commands(&pipe.get_packed_pipeline(), 0, pipe.len())
    }

    /// Returns the process id. Panics while the server is down.
    pub fn pid(&self) -> u32 {
        self.server.lock().unwrap().pid().expect("the redis server is down")
    }

    /// Returns the CPU time of the process so far, user and system.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let after_name = stat.rsplit_once(") ").expect("the name is in parentheses").1;
        // The third field is the first here; utime and stime are the fields 14 and 15.
        let ticks: f64 =
            after_name.split(' ').skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    /// Kills the process as a crash would, and waits until it is gone.
    pub fn kill9(&self) {
        self.server.lock().unwrap().kill();
    }

    /// Asks the process to stop, and waits until it has.
    pub fn stop_gracefully(&self) {
        self.thaw();
        block_on(self.server.lock().unwrap().stop()).unwrap();
    }

    /// Restarts it with the same port and directory, after [`kill9`](Self::kill9) if it is still running.
    pub fn restart(&self) {
        block_on(self.server.lock().unwrap().restart()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Shifts its wall clock by this many milliseconds. Panics unless it was started with a shiftable clock.
    pub fn shift_clock(&self, by_ms: i64) {
        self.shift.as_ref().expect("the server must be built with clock_shifts()").by(by_ms);
    }

    /// Freezes the process; its connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen process continue.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let server = self.server.lock().unwrap();
        let pid = server.pid().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        kill_process(pid.expect("the redis server is down"), signal).unwrap();
    }

    fn connect(&self) -> RedisResult<Connection> {
        let url = format!("redis://{HARNESS_USER}:{HARNESS_PASSWORD}@{}/0", self.addr());
        let connection = redis::Client::open(url)?.get_connection_with_timeout(ANSWERED)?;
        connection.set_read_timeout(Some(ANSWERED))?;
        Ok(connection)
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the log of redis on port {} ends with:\n{}", self.port, self.log_tail());
        }
    }
}

/// Returns a port that is free now.
pub fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| rand::random_range(PORTS)).take(100);
    let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.expect("a free port on the loopback address")
}

/// Runs it to its end, also inside of a runtime.
fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    });
    thread::scope(|scope| scope.spawn(|| RUNTIME.block_on(work)).join().unwrap())
}
