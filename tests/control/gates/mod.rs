//! Gates: pausing, limits over the whole fleet, shares of values, and the waiting lists of the jobs that wait.

mod found;
mod large;
mod limits;
mod pause;
mod places;
mod quarantine;
mod refused;
mod scripts;
mod share;
mod turns;
mod unread;
