//! Gates: pausing, limits over the whole fleet, shares of values, and the rooms of the jobs that wait.

mod aside;
mod found;
mod large;
mod limits;
mod pause;
mod places;
mod refused;
mod scripts;
mod share;
mod turns;
mod unread;
