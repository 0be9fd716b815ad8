//! Submissions by `enqueue` that need more than an append: ids that are accepted once, durability, and full queues.

mod durable;
mod ids;
mod limits;
