//! Effects that happen once: a handler does its work and notes that it did, in one transaction of its own database. Later
//! attempts find the note, and get the result instead of doing the work again.
//!
//! What is promised holds for what the transaction contains, and for nothing else: a mail that the work sends is sent again if
//! the transaction is not committed.

mod once;
mod prune;
mod sealed;

pub use once::{Fence, Key, Once, OnceError, once};
pub use prune::prune;
pub use sealed::Supported;
