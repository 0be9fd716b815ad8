//! Tasks: work on many jobs or dead letters that the fleet carries out, page by page. Redis holds all of their state, so any process
//! may go on with one, and two may do so at once. What is changed is counted by the script that changes it, and what is left alone by
//! the script that ends the page: each exactly once, whichever process dies.
//!
//! A task that replays letters watches how their jobs end; see `replay.rs`. All other kinds do what `bulk` does.

pub(super) mod advance;
pub(super) mod listing;
mod portion;
pub(super) mod registry;
mod replay;
mod start;
mod stored;
pub(super) mod task;
