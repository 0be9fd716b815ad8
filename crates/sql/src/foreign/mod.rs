//! Tables of other programs, read page by page along a key. Nothing is written or locked, no page begins with an OFFSET, and no
//! row is counted, so a large table costs its server short reads of one index.
//!
//! A page is read in two steps: [`look`] returns the keys, the marks by which the caller chooses, and sizes; [`read`] returns the
//! columns of the rows that were chosen. All values arrive as bytes: texts in UTF-8, numbers and times as the database writes
//! them.

mod key;
mod name;
mod table;

pub use key::Key;
pub use table::{Look, MAX_ROWS, Row, Table, look, read};
