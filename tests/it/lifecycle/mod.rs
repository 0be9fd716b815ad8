//! What becomes of a job: the whole fleet on a real server, told as sentences.

mod basics;
mod edges;
mod verdicts;
