//! One running program with its process group, its input and its pipes. However it ends, even if this value is dropped,
//! no process of the group outlives it.

use std::future::Future;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
#[cfg(test)]
use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::input;
use crate::handlers::excerpt::Excerpt;
use crate::handlers::process::{Invocation, Leader, on_the_thread};
use crate::worker::MAX_RESULT_BYTES;

/// How long a program's descendants may hold its pipes after it has exited on its own.
const LINGER: Duration = Duration::from_secs(1);

/// A running program.
pub(super) struct Child {
    leader: Leader,
}

/// How a program ended.
pub(super) struct End {
    pub(super) status: ExitStatus,
    /// Why it was stopped, if it was.
    pub(super) cut: Option<&'static str>,
    /// The first [`MAX_RESULT_BYTES`] of standard output.
    pub(super) stdout: Vec<u8>,
    /// What it wrote on standard error: the beginning, and as many of the last bytes as requested.
    pub(super) stderr: Excerpt,
}

impl Child {
    /// Starts a program as the leader of its own group, with all of `payload` as its input. If the caller is gone by
    /// then, the program is killed at once.
    pub(super) async fn start(invocation: Invocation, payload: Bytes) -> io::Result<Self> {
        let user = invocation.user();
        let start = move || Ok(Self { leader: Leader::spawn(&invocation, Some(input::sealed(&payload)?))? });
        on_the_thread(user, start).await
    }

    /// Returns the leader's process id.
    #[cfg(test)]
    pub(super) fn pid(&self) -> Pid {
        self.leader.pid()
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
        let mut pipes = Pipes::of(&mut self.leader, kept);
        let (exited, exit) = oneshot::channel();
        let ending = async {
            let (cut, linger_until) = self.exit_or(cut, grace).await;
            // The pipes may be closed already, with nobody waiting.
            exited.send(linger_until).ok();
            cut
        };
        let (cut, ()) = tokio::join!(ending, pipes.pump(exit, on_stderr));
        let status = self.leader.reap().await?;
        Ok(End { status, cut, stdout: pipes.head, stderr: pipes.stderr })
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
            () = self.leader.exited() => return (None, Instant::now() + LINGER),
            why = cut => why,
        };
        // If this process was frozen, the runtime may not have noticed yet that the program has exited.
        if self.leader.has_exited() {
            return (None, Instant::now() + LINGER);
        }
        let kill_at = Instant::now() + grace;
        self.leader.end_by(kill_at).await;
        (Some(why), kill_at)
    }
}

/// The worker's ends of a program's pipes, and the output that is kept.
struct Pipes {
    ends: Option<(ChildStdout, ChildStderr)>,
    head: Vec<u8>,
    stderr: Excerpt,
}

impl Pipes {
    fn of(leader: &mut Leader, kept: usize) -> Self {
        Self { ends: leader.take_outputs(), head: Vec::new(), stderr: Excerpt::new(kept) }
    }

    /// Reads both outputs until they are closed, or until the instant that arrives through `exit`.
    async fn pump(&mut self, exit: oneshot::Receiver<Instant>, mut on_stderr: impl FnMut(&[u8])) {
        let Some((stdout, stderr)) = self.ends.take() else { return };
        let head = |chunk: &[u8]| {
            let left = MAX_RESULT_BYTES - self.head.len();
            self.head.extend_from_slice(&chunk[..chunk.len().min(left)]);
        };
        let tail = |chunk: &[u8]| {
            on_stderr(chunk);
            self.stderr.push(chunk);
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
