//! Integration tests of worker processes: how they live and end, what they report, and the servers that they may have.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod exec;
#[cfg(test)]
mod hand_over;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod pools;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod recycle;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod rolling;
#[cfg(test)]
mod sentinel;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod traces;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
