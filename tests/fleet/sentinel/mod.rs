//! A primary under sentinels: planned failovers, crashes, and a primary that comes back. Each test ends with an account of
//! all jobs, and of how long work paused.

mod account;
mod failover;
mod load;
mod refusals;
