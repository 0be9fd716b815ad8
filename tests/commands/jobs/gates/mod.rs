//! Gates over several worker processes: pausing, limits and breakers.

mod kills;
mod pause;
