//! Gates: pausing, limits over the whole fleet, and the rooms of the jobs that wait.

mod kills;
mod limits;
mod pause;
mod scripts;
mod turns;
