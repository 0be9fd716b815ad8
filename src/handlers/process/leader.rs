//! One running program and its process group. However it ends, even if this value is dropped, no process of the group
//! outlives it.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use super::pre_exec;

/// A running program that leads its own process group.
pub(in crate::handlers) struct Leader {
    // Declared before the process, so that the group is killed before the leader is reaped. Until it is reaped, no
    // other group can get its number.
    group: Group,
    pidfd: Option<AsyncFd<OwnedFd>>,
    process: tokio::process::Child,
}

impl Leader {
    /// Starts a program as the leader of its own group, tied to the life of this process. Must be called on the
    /// spawner's thread.
    pub(in crate::handlers) fn spawn(mut command: Command) -> io::Result<Self> {
        command.process_group(0);
        pre_exec::tie_to_this_process(&mut command);
        let process = command.spawn()?;
        let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.expect("a child that was not waited for has an id");
        let group = Group(pid);
        let pidfd = watched(pid);
        Ok(Self { group, pidfd, process })
    }

    /// Returns its process id, which is also the number of the group.
    pub(in crate::handlers) fn pid(&self) -> Pid {
        self.group.0
    }

    /// Takes the worker's end of its standard input, if it is a pipe.
    pub(in crate::handlers) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.process.stdin.take()
    }

    /// Takes the worker's ends of its outputs, if both are pipes.
    pub(in crate::handlers) fn take_outputs(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.process.stdout.take().zip(self.process.stderr.take())
    }

    /// Waits until it has exited. Reaps it only if the kernel has no pidfd.
    pub(in crate::handlers) async fn exited(&mut self) {
        // Either call fails only while the runtime is shutting down, and then the caller is about to be dropped.
        match &self.pidfd {
            Some(pidfd) => drop(pidfd.readable().await),
            None => drop(self.process.wait().await),
        }
    }

    /// Returns true if it has exited, even if the runtime has not noticed yet. Does not reap it.
    pub(in crate::handlers) fn has_exited(&self) -> bool {
        self.group.has_lost_its_leader()
    }

    /// Sends a signal to the whole group.
    pub(in crate::handlers) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Sends SIGTERM to the group, and SIGKILL if the leader has not exited by then. Waits until it has.
    pub(in crate::handlers) async fn end_by(&mut self, kill_at: Instant) {
        self.signal(Signal::TERM);
        if timeout_at(kill_at, self.exited()).await.is_err() {
            self.signal(Signal::KILL);
            self.exited().await;
        }
    }

    /// Kills what is left of the group, and returns how the leader ended.
    pub(in crate::handlers) async fn reap(mut self) -> io::Result<ExitStatus> {
        drop(self.group);
        self.process.wait().await
    }
}

/// Returns a descriptor that becomes readable when the process exits. Kernels before 5.3 have none; there, reaping the
/// process notices its exit.
fn watched(pid: Pid) -> Option<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    #[expect(
        deprecated,
        reason = "sound for an OwnedFd, which always is the same open file; what replaces it is unsafe"
    )]
    AsyncFd::with_interest(pidfd, Interest::READABLE).ok()
}

/// A process group, killed when this value is dropped.
struct Group(Pid);

impl Group {
    /// Returns true if the leader has exited. Does not reap it.
    fn has_lost_its_leader(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // This fails if the leader has been reaped already.
        waitid(WaitId::Pid(self.0), look).map_or(true, |status| status.is_some())
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.0, signal) {
            // No process is left, or all now belong to another user.
            tracing::debug!(group = self.0.as_raw_nonzero(), ?signal, %error, "failed to signal the process group");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
