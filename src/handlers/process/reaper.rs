//! Reaps killed children that nobody waits for any more.

use std::thread;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions, waitpid};

/// A waiting thread only makes one call.
const STACK_BYTES: usize = 64 * 1024;

/// Reaps a child that was killed and may take a moment to end. It must not have been reaped.
pub(super) fn reap(pid: Pid) {
    if !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
        return;
    }
    let wait = move || {
        // If somebody else has reaped it, there is nothing left to do.
        retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok();
    };
    // A thread for each, because a process that waits for a disk may take long to end, and others would wait for it.
    let waiting = thread::Builder::new().name("exec-reaper".to_owned()).stack_size(STACK_BYTES).spawn(wait);
    if waiting.is_err() {
        // There are too many threads or processes, so one less matters more than a short wait here.
        wait();
    }
}
