//! Background jobs on Redis Streams, run by a fleet of identical workers.

pub mod job;
