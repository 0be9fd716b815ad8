//! Running jobs: they report progress and log lines, and can be tracked, awaited and cancelled.

mod cancel;
mod exec;
mod report;
mod scripts;
mod tracking;
mod wait;
