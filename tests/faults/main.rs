//! Integration tests against hostile networks, servers, clocks and producers, and with jobs that are too large.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod input;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod selftest;
#[cfg(test)]
mod size;
#[cfg(test)]
mod traps;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
