//! Submissions that ask for more than to be appended: ids that are accepted once, and queues that are full.

mod ids;
mod limits;
mod scripts;
