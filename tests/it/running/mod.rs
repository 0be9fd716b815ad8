//! What can be done with a job that runs: it tells how far it is and what it does, is tracked, watched and waited for.

mod cancel;
mod cancel_command;
mod exec;
mod report;
mod scripts;
mod tracking;
mod wait;
mod watch;
