//! Tests that take long and run one at a time, because they measure or need the whole machine: `make check` runs them, `make
//! test` does not. Each begins with [`alone`](harness::alone::alone).
#![expect(clippy::wildcard_enum_match_arm, reason = "any other kind of answer fails the test")]

#[cfg(test)]
mod idle;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod letters;
#[cfg(test)]
mod pools;
#[cfg(test)]
#[cfg(all(feature = "sabotage", debug_assertions))]
mod sabotage;
#[cfg(test)]
mod size;

/// Becomes a worker if [`Program::launch`](harness::program::Program::launch) started this process; otherwise returns at once.
#[test]
fn worker_process_entry() {
    harness::program::run_if_launched();
}
