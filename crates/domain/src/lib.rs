//! The domain of streamfleet: what a job is, what may happen to it, and what follows. Pure: no Redis, no clock, no
//! randomness, no I/O.
//!
//! This crate is a part of the library `streamfleet`, which exports what users need of it. It makes no promise of its own
//! about versions.

#[macro_use]
mod as_text;
#[macro_use]
mod setters;
#[macro_use]
mod variants;

pub mod cron;
pub mod job;
mod mask;

pub use mask::mask_text;
