//! Locks around data that a panic cannot leave half changed. They never wait for anything but each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks this, even if another thread panicked while it had locked it: whatever changes the data leaves it whole at each point that
/// may panic.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
