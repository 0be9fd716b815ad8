//! A web server that takes jobs as POSTs.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::languages::Language;

/// How long a server may take to start.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// A server, which is killed when this is dropped.
pub(super) struct Site {
    child: Child,
    port: u16,
    // Dropped after the server has ended.
    _folder: tempfile::TempDir,
}

impl Site {
    /// Starts the server of a language, and waits until it listens.
    pub(super) async fn start(language: &Language) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("site");
        std::fs::write(&file, language.site)?;
        // The server takes the port over.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let command = language.serving(&file.to_string_lossy(), port);
        let child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to start {}", command[0]))?;
        let site = Self { child, port, _folder: folder };
        let by = Instant::now() + STARTS_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(Instant::now() < by, "the server of {} does not listen", language.name);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(site)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended by itself, and then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
