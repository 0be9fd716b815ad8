//! What happens between this process and Redis.

use std::time::Duration;

/// Something that happened between this process and Redis.
#[derive(Debug, Clone, Copy)]
pub enum RedisEvent<'a> {
    /// Redis did not do what was asked.
    Error {
        /// The kind of failure of the command or script.
        kind: &'a str,
        /// The full error text.
        error: &'a str,
    },
    /// A round trip to Redis ended. Reads that wait for entries are not reported.
    RoundTrip {
        /// The name of the script or command.
        command: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A connection to Redis was re-established.
    Reconnected {
        /// How many times.
        times: u64,
    },
    /// The process's heartbeat was answered, or was not.
    Contact {
        /// Whether it was answered.
        alive: bool,
    },
}
