//! Jobs: what is known about one, and what is done to one or to many.

mod batch;
pub mod bulk;
mod cancel;
pub mod delayed;
mod find;
mod input;
pub mod results;
pub mod search;
mod seen;
mod status;

pub use batch::{AwaitedMember, Batch, batch};
pub use cancel::{CancelOutcome, Cancelled, cancel};
pub(crate) use find::status_in_any_lane;
pub use find::{MAX_SEARCHED, find, known, unknown};
pub use input::{Input, encoding};
pub use seen::{Seen, seen};
pub use status::{Attempt, Job, LogLine, Progress, status};
