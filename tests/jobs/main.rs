//! Integration tests of what becomes of a job, on real servers: every state, every script, every way to submit it and to end
//! it.
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]
#![expect(clippy::disallowed_methods, reason = "a test awaits the tasks it spawns by their handles")]

#[cfg(test)]
mod bulk;
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod cron;
#[cfg(test)]
mod dead;
#[cfg(test)]
mod gates;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod running;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod submit;
#[cfg(test)]
mod unknown;
#[cfg(test)]
mod wire;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
