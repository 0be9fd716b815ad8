//! The outbox: jobs that applications write into the table `streamfleet_outbox` in their own transactions. A relay takes the
//! oldest rows, submits each with its `job_id`, which Redis accepts once, and deletes them by their numbers. If it dies in
//! between, it submits them again, and Redis finds them.
//!
//! There is no cursor, because a row with a smaller number may be committed later, and no lock on a row, because the numbers
//! of a DELETE are enough. So jobs leave the outbox in no promised order.

mod portion;
mod relay;
mod row;
mod waiting;

pub use relay::{MAX_WITHOUT, delete, refuse, take};
pub use row::Row;
pub use waiting::{Waiting, waiting};
