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

/// How an operation ended, for the audit.
pub(crate) fn outcome<E>(failure: Option<&E>, is_interrupted: bool) -> &'static str {
    match failure {
        Some(_) => "ended early",
        None if is_interrupted => "interrupted",
        None => "done",
    }
}
