//! A primary that sentinels watch: planned failovers, crashes, and a primary that comes back. Each test ends with an
//! account of all jobs, and how long work paused.

mod account;
mod failover;
mod load;
mod refusals;
