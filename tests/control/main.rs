//! Integration tests of what decides whether and when a job runs, on real servers: gates and limits, steps, cancelling, dead
//! letters, and changes of many jobs at once.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod bulk;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod dead;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod gates;
#[cfg(test)]
mod running;
#[cfg(test)]
mod steps;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
