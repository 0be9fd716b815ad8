//! A private Redis for trying things out: one child process that keeps its data and its password in one folder and ends
//! when this process ends. Not for production.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::handlers::tie_to_this_process;

/// The server programs, in the order in which the `PATH` is searched for them.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The clients that are installed with them.
const CLIENTS: [&str; 2] = ["redis-cli", "valkey-cli"];

/// The environment variable that names another server program, as a path or as a name on the `PATH`.
const CHOSEN: &str = "STREAMFLEET_TEST_REDIS";

/// The ports to choose from if the folder has none stored. They are below the range that systems use for outgoing
/// connections.
const PORTS: std::ops::Range<u16> = 6390..6890;

/// How many ports to try if other processes take them first.
const PORTS_TRIED: usize = 10;

/// How long the server may take to load its data or to write it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No server is installed.
    #[error(
        "neither redis-server nor valkey-server is on the PATH; on Debian and Ubuntu, install the package redis-server"
    )]
    NoProgram,
    /// The server that the environment variable names does not exist.
    #[error("{CHOSEN} names {program:?}, which is not a program on this machine")]
    NotThere {
        /// The name in the variable.
        program: String,
    },
    /// The folder cannot be used.
    #[error("{} cannot be used", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process uses this folder.
    #[error("{} is in use by another process", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The server did not start.
    #[error("the server did not start; its log, {}, ends with:\n{tail}", log.display())]
    Server {
        /// The server's log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
}

/// A running server, at most one per folder. Dropping it kills the server.
#[derive(Debug)]
pub struct DevServer {
    child: Child,
    port: u16,
    password: SecretString,
    folder: PathBuf,
    // Held as long as the server runs.
    _lock: File,
}

impl DevServer {
    /// Starts a server that keeps its data, port and password in `folder`, and waits until it answers.
    ///
    /// The server dies with the thread that calls this, so call it from one that lives as long as the process.
    ///
    /// # Errors
    ///
    /// [`StartError`] if no server is installed or it does not start.
    pub async fn start(folder: &Path) -> Result<Self, StartError> {
        let unusable = |source| StartError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(unusable)?;
        // Nobody else may read the payloads of the jobs.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
        // Nothing in this folder belongs in version control.
        fs::write(folder.join(".gitignore"), "*\n").map_err(unusable)?;
        let lock = File::create(folder.join("lock")).map_err(unusable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StartError::InUse { folder: folder.to_owned() },
            TryLockError::Error(source) => unusable(source),
        })?;
        let folder = folder.canonicalize().map_err(unusable)?;
        let port = choose_port(&folder).map_err(unusable)?;
        let password = password_of(&folder).map_err(unusable)?;
        let mut server =
            Self { child: spawn(&folder, port, &password)?, port, password, folder, _lock: lock };
        for _ in 1..PORTS_TRIED {
            match server.await_ready().await {
                // Another process, perhaps another of these servers, took the port after we checked it and before our
                // server bound it.
                Err(_) if !server.is_running() && !is_free(&server.port) => {
                    server.port = choose_port(&server.folder).map_err(unusable)?;
                    // The server on that port has seen the password.
                    server.password = new_password(&server.folder).map_err(unusable)?;
                    server.child = spawn(&server.folder, server.port, &server.password)?;
                }
                answered => return answered.map(|()| server),
            }
        }
        server.await_ready().await.map(|()| server)
    }

    /// Returns the port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address for [`RedisConfig`](crate::RedisConfig), with the password.
    pub fn url(&self) -> SecretString {
        format!("redis://:{}@127.0.0.1:{}", self.password.expose_secret(), self.port).into()
    }

    /// Returns the password of the server's default user.
    pub fn password(&self) -> &SecretString {
        &self.password
    }

    /// Returns the path of the file that holds the password. Only its owner can read it.
    pub fn password_file(&self) -> PathBuf {
        password_file(&self.folder)
    }

    /// Returns the server's process id, or `None` if it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the server ends on its own.
    ///
    /// # Errors
    ///
    /// If the system cannot report how it ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks the server to write its data and stop, and waits until it has.
    ///
    /// # Errors
    ///
    /// If the server had to be killed, or the system cannot report how it ended.
    pub async fn stop(mut self) -> io::Result<()> {
        if let Some(pid) = self.process() {
            kill_process(pid, Signal::TERM)?;
        }
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_elapsed) => {
                self.child.kill().await?;
                Err(io::Error::other("the server did not stop and was killed"))
            }
        }
    }

    fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the server answers PING. It does not while it loads its data.
    async fn await_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if !self.is_running() {
                break;
            }
            if is_ours(self.port, &self.password, &self.folder).await.unwrap_or(false) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let log = self.folder.join("server.log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines[lines.len().saturating_sub(5)..].join("\n");
        Err(StartError::Server { log, tail })
    }
}

impl Drop for DevServer {
    /// Waits for the killed server to exit, which takes milliseconds. Its port is free afterwards, and the process
    /// needs no SIGCHLD to learn of the exit. That signal would interrupt system calls in other threads.
    fn drop(&mut self) {
        if let Some(pid) = self.process()
            && self.child.start_kill().is_ok()
        {
            // If this fails, the runtime reaps the process.
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
            self.child.try_wait().ok();
        }
    }
}

fn spawn(folder: &Path, port: u16, password: &SecretString) -> Result<Child, StartError> {
    let unusable = |source| StartError::Folder { folder: folder.to_owned(), source };
    let log = || File::options().create(true).append(true).open(folder.join("server.log"));
    let mut command = Command::new(program()?);
    // `-` makes the server read more configuration from standard input: every user of the machine can see the
    // arguments.
    command.args(["-", "--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.arg("--dir").arg(folder);
    let (input, mut line) = io::pipe().map_err(unusable)?;
    writeln!(line, "requirepass {}", password.expose_secret()).map_err(unusable)?;
    command.stdin(input).stdout(log().map_err(unusable)?).stderr(log().map_err(unusable)?);
    // A process group of its own: Ctrl-C goes to us only, and the server stops after its clients are done.
    command.process_group(0).kill_on_drop(true);
    tie_to_this_process(&mut command);
    command.spawn().map_err(unusable)
}

/// Returns the server program: the one that the environment variable `STREAMFLEET_TEST_REDIS` names, otherwise
/// `redis-server` or `valkey-server` from the `PATH`.
///
/// # Errors
///
/// [`StartError::NotThere`] or [`StartError::NoProgram`] if there is none.
pub fn program() -> Result<PathBuf, StartError> {
    let path = env::var_os("PATH").unwrap_or_default();
    choose(env::var_os(CHOSEN).filter(|chosen| !chosen.is_empty()).as_deref(), &path)
}

/// Returns the client to type in a shell here: `redis-cli`, or `valkey-cli` if only that is on the `PATH`.
pub fn client() -> &'static str {
    client_on(&env::var_os("PATH").unwrap_or_default())
}

fn client_on(path: &OsStr) -> &'static str {
    CLIENTS.into_iter().find(|name| on_path(name.as_ref(), path).is_some()).unwrap_or(CLIENTS[0])
}

fn choose(chosen: Option<&OsStr>, path: &OsStr) -> Result<PathBuf, StartError> {
    match chosen {
        Some(chosen) => on_path(chosen, path)
            .ok_or_else(|| StartError::NotThere { program: chosen.to_string_lossy().into_owned() }),
        None => PROGRAMS.iter().find_map(|name| on_path(name.as_ref(), path)).ok_or(StartError::NoProgram),
    }
}

/// Returns the path of the program with this name. A name with a slash is a path already.
fn on_path(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|program| is_program(program));
    }
    env::split_paths(path).map(|folder| folder.join(name)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns the last port if it is free, so that commands in a shell's history keep working, otherwise another one.
fn choose_port(folder: &Path) -> io::Result<u16> {
    let memory = folder.join("port");
    let remembered = fs::read_to_string(&memory).ok().and_then(|text| text.trim().parse().ok());
    // Two servers that start at the same time rarely begin at the same port.
    let offset = rand::random_range(0..PORTS.len());
    let port = remembered.into_iter().chain(PORTS.skip(offset)).chain(PORTS).find(is_free);
    let port = port.ok_or_else(|| io::Error::other("no port is free"))?;
    fs::write(memory, format!("{port}\n"))?;
    Ok(port)
}

fn is_free(port: &u16) -> bool {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
}

fn password_file(folder: &Path) -> PathBuf {
    folder.join("password")
}

/// Returns the last password, so that commands in a shell's history keep working, or a new one if there is none.
fn password_of(folder: &Path) -> io::Result<SecretString> {
    let remembered = fs::read_to_string(password_file(folder)).unwrap_or_default();
    let remembered = remembered.trim_end();
    // Anything else would not be a single word in the server's configuration.
    if !remembered.is_empty() && remembered.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(remembered.into());
    }
    new_password(folder)
}

fn new_password(folder: &Path) -> io::Result<SecretString> {
    let password = format!("{:032x}", rand::random::<u128>());
    let mut file =
        File::options().create(true).write(true).truncate(true).mode(0o600).open(password_file(folder))?;
    writeln!(file, "{password}")?;
    Ok(password.into())
}

/// Returns true if the server that answers works in this folder. One that took the port before ours works in another.
async fn is_ours(port: u16, password: &SecretString, folder: &Path) -> io::Result<bool> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let mut want = format!("+OK\r\n+PONG\r\n*2\r\n$3\r\ndir\r\n${}\r\n", folder.len()).into_bytes();
    want.extend(folder);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let asked = format!("AUTH {}\r\nPING\r\nCONFIG GET dir\r\n", password.expose_secret());
    stream.write_all(asked.as_bytes()).await?;
    let mut reply = vec![0; want.len()];
    let read = tokio::time::timeout(Duration::from_secs(1), stream.read_exact(&mut reply)).await;
    Ok(read.is_ok_and(|read| read.is_ok()) && reply == want)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with programs of these names, and a file that is not executable.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in names.iter().map(|name| (*name, 0o755)).chain([("plain-file", 0o644)]) {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    #[test]
    fn the_server_is_redis_before_valkey_wherever_on_the_path() {
        let (valkey, redis) = (folder(&["valkey-server"]), folder(&["redis-server"]));
        let path = env::join_paths([valkey.path(), redis.path()]).unwrap();
        assert_eq!(choose(None, &path).unwrap(), redis.path().join("redis-server"));
        assert_eq!(choose(None, valkey.path().as_os_str()).unwrap(), valkey.path().join("valkey-server"));
        assert!(matches!(choose(None, OsStr::new("/nonexistent")), Err(StartError::NoProgram)));
    }

    #[test]
    fn the_password_is_remembered_by_a_file_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = password_of(folder.path()).unwrap();
        assert_eq!(first.expose_secret().len(), 32);
        assert_eq!(password_of(folder.path()).unwrap().expose_secret(), first.expose_secret());
        let mode = fs::metadata(password_file(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for unusable in ["", "\n", "a b\n", "a\nport 1\n", "\"\n"] {
            fs::write(password_file(folder.path()), unusable).unwrap();
            let other = password_of(folder.path()).unwrap();
            assert_eq!(other.expose_secret().len(), 32, "{unusable:?}");
            assert_ne!(other.expose_secret(), first.expose_secret());
        }
    }

    #[test]
    fn the_suggested_client_exists() {
        let (valkey, both) = (folder(&["valkey-cli"]), folder(&["redis-cli", "valkey-cli"]));
        assert_eq!(client_on(valkey.path().as_os_str()), "valkey-cli");
        assert_eq!(client_on(both.path().as_os_str()), "redis-cli");
        assert_eq!(client_on(OsStr::new("/nonexistent")), "redis-cli");
    }

    #[test]
    fn the_named_server_is_used_or_nothing() {
        let folder = folder(&["redis-server", "another"]);
        let at = |name: &str| folder.path().join(name).into_os_string();
        let choose = |chosen: &OsStr| choose(Some(chosen), folder.path().as_os_str());
        assert_eq!(choose(&at("another")).unwrap(), at("another"));
        assert_eq!(choose(OsStr::new("another")).unwrap(), at("another"));
        for missing in [at("missing"), at("plain-file"), "missing".into(), folder.path().into()] {
            let error = choose(&missing).unwrap_err().to_string();
            assert!(error.starts_with("STREAMFLEET_TEST_REDIS names"), "{error}");
            assert!(error.contains(&*missing.to_string_lossy()), "{error}");
        }
    }
}
