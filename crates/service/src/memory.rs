//! What other processes may see of this one.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Keeps other processes of the same user from reading the environment and the memory of this one, which have the login of Redis
/// and other secrets. The programs of jobs are such processes. Call it before anything is read. [`Process::prepare`] does it, too.
///
/// Afterwards only root can attach a debugger, and a crash leaves no core dump (`PR_SET_DUMPABLE` in
/// [prctl(2)](https://man7.org/linux/man-pages/man2/pr_set_dumpable.2const.html)). Programs that this process starts are not affected.
///
/// [`Process::prepare`]: crate::Process::prepare
pub fn hide_memory() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::debug!(%error, "this process cannot keep others from reading its memory");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn others_of_the_same_user_may_not_read_the_memory() {
        hide_memory();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
