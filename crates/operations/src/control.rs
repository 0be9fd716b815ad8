//! How an operation that takes long is stopped, and says how far it is.

use streamfleet::Shutdown;

/// What an operation that takes long gets from its door.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Once this is requested, the operation ends in time: what is under way is completed and counted.
    pub stop: &'a Shutdown,
    /// Is called now and then with how many letters or jobs were looked at so far.
    pub progress: &'a (dyn Fn(u64) + Send + Sync),
}
