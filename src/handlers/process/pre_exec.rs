//! What a child does between fork and exec: it ties its life to the worker's, and keeps the worker's files from the
//! program. This is the only unsafe code of the crate.

use std::io;

use tokio::process::Command;

/// Makes the child of `command` die by SIGKILL with the *thread* that spawns it, and inherit no file besides standard
/// input, output and error. The child's own children are not tied; when the child dies, only their pipes close.
pub(super) fn tie_to_this_process(command: &mut Command) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // A parent that died before the line above sends no signal, and the child already has another parent.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        close_on_exec();
        Ok(())
    };
    #[expect(unsafe_code, reason = "the standard library has no safe way to run code between fork and exec")]
    // SAFETY: after the fork of a process with threads, only async-signal-safe calls are allowed. The closure makes
    // three system calls (prctl, getppid, close_range) and allocates nothing: an `io::Error` from an errno or a kind is
    // a plain number.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Marks every file after standard error to be closed on exec. Rust opens all files that way, but other code may not,
/// and the worker may have inherited some itself.
fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "rustix has no close_range")]
    // SAFETY: three numbers and no memory. Nothing is closed before exec, so no file that is in use disappears.
    let _unsupported_before_linux_5_11 =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
