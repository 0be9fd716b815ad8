//! Tests that take long and mind no others: `make check` runs them, `make test` does not.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod failpoints;
#[cfg(test)]
mod model;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod soak;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
