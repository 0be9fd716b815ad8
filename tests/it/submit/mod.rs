//! Submissions that ask for more than to be appended: ids that are accepted once, unique keys, and queues that are full.

mod amend;
mod durable;
mod ids;
mod limits;
mod locks;
mod scripts;
mod unique;
