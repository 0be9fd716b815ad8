//! Lets the tests of a program run one at a time, however many threads it has.

use std::sync::{Mutex, MutexGuard, PoisonError};

static RUNNING: Mutex<()> = Mutex::new(());

/// Until it is dropped, no other test that is alone runs.
#[must_use = "others run as soon as it is dropped"]
pub struct Alone(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

/// Waits until no other test of this program is alone.
pub fn alone() -> Alone {
    Alone(RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}
