//! Reports how long Redis takes: once per round trip, and each time a connection was made again.

use std::sync::Arc;
use std::time::Duration;

/// The commands whose round trips are measured separately: scripts by their names, and the plain commands that workers
/// send. All others are `other`.
pub const COMMANDS: [&str; 38] = [
    "xreadgroup",
    "acknowledge",
    "xrange",
    "stale",
    "claim",
    "redate",
    "orphans",
    "reclaim",
    "begin",
    "complete",
    "defer",
    "release",
    "park",
    "admit",
    "drain",
    "share",
    "bury",
    "cancelled",
    "cancels",
    "types_with_jobs",
    "take",
    "step_begin",
    "step_end",
    "report",
    "publish",
    "promote",
    "lead",
    "wake_standby",
    "snapshot",
    "tally",
    "sample",
    "agenda",
    "tick",
    "join",
    "keepalive",
    "reap",
    "beat",
    "other",
];

/// A measurement of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A command was answered, or timed out.
    Trip {
        /// The command.
        command: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// The connection was made again this many times.
    Reconnected(u64),
}

/// Receives every reading. It must be quick, and must not block.
pub type Meter = Arc<dyn Fn(Reading) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::COMMANDS;
    use crate::client::script::sources;

    #[test]
    fn every_measured_command_is_a_script_or_sent_by_workers() {
        let plain = ["xreadgroup", "xrange", "other"];
        let scripts = sources();
        for command in COMMANDS {
            assert!(scripts.contains_key(command) || plain.contains(&command), "{command}");
        }
    }
}
