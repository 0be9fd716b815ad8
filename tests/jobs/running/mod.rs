//! Running jobs: they report progress and log lines, and can be tracked, watched, awaited and cancelled.

mod cancel;
mod cancel_command;
mod exec;
mod report;
mod scripts;
mod tracking;
mod wait;
mod watch;
