//! One run of the server: a child process, from its start until it is gone.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use secrecy::{ExposeSecret, SecretString};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::{Builder, StartError, program};
use crate::handlers::start_tied;

/// How long the server may take to load its data or to write it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait before looking into the log again.
const PAUSE: Duration = Duration::from_millis(5);

/// What the server logs once it has loaded its data and listens. Unlike an answer on the port, the log is certainly our
/// server's, and reading it needs no login.
const READY: &str = "Ready to accept connections";

/// How many lines of the log an error quotes.
const TAIL: usize = 5;

/// A server that answers. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Process {
    /// Starts the server and waits until it answers.
    pub(super) async fn launch(
        settings: &Builder,
        folder: &Path,
        port: u16,
        password: &SecretString,
    ) -> Result<Self, StartError> {
        let unusable = |source| StartError::Folder { folder: folder.to_owned(), source };
        let path = folder.join("server.log");
        let log = File::options().create(true).append(true).open(&path).map_err(unusable)?;
        // Only what this run logs counts.
        let mut news = File::open(&path).map_err(unusable)?;
        news.seek(SeekFrom::End(0)).map_err(unusable)?;
        let mut command = command(settings, folder, port)?;
        let (input, mut line) = io::pipe().map_err(unusable)?;
        writeln!(line, "requirepass {}", password.expose_secret()).map_err(unusable)?;
        drop(line);
        command.stdin(input).stdout(log.try_clone().map_err(unusable)?).stderr(log);
        let mut process = Self(start_tied(command).await.map_err(unusable)?);
        let (deadline, mut logged) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            // Checked before the log is read: a server that has ended logs nothing more.
            let runs = matches!(process.0.try_wait(), Ok(None));
            news.read_to_end(&mut logged).map_err(unusable)?;
            let text = String::from_utf8_lossy(&logged);
            if runs && text.contains(READY) {
                return Ok(process);
            }
            if !runs || Instant::now() > deadline {
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n");
                return Err(StartError::Server { log: path, tail });
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns the process id, unless the process is known to have ended.
    pub(super) fn id(&self) -> Option<u32> {
        self.0.id()
    }

    /// Waits until it ends on its own.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Asks it to write its data and stop, and waits until it has. Kills it if that takes too long.
    pub(super) async fn stop(&mut self) -> io::Result<()> {
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::TERM)?;
        }
        match timeout(PATIENCE, self.0.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_elapsed) => {
                self.kill();
                Err(io::Error::other("the server did not stop and was killed"))
            }
        }
    }

    /// Kills it and waits for its exit, which takes milliseconds. Its port is free afterwards, and this process needs
    /// no SIGCHLD to learn of the exit. That signal would interrupt system calls in other threads.
    pub(super) fn kill(&mut self) {
        if let Some(pid) = self.pid()
            && self.0.start_kill().is_ok()
        {
            // If this fails, the runtime reaps the process.
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok();
            self.0.try_wait().ok();
        }
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.id()?).ok()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn command(settings: &Builder, folder: &Path, port: u16) -> Result<Command, StartError> {
    let mut command = Command::new(program()?);
    // `-` makes the server read more configuration from standard input: every user of the machine can see the
    // arguments.
    command.args(["-", "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.args(&settings.arguments).envs(&settings.environment);
    // Of two values for a setting, the last applies.
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
    command.args(["--loglevel", "notice", "--logfile", "", "--dir"]).arg(folder);
    // A process group of its own: Ctrl-C goes to us only, and the server stops after its clients are done.
    command.process_group(0).kill_on_drop(true);
    Ok(command)
}
