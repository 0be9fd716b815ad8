//! Errors between us and Redis, by what they mean for the caller: was the command executed, and is it worth sending
//! again?

use std::fmt;

use crate::sabotage::{self, Sabotage};

/// A command that Redis did not answer as its contract requires.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) {
/// match queue.snapshot().await {
///     Ok(snapshot) => println!("{} jobs", snapshot.jobs()),
///     Err(error) if error.is_transient() => println!("{error}; ask again later"),
///     Err(error) if error.is_configuration() => println!("change the settings: {}", queue.with_keys(&error)),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis answered with an error, or the client could not send.
    #[error("redis refused {command}: {detail}")]
    Refused {
        /// The command or script.
        command: &'static str,
        /// What the error means.
        class: Class,
        /// The error text of Redis or the client.
        detail: String,
    },
    /// The connection broke or a deadline passed while the command was in flight: it may have been executed.
    #[error("no answer to {command}: {detail}; it may have been executed")]
    Unknown {
        /// The command or script.
        command: &'static str,
        /// The error text of the client.
        detail: String,
    },
    /// The reply violates the command's contract.
    #[error("{command} returned {reply}, which is not a valid answer")]
    Contract {
        /// The command or script.
        command: &'static str,
        /// The beginning of the reply.
        reply: String,
    },
    /// No connection could be made: nothing was executed.
    #[error("{0}")]
    Unreachable(String),
    /// The address in the configuration is unusable.
    #[error("{0}")]
    Address(String),
}

variants! {
    /// The meaning of an error answer, which [`Error::class`] returns. For the prefixes, see
    /// <https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors>.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Class {
        /// Redis cannot serve now (loading, failing over, out of memory, disk full): wait, then send again.
        Busy = "busy",
        /// Redis has no memory for new data.
        Full = "full",
        /// The stream or its group is gone: create it again.
        NoGroup = "no_group",
        /// The script is not in Redis's cache: load it.
        NoScript = "no_script",
        /// Rights, password, a key of another type, an unknown command: somebody has to fix it.
        Configuration = "configuration",
        /// Anything else.
        Other = "other",
    }
}

impl Class {
    fn of(detail: &str) -> Self {
        let word = detail.split([' ', ':']).next().unwrap_or_default();
        match word {
            "LOADING" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "MISCONF"
            | "NOREPLICAS" | "MOVED" | "ASK" => Self::Busy,
            "OOM" => Self::Full,
            "NOGROUP" | "UNBLOCKED" => Self::NoGroup,
            "NOSCRIPT" => Self::NoScript,
            "WRONGTYPE" | "NOPERM" | "NOAUTH" | "WRONGPASS" | "CROSSSLOT" => Self::Configuration,
            _ if detail.starts_with("ERR unknown command") || detail.starts_with("ERR invalid password") => {
                Self::Configuration
            }
            // The client's own words if it has no connection, or has just been replaced: nothing was sent.
            _ if detail.starts_with("Failed to route command")
                || detail.starts_with("Failed to send command to router")
                || detail.starts_with("Client is not initialized") =>
            {
                Self::Busy
            }
            // Errors raised inside a script carry the inner error after the script's own words.
            _ if detail.contains("WRONGTYPE") || detail.contains("NOPERM") => Self::Configuration,
            // In scripts, Redis 7.0 returns the first text in place of NOPERM; Redis from 7.2 on and Valkey return the
            // second.
            _ if detail.contains("The user executing the script can't")
                || detail.contains("ACL failure in script") =>
            {
                Self::Configuration
            }
            // Of a value that is written in parts; see `submit/offload.rs`.
            _ if detail.contains("string exceeds maximum allowed size") => Self::Configuration,
            _ if detail.contains("NOGROUP") => Self::NoGroup,
            _ if detail.contains("OOM command not allowed") => Self::Full,
            _ if detail.contains("MISCONF") => Self::Busy,
            _ => Self::Other,
        }
    }
}

impl Error {
    /// Returns true if the command may have done its work.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Contract { .. } => true,
            Self::Refused { .. } | Self::Unreachable(_) | Self::Address(_) => false,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "another crate's enum; only these variants matter")]
    pub(crate) fn from_client(command: &'static str, error: &fred::error::Error) -> Self {
        use fred::error::ErrorKind;
        let detail = error.details().to_owned();
        let kind = error.kind();
        match kind {
            _ if sabotage::is(Sabotage::UnknownIsRefused) => {
                Self::Refused { command, class: Class::of(&detail), detail }
            }
            ErrorKind::IO
            | ErrorKind::Timeout
            | ErrorKind::Canceled
            | ErrorKind::Protocol
            | ErrorKind::Parse => Self::Unknown { command, detail },
            // The client would have to send it a second time, which is not allowed: the first one may have been
            // executed.
            _ if detail.starts_with("Too many failed write attempts") => Self::Unknown { command, detail },
            // The client's task ended while it had the command, sent or not.
            ErrorKind::Unknown if detail == "channel closed" => Self::Unknown { command, detail },
            ErrorKind::Auth => Self::Refused { command, class: Class::Configuration, detail },
            ErrorKind::Routing | ErrorKind::Backpressure | ErrorKind::Cluster | ErrorKind::Sentinel => {
                Self::Refused { command, class: Class::Busy, detail }
            }
            _ => Self::Refused { command, class: Class::of(&detail), detail },
        }
    }

    /// Creates the error of one job in a call about several, from its text.
    #[doc(hidden)]
    pub fn refused(command: &'static str, detail: String) -> Self {
        Self::Refused { command, class: Class::of(&detail), detail }
    }

    /// Creates the error of a failed connection. Only an answer of Redis itself is a refusal.
    pub(crate) fn from_connect(error: &fred::error::Error) -> Self {
        let error = Self::from_client("connect", error);
        if let Self::Unknown { detail, .. } = &error {
            Self::Unreachable(plain(detail).to_owned())
        } else {
            error
        }
    }

    /// Adds this key to the error, because Redis does not say which key it refused.
    #[doc(hidden)]
    pub fn of_key(mut self, key: &fred::types::Key) -> Self {
        if let Self::Refused { class: Class::Configuration, detail, .. } = &mut self {
            *detail = format!("{detail}: {}", key.as_str_lossy());
        }
        self
    }

    /// Adds the record of the job that the command was about: if Redis refuses this job alone, it is most likely the cause.
    pub(crate) fn of_record(mut self, record: &fred::types::Key) -> Self {
        if let Self::Refused { class: Class::Configuration, detail, .. } = &mut self {
            *detail = format!("{detail}; the record of the job is {}", record.as_str_lossy());
        }
        self
    }

    #[doc(hidden)]
    pub fn contract(command: &'static str, reply: impl fmt::Debug) -> Self {
        let reply = crate::job::cut(format!("{reply:?}"), 200);
        Self::Contract { command, reply }
    }

    /// The meaning of an error answer; `None` if there was no answer, or one that violates its contract.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Refused { class, .. } => Some(*class),
            Self::Unknown { .. } | Self::Contract { .. } | Self::Unreachable(_) | Self::Address(_) => None,
        }
    }

    /// All values that [`Error::kind`] can return.
    pub const KINDS: [&str; 10] = [
        "busy",
        "full",
        "no_group",
        "no_script",
        "configuration",
        "other",
        "unknown_outcome",
        "contract",
        "unreachable",
        "address",
    ];

    /// The error's kind, as metrics name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused { class, .. } => class.as_str(),
            Self::Unknown { .. } => "unknown_outcome",
            Self::Contract { .. } => "contract",
            Self::Unreachable(_) => "unreachable",
            Self::Address(_) => "address",
        }
    }

    /// True if resending the same script may succeed without any change.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Unreachable(_) => true,
            Self::Refused { class, .. } => {
                matches!(class, Class::Busy | Class::Full | Class::NoGroup | Class::NoScript)
            }
            Self::Contract { .. } | Self::Address(_) => false,
        }
    }

    /// True if Redis refuses a waiting list, and not only the job that has to wait there; see `park.lua`.
    #[doc(hidden)]
    pub fn is_of_waitlist(&self) -> bool {
        matches!(self, Self::Refused { command: "park", detail, .. } if detail.contains("(the waiting list)"))
    }

    /// True if somebody has to change the configuration, here or in Redis.
    pub fn is_configuration(&self) -> bool {
        self.class() == Some(Class::Configuration) || matches!(self, Self::Address(_))
    }
}

/// Extracts the message from the client's text of an I/O error, which is the standard library's debug format.
fn plain(detail: &str) -> &str {
    let quoted = ["message: \"", "error: \""].into_iter().find_map(|begin| detail.split_once(begin));
    quoted.and_then(|(_, rest)| rest.split('"').next()).unwrap_or(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_has_its_class() {
        let want = [
            ("LOADING Redis is loading the dataset in memory", Class::Busy),
            ("READONLY You can't write against a read only replica.", Class::Busy),
            ("BUSY Redis is busy running a script.", Class::Busy),
            ("MISCONF Redis is configured to save RDB snapshots", Class::Busy),
            ("OOM command not allowed when used memory > 'maxmemory'.", Class::Full),
            ("NOGROUP No such key", Class::NoGroup),
            ("UNBLOCKED the stream key no longer exists", Class::NoGroup),
            ("NOSCRIPT No matching script.", Class::NoScript),
            ("WRONGTYPE Operation against a key", Class::Configuration),
            ("WRONGPASS invalid username-password pair", Class::Configuration),
            ("NOAUTH Authentication required.", Class::Configuration),
            ("Failed to route command.", Class::Busy),
            ("Failed to send command to router.", Class::Busy),
            ("BUSYGROUP Consumer Group name already exists", Class::Other),
            ("ERR unknown command 'XREADGROUP'", Class::Configuration),
            ("ERR user_script:1: boom", Class::Other),
            ("ERR string exceeds maximum allowed size (proto-max-bulk-len)", Class::Configuration),
            ("ERR The user executing the script can't run this command or subcommand", Class::Configuration),
            ("ERR The user executing the script can't access at least one of the keys", Class::Configuration),
            (
                "ERR ACL failure in script: User w has no permissions to run the 'xadd' command",
                Class::Configuration,
            ),
            ("ERR ACL failure in script: No permissions to access a key", Class::Configuration),
        ];
        for (detail, class) in want {
            assert_eq!(Class::of(detail), class, "{detail}");
        }
    }

    #[test]
    fn a_command_on_a_broken_connection_may_have_been_executed() {
        use fred::error::{Error as Told, ErrorKind};
        for kind in [ErrorKind::IO, ErrorKind::Timeout, ErrorKind::Canceled] {
            assert!(matches!(Error::from_client("xadd", &Told::new(kind, "gone")), Error::Unknown { .. }));
        }
        for detail in ["Too many failed write attempts.", "channel closed"] {
            let told = Told::new(ErrorKind::Unknown, detail);
            assert!(matches!(Error::from_client("xadd", &told), Error::Unknown { .. }), "{detail}");
        }
        let unsent = Told::new(ErrorKind::Routing, "Failed to route command.");
        assert_eq!(Error::from_client("xadd", &unsent).class(), Some(Class::Busy));
    }

    #[test]
    fn connection_errors_are_shown_in_plain_words() {
        let os = r#"Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"#;
        assert_eq!(plain(os), "Connection refused");
        let resolver = r#"Custom { kind: Uncategorized, error: "failed to lookup address information" }"#;
        assert_eq!(plain(resolver), "failed to lookup address information");
        assert_eq!(plain("Connection closed"), "Connection closed");
    }
}
