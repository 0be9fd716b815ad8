//! Commands about running jobs: they watch, await and cancel them.

mod cancel_command;
mod watch;
