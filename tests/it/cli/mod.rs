//! The command line: what it prints, what it changes and how it exits.

mod check;
mod dead;
mod demo;
mod desk;
mod enqueue;
mod look;
