//! The one clock of a test run: `CLOCK_MONOTONIC`, which every process of the machine shares.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some fixed moment before the test began.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock is never negative");
    let nanos = u64::try_from(now.tv_nsec).expect("the monotonic clock is never negative");
    seconds * 1_000_000_000 + nanos
}

/// Milliseconds since 1970: the clock of a Redis server on this machine.
pub(crate) fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(now.tv_sec).expect("it is after 1970");
    seconds * 1000 + u64::try_from(now.tv_nsec).expect("never negative") / 1_000_000
}
