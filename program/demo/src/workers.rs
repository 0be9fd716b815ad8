//! The demo's fleet: worker processes of this same program, one of which is killed.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use streamfleet::Broker;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long a worker may take to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// One worker process.
pub(super) struct Worker {
    /// Its name for people, such as `worker 2`.
    pub(super) name: String,
    pub(super) pid: u32,
    /// Its consumer name in Redis; empty until it has registered.
    pub(super) consumer: String,
    pub(super) killed: bool,
    child: Child,
}

/// All workers that were ever started. Killed when dropped.
pub(super) struct Workers {
    folder: PathBuf,
    /// The value of `--pace`.
    pace: u64,
    all: Vec<Worker>,
}

impl Workers {
    /// Creates an empty fleet.
    pub(super) fn new(folder: PathBuf, pace: u64) -> Self {
        Self { folder, pace, all: Vec::new() }
    }

    /// Returns all workers, including those that are gone.
    pub(super) fn all(&self) -> &[Worker] {
        &self.all
    }

    /// Starts one more worker, which logs to its own file.
    pub(super) fn start(&mut self) -> Result<&Worker> {
        let nth = self.all.len() + 1;
        let log = File::create(self.folder.join(format!("logs/worker-{nth}.log")))?;
        let program = std::env::current_exe().context("failed to find the path of this program")?;
        let mut command = Command::new(program);
        command.current_dir(&self.folder).args(["--worker", "--pace", &self.pace.to_string()]);
        // The end of its standard input tells the worker that we are gone. It has its own process group, so that Ctrl-C
        // reaches only us.
        command.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn().context("failed to start a worker")?;
        let pid = child.id().context("a worker exited at once")?;
        let name = format!("worker {nth}");
        self.all.push(Worker { name, pid, consumer: String::new(), killed: false, child });
        self.all.last().context("the worker that was just started")
    }

    /// Waits until all workers have registered in Redis.
    pub(super) async fn ready(&mut self, broker: &Broker) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = broker.workers().await?.found;
            for worker in &mut self.all {
                let pid = worker.pid.to_string();
                let own = shown.iter().find(|info| info.facts.get("pid") == Some(&pid));
                worker.consumer =
                    own.map_or_else(|| std::mem::take(&mut worker.consumer), |info| info.consumer.clone());
                if !worker.killed && worker.child.try_wait()?.is_some() {
                    bail!("{} exited unexpectedly; see {}", worker.name, self.folder.join("logs").display());
                }
            }
            if self.all.iter().all(|worker| !worker.consumer.is_empty()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("timed out waiting for a worker to start; see {}", self.folder.join("logs").display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills one worker with SIGKILL, without warning, as the kernel's OOM killer would. Returns when it is gone.
    pub(super) async fn kill(&mut self, nth: usize) -> Result<()> {
        let worker = self.all.get_mut(nth).context("no such worker")?;
        worker.killed = true;
        worker.child.kill().await.with_context(|| format!("failed to kill {}", worker.name))
    }

    /// Stops all workers gracefully, with SIGTERM.
    pub(super) async fn stop(&mut self) -> Result<()> {
        for worker in &self.all {
            // None if it was reaped: another process may have its pid already.
            if let Some(pid) = worker.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
                kill_process(pid, Signal::TERM)?;
            }
        }
        for worker in &mut self.all {
            // wait() would close standard input, which tells the worker that we are gone.
            let stdin = worker.child.stdin.take();
            if tokio::time::timeout(PATIENCE, worker.child.wait()).await.is_err() {
                worker.child.kill().await?;
            }
            drop(stdin);
        }
        Ok(())
    }

    /// Kills all workers.
    pub(super) async fn kill_all(&mut self) -> Result<()> {
        for worker in self.all.iter_mut().filter(|worker| !worker.killed) {
            worker.killed = true;
            worker.child.kill().await?;
        }
        Ok(())
    }
}
