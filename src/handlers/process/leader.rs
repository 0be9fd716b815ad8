//! One running program and its process group. However it ends, even if this value is dropped, no process of the group
//! outlives it, and the program is reaped.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::fchown;
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, pidfd_open, waitid,
    waitpid,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, timeout_at};

use super::invocation::{Image, Invocation};
use super::{before_exec, reaper};

/// How often to look whether a program has ended, or can be reaped, if nothing reports it.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running program that leads its own session and process group.
#[derive(Debug)]
pub(crate) struct Leader {
    group: Group,
    pidfd: Option<AsyncFd<OwnedFd>>,
    stdin: Option<ChildStdin>,
    outputs: Option<(ChildStdout, ChildStderr)>,
}

impl Leader {
    /// Starts a program as the leader of its own group, tied to the life of this process. Its outputs are pipes, and so
    /// is its standard input unless there is an `input`. Must be called on a thread of the spawner.
    pub(in crate::handlers) fn spawn(invocation: &Invocation, input: Option<OwnedFd>) -> io::Result<Self> {
        let mut image = invocation.image()?;
        let (input, stdin) = match input {
            Some(file) => (file, None),
            None => {
                let (read, write) = io::pipe()?;
                (read.into(), Some(ChildStdin::from_std(OwnedFd::from(write).into())?))
            }
        };
        let (stdout, output) = io::pipe()?;
        let (stderr, errors) = io::pipe()?;
        let stdout = ChildStdout::from_std(OwnedFd::from(stdout).into())?;
        let stderr = ChildStderr::from_std(OwnedFd::from(stderr).into())?;
        let standard = [input, output.into(), errors.into()];
        if let Some(identity) = &image.identity {
            for file in &standard {
                // Only for programs that open /dev/stderr and the like by name: whether they can is not worth a failed job.
                fchown(file, Some(identity.user), Some(identity.group)).ok();
            }
        }
        let leader = Self::start(&mut image, standard)?;
        Ok(Self { stdin, outputs: Some((stdout, stderr)), ..leader })
    }

    /// Starts a program in the same way, with these files as standard input, output and error.
    pub(crate) fn spawn_with(invocation: &Invocation, standard: [OwnedFd; 3]) -> io::Result<Self> {
        Self::start(&mut invocation.image()?, standard)
    }

    fn start(image: &mut Image, standard: [OwnedFd; 3]) -> io::Result<Self> {
        let [input, output, errors] = standard;
        let standard = [above_standard(input)?, above_standard(output)?, above_standard(errors)?];
        let group = Group { leader: before_exec::start(image, &standard)?, is_reaped: false };
        let pidfd = watched(group.leader);
        Ok(Self { group, pidfd, stdin: None, outputs: None })
    }

    /// Returns its process id, which is also the number of the group.
    pub(crate) fn pid(&self) -> Pid {
        self.group.leader
    }

    /// Takes the worker's end of its standard input, if it is a pipe.
    pub(in crate::handlers) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the worker's ends of its outputs.
    pub(in crate::handlers) fn take_outputs(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.outputs.take()
    }

    /// Waits until it has exited. Does not reap it.
    pub(crate) async fn exited(&self) {
        match &self.pidfd {
            // This fails only while the runtime is shutting down, and then the caller is about to be dropped.
            Some(pidfd) => drop(pidfd.readable().await),
            None => {
                while !self.has_exited() {
                    sleep(LOOK_EVERY).await;
                }
            }
        }
    }

    /// Returns true if it has exited, even if the runtime has not noticed yet. Does not reap it.
    pub(crate) fn has_exited(&self) -> bool {
        self.group.has_lost_its_leader()
    }

    /// Sends a signal to the whole group.
    pub(in crate::handlers) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Sends SIGTERM to the group, and SIGKILL if the leader has not exited by then. Waits until it has.
    pub(in crate::handlers) async fn end_by(&self, kill_at: Instant) {
        self.signal(Signal::TERM);
        if timeout_at(kill_at, self.exited()).await.is_err() {
            self.signal(Signal::KILL);
            self.exited().await;
        }
    }

    /// Kills what is left of the group, and returns how the leader ended.
    pub(crate) async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.exited().await;
        loop {
            if let Some(status) = self.group.reap()? {
                return Ok(status);
            }
            // A debugger is the first to learn of its end.
            sleep(LOOK_EVERY).await;
        }
    }

    /// Kills the group, waits for the leader's exit, which takes milliseconds, and returns how it ended.
    pub(crate) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.group.reap_with(WaitOptions::empty())?;
        status.ok_or_else(|| io::Error::other("the system reports no exit"))
    }
}

/// Returns the same file under a number that no standard file of a child has. A worker that was started without
/// standard files gets their numbers for other ones.
fn above_standard(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    Ok(fcntl_dupfd_cloexec(&file, libc::STDERR_FILENO + 1)?)
}

/// Returns a descriptor that becomes readable when the process exits. Kernels before 5.3 have none.
fn watched(pid: Pid) -> Option<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    #[expect(
        deprecated,
        reason = "sound for an OwnedFd, which always is the same open file; what replaces it is unsafe"
    )]
    AsyncFd::with_interest(pidfd, Interest::READABLE).ok()
}

/// A process group. When this value is dropped, it is killed, and its leader reaped. No other group can get its number
/// before.
#[derive(Debug)]
struct Group {
    leader: Pid,
    is_reaped: bool,
}

impl Group {
    /// Returns true if the leader has exited. Does not reap it.
    fn has_lost_its_leader(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // This fails if somebody else has reaped the leader.
        waitid(WaitId::Pid(self.leader), look).map_or(true, |status| status.is_some())
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.leader, signal) {
            // No process is left, or all now belong to another user.
            tracing::debug!(group = self.leader.as_raw_nonzero(), ?signal, %error, "failed to signal the process group");
        }
    }

    /// Reaps the leader if it has exited, and returns how it ended.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap_with(WaitOptions::NOHANG)
    }

    fn reap_with(&mut self, options: WaitOptions) -> io::Result<Option<ExitStatus>> {
        let ended = retry_on_intr(|| waitpid(Some(self.leader), options));
        self.is_reaped = matches!(ended, Ok(Some(_)) | Err(Errno::CHILD));
        Ok(ended?.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.signal(Signal::KILL);
            reaper::reap(self.leader);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::thread;

    use rustix::process::{Gid, Uid, geteuid};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, configure_capability_in_ambient_set, set_capabilities,
        set_keep_capabilities, set_thread_res_gid, set_thread_res_uid,
    };
    use tokio::io::AsyncReadExt;

    use super::super::identity::Identity;
    use super::*;
    use crate::handlers::fixture::{soon, until};

    /// Starts a shell, as on a kernel that has a descriptor for it or not.
    fn shell(script: &str, has_pidfd: bool) -> Leader {
        let mut invocation = Invocation::new(&["sh", "-c", script].map(str::to_owned), None);
        invocation.set("PATH", "/bin:/usr/bin");
        let mut leader = Leader::spawn(&invocation, None).unwrap();
        assert!(leader.pidfd.is_some());
        leader.pidfd = leader.pidfd.filter(|_| has_pidfd);
        leader
    }

    fn folder(leader: &Leader) -> PathBuf {
        format!("/proc/{}", leader.pid()).into()
    }

    #[tokio::test]
    async fn a_program_ends_and_is_reaped_with_and_without_a_descriptor() {
        for has_pidfd in [true, false] {
            let mut leader = shell("read line; exit 3", has_pidfd);
            let folder = folder(&leader);
            assert!(timeout_at(Instant::now() + LOOK_EVERY, leader.exited()).await.is_err());
            assert!(!leader.has_exited());
            drop(leader.take_stdin());
            soon(leader.exited()).await;
            assert!(leader.has_exited() && folder.exists());
            assert_eq!(soon(leader.reap()).await.unwrap().code(), Some(3));
            assert!(!folder.exists());
        }
    }

    #[tokio::test]
    async fn a_program_that_is_dropped_is_killed_and_reaped_with_and_without_a_descriptor() {
        for (has_pidfd, script) in [(true, "sleep 1000"), (false, "sleep 1000"), (true, "exit 3")] {
            let leader = shell(script, has_pidfd);
            let folder = folder(&leader);
            drop(leader);
            until("it is reaped", || (!folder.exists()).then_some(())).await;
        }
    }

    #[tokio::test]
    async fn a_program_blocks_no_signals_even_if_its_worker_does() {
        let all = nix::sys::signal::SigSet::all();
        let before = all.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK).unwrap();
        let mut leader = shell("exec cat /proc/self/status", true);
        let blocked = nix::sys::signal::SigSet::thread_get_mask().unwrap();
        before.thread_set_mask().unwrap();
        assert!(blocked.contains(nix::sys::signal::Signal::SIGTERM), "the mask of the worker is left alone");
        let (mut stdout, _) = leader.take_outputs().unwrap();
        let mut status = String::new();
        soon(stdout.read_to_string(&mut status)).await.unwrap();
        assert!(status.contains("\nSigBlk:\t0000000000000000\n"), "{status}");
    }

    /// Makes the calling thread what a worker is that has `AmbientCapabilities=` of systemd in place of root's rights. No other
    /// thread changes.
    fn become_able_to_switch(number: u32) {
        let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
        let each = [CapabilitySet::SETUID, CapabilitySet::SETGID, CapabilitySet::KILL];
        let all: CapabilitySet = each.into_iter().collect();
        set_keep_capabilities(true).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        set_capabilities(None, CapabilitySets { effective: all, permitted: all, inheritable: all }).unwrap();
        for capability in each {
            configure_capability_in_ambient_set(capability, true).unwrap();
        }
    }

    /// Returns the capabilities of a program: inheritable, permitted, effective and ambient.
    async fn rights_of_a_program(identity: Option<Arc<Identity>>) -> [String; 4] {
        let command = ["cat", "/proc/self/status"].map(str::to_owned);
        let mut invocation = Invocation::new(&command, None).run_as(identity);
        invocation.set("PATH", "/bin:/usr/bin");
        let mut leader = Leader::spawn(&invocation, None).unwrap();
        let (mut stdout, _) = leader.take_outputs().unwrap();
        let mut status = String::new();
        soon(stdout.read_to_string(&mut status)).await.unwrap();
        ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().to_owned()
        })
    }

    #[test]
    fn a_program_has_no_capability_of_its_worker_with_and_without_another_user() {
        if !geteuid().is_root() {
            return println!("not root, so there is no capability to pass on");
        }
        let started = thread::spawn(|| {
            become_able_to_switch(54_321);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            for user in [None, Some("54321"), Some("54322")] {
                let identity = user.and_then(|user| Identity::find(user, Some(user)).unwrap());
                let rights = runtime.block_on(rights_of_a_program(identity.map(Arc::new)));
                assert_eq!(rights, ["0000000000000000"; 4], "{user:?}");
            }
        });
        started.join().unwrap();
    }
}
