//! Submissions that need more than an append: ids that are accepted once, unique keys, durability, and full queues.

mod amend;
mod bulk;
mod durable;
mod holders;
mod ids;
mod limits;
mod locks;
mod priority;
mod scripts;
mod unique;
