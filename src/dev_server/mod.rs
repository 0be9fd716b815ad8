//! A private Redis for trying things out and for tests: one child process that keeps its data and its password in one
//! folder and ends when this process ends. Not for production.
//!
//! ```no_run
//! # async fn example(folder: &std::path::Path) -> Result<(), streamfleet::dev_server::StartError> {
//! use streamfleet::dev_server::DevServer;
//!
//! let mut server = DevServer::builder().arguments(["--maxmemory", "20mb"]).start(folder).await?;
//! server.kill(); // as in a crash
//! server.restart().await?; // with the same port and data
//! # Ok(())
//! # }
//! ```
//!
//! A `builder` chooses the port and the password, a `process` is one run of one of the `programs`.

mod builder;
mod process;
mod programs;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use secrecy::{ExposeSecret, SecretString};

pub use self::builder::Builder;
use self::process::Process;
pub use self::programs::{client, program};

/// The environment variable that names another server program, as a path or as a name on the `PATH`.
const CHOSEN: &str = "STREAMFLEET_TEST_REDIS";

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
    /// Another process uses the port.
    #[error("the port {port} is in use")]
    PortInUse {
        /// The port.
        port: u16,
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

/// A running server, at most one per folder. Dropping it kills the server. However this process ends, the server does
/// not outlive it.
#[derive(Debug)]
pub struct DevServer {
    process: Process,
    settings: Builder,
    folder: PathBuf,
    port: u16,
    password: SecretString,
    // Held until the process is gone.
    _lock: File,
}

impl DevServer {
    /// Starts a server that keeps its data, port and password in `folder`, and waits until it answers, for at most a
    /// minute.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::start`].
    pub async fn start(folder: &Path) -> Result<Self, StartError> {
        Self::builder().start(folder).await
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> Builder {
        Builder::new()
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
        builder::password_file(&self.folder)
    }

    /// Returns the server's process id, or `None` if it has been stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits until the server ends on its own.
    ///
    /// # Errors
    ///
    /// If the system cannot report how it ended.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.ended().await
    }

    /// Asks the server to write its data and stop, and waits until it has. After a minute the server is killed.
    ///
    /// # Errors
    ///
    /// If the server had to be killed, or the system cannot report how it ended.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.process.stop().await
    }

    /// Kills the server, as a crash would, and waits for its exit, which takes milliseconds.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again with its settings, port, password and data, and waits until it answers, for at most a
    /// minute. Kills it first if it still runs.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the server does not start, such as when another process has taken its port.
    pub async fn restart(&mut self) -> Result<(), StartError> {
        self.process.kill();
        self.process = Process::launch(&self.settings, &self.folder, self.port, &self.password).await?;
        Ok(())
    }
}
