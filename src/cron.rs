//! Recurring jobs: what they are, and which of their ticks are due between two instants. Pure: no clock, no randomness,
//! no Redis. (A time zone's rules are read once, when its name is parsed.)
//!
//! An [`Expression`] in a [`Zone`] is a [`Schedule`], which finds the next tick after any instant. An [`Entry`] adds
//! what to submit then, and what to do about missed ticks ([`Missed`]). Its [`Progress`] records how far it has come.
//! `maintenance/cron.rs` asks what is [`Due`] and submits it.

pub(crate) use streamfleet_domain::cron::in_time;
pub use streamfleet_domain::cron::{
    Due, Entry, Expression, IN_TIME, Invalid, LATE, MAX_CATCH_UP, MAX_PAYLOAD_BYTES, Missed, Progress,
    Schedule, Source, Zone,
};
