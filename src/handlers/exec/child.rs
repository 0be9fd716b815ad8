//! One running program with its process group, its input and its pipes. However it ends, even if this value is dropped,
//! no process of the group outlives it.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, Interest};
use tokio::process::{ChildStderr, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{input, pre_exec};
use crate::worker::MAX_RESULT_BYTES;

/// How many of the last bytes of standard error go into an error.
pub(super) const STDERR_BYTES: usize = 2048;
/// How long a program's descendants may hold its pipes after it has exited on its own.
const LINGER: Duration = Duration::from_secs(1);

/// A running program.
pub(super) struct Child {
    // Declared before the process, so that the group is killed before the leader is reaped. Until it is reaped, no
    // other group can get its number.
    group: Group,
    pidfd: Option<AsyncFd<OwnedFd>>,
    process: tokio::process::Child,
}

/// How a program ended.
pub(super) struct End {
    pub(super) status: ExitStatus,
    /// Why it was stopped, if it was.
    pub(super) cut: Option<&'static str>,
    /// The first [`MAX_RESULT_BYTES`] of standard output.
    pub(super) stdout: Vec<u8>,
    /// The last bytes of standard error, as many as requested.
    pub(super) stderr: Vec<u8>,
}

impl Child {
    /// Starts a program as the leader of its own group, with all of `payload` as its input. Must be called on the
    /// spawner's thread.
    pub(super) fn start(mut command: Command, payload: &[u8]) -> io::Result<Self> {
        let input = input::sealed(payload)?;
        command.process_group(0).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        pre_exec::tie_to_this_process(&mut command);
        let process = command.spawn()?;
        let pid = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.expect("a child that was not waited for has an id");
        let group = Group(pid);
        let pidfd = watched(pid);
        Ok(Self { group, pidfd, process })
    }

    /// Returns the leader's process id.
    #[cfg(test)]
    pub(super) fn pid(&self) -> Pid {
        self.group.0
    }

    /// Waits until the program ends. If `cut` completes first, the group gets SIGTERM, and SIGKILL after `grace`. A
    /// program that has exited by then does not count as cut, even if its exit has not been noticed yet. The last
    /// `kept` bytes of standard error are returned, and `on_stderr` receives all of it as it arrives.
    pub(super) async fn run(
        mut self,
        cut: impl Future<Output = &'static str>,
        grace: Duration,
        (kept, on_stderr): (usize, impl FnMut(&[u8])),
    ) -> io::Result<End> {
        let mut pipes = Pipes::of(&mut self.process, kept);
        let (exited, exit) = oneshot::channel();
        let ending = async {
            let (cut, linger_until) = self.exit_or(cut, grace).await;
            // The pipes may be closed already, with nobody waiting.
            exited.send(linger_until).ok();
            cut
        };
        let (cut, ()) = tokio::join!(ending, pipes.pump(exit, on_stderr));
        drop(self.group);
        let status = self.process.wait().await?;
        Ok(End { status, cut, stdout: pipes.head, stderr: pipes.tail })
    }

    /// Waits until the program has exited, and kills it if necessary. Returns why it was cut, and until when its
    /// descendants may hold its pipes.
    async fn exit_or(
        &mut self,
        cut: impl Future<Output = &'static str>,
        grace: Duration,
    ) -> (Option<&'static str>, Instant) {
        let why = tokio::select! {
            biased; // a program that has exited need not be cut
            () = exited(self.pidfd.as_ref(), &mut self.process) => return (None, Instant::now() + LINGER),
            why = cut => why,
        };
        // If this process was frozen, the runtime may not have noticed yet that the program has exited.
        if self.group.has_lost_its_leader() {
            return (None, Instant::now() + LINGER);
        }
        let kill_at = Instant::now() + grace;
        self.group.signal(Signal::TERM);
        if timeout_at(kill_at, exited(self.pidfd.as_ref(), &mut self.process)).await.is_err() {
            self.group.signal(Signal::KILL);
            exited(self.pidfd.as_ref(), &mut self.process).await;
        }
        (Some(why), kill_at)
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

/// Waits until the leader has exited. Reaps it only if there is no pidfd.
async fn exited(pidfd: Option<&AsyncFd<OwnedFd>>, process: &mut tokio::process::Child) {
    // Either call fails only while the runtime is shutting down, and then the caller is about to be dropped.
    match pidfd {
        Some(pidfd) => drop(pidfd.readable().await),
        None => drop(process.wait().await),
    }
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

/// The worker's ends of a program's pipes, and the output that is kept.
struct Pipes {
    ends: Option<(ChildStdout, ChildStderr)>,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The largest size of `tail`.
    kept: usize,
}

impl Pipes {
    fn of(process: &mut tokio::process::Child, kept: usize) -> Self {
        let ends = process.stdout.take().zip(process.stderr.take());
        Self { ends, head: Vec::new(), tail: Vec::new(), kept }
    }

    /// Reads both outputs until they are closed, or until the instant that arrives through `exit`.
    async fn pump(&mut self, exit: oneshot::Receiver<Instant>, mut on_stderr: impl FnMut(&[u8])) {
        let Some((stdout, stderr)) = self.ends.take() else { return };
        let head = |chunk: &[u8]| {
            let room = MAX_RESULT_BYTES - self.head.len();
            self.head.extend_from_slice(&chunk[..chunk.len().min(room)]);
        };
        let tail = |chunk: &[u8]| {
            on_stderr(chunk);
            self.tail.extend_from_slice(chunk);
            self.tail.drain(..self.tail.len().saturating_sub(self.kept));
        };
        let pumped = async { tokio::join!(drain(stdout, head), drain(stderr, tail)) };
        let given_up = async {
            match exit.await {
                Ok(until) => sleep_until(until).await,
                Err(_) => std::future::pending().await, // the sender is dropped only together with this future
            }
        };
        tokio::select! {
            _ = pumped => {}
            () = given_up => {}
        }
    }
}

/// Reads to the end, so that the program never waits for us, however much it writes.
async fn drain(mut pipe: impl AsyncRead + Unpin, mut keep: impl FnMut(&[u8])) {
    const CHUNK_BYTES: usize = 8 * 1024;
    /// After how many chunks others get their turn. This is less than the task's budget, without which their timers
    /// would not be looked at.
    const CHUNKS_PER_TURN: usize = 16;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut read = 0_usize;
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        keep(&chunk[..length]);
        read += 1;
        if read.is_multiple_of(CHUNKS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}
