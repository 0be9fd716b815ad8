//! Integration tests that measure, and so run one at a time. Each begins with [`alone`](harness::alone::alone).
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod fair;
#[cfg(test)]
mod promises;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
