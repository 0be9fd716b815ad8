//! One run of the server: a child process, from its start until it is gone.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, sleep, timeout};

use super::{Builder, StartError, program};
use crate::handlers::{Invocation, Leader, on_the_thread};

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
pub(super) struct Process {
    leader: Leader,
    /// How it ended, once that is known.
    ended: Option<ExitStatus>,
}

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
        let invocation = invocation(settings, folder, port)?;
        let (input, mut line) = io::pipe().map_err(unusable)?;
        writeln!(line, "requirepass {}", password.expose_secret()).map_err(unusable)?;
        drop(line);
        let standard = [input.into(), log.try_clone().map_err(unusable)?.into(), log.into()];
        let leader = on_the_thread(None, move || Leader::spawn_with(&invocation, standard)).await;
        let process = Self { leader: leader.map_err(unusable)?, ended: None };
        let (deadline, mut logged) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            // Checked before the log is read: a server that has ended logs nothing more.
            let runs = !process.leader.has_exited();
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
        let pid = self.leader.pid().as_raw_nonzero().get();
        self.ended.is_none().then(|| u32::try_from(pid).expect("process ids are positive"))
    }

    /// Waits until it ends on its own.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        self.leader.exited().await;
        let ended = self.leader.reap().await?;
        self.ended = Some(ended);
        Ok(ended)
    }

    /// Asks it to write its data and stop, and waits until it has. Kills it if that takes too long.
    pub(super) async fn stop(&mut self) -> io::Result<()> {
        if self.ended.is_none() {
            kill_process(self.leader.pid(), Signal::TERM)?;
        }
        match timeout(PATIENCE, self.ended()).await {
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
        if self.ended.is_none() {
            // This fails if somebody else has reaped it; then it is gone as well.
            self.ended = self.leader.kill().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The start of the server. It runs in a session of its own: Ctrl-C goes to us only, and the server stops after its clients are done.
fn invocation(settings: &Builder, folder: &Path, port: u16) -> Result<Invocation, StartError> {
    let (program, port) = (program()?, port.to_string());
    // `-` makes the server read more configuration from standard input: every user of the machine can see the
    // arguments.
    let before = ["-", "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""];
    // Of two values for a setting, the last applies.
    let after = ["--port", &port, "--bind", "127.0.0.1", "--daemonize", "no"];
    let log = ["--loglevel", "notice", "--logfile", "", "--dir"];
    let mut command: Vec<&OsStr> = vec![program.as_os_str()];
    command.extend(before.map(OsStr::new));
    command.extend(settings.arguments.iter().map(OsString::as_os_str));
    command.extend(after.map(OsStr::new));
    command.extend(log.map(OsStr::new));
    command.push(folder.as_os_str());
    let mut invocation = Invocation::new(&command, None);
    for (name, value) in env::vars_os().chain(settings.environment.clone()) {
        invocation.set(name, value);
    }
    Ok(invocation)
}
