//! What happens to a job: the whole fleet on a real server, one statement per test.

mod basics;
mod edges;
mod verdicts;
