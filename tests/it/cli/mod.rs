//! The command line: what it prints, what it changes and how it exits.

mod check;
mod dead;
mod desk;
mod enqueue;
mod look;
