//! Errors of databases, by what the caller can do about them: wait, leave a row out, migrate, or ask the administrator.

mod codes;

use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;

use codes::Meaning;

/// Why a database has not done what it was asked for. No text contains a password, but one of [`Error::Poison`] may quote a
/// value of the row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the database cannot be used.
    #[error("the address of the database {0}")]
    Address(String),
    /// An argument is out of its bounds.
    #[error("{0}")]
    Input(String),
    /// Waiting helps: a later attempt may succeed without a change.
    #[error("cannot {doing}: {trouble}: {why}")]
    Transient {
        /// What was being done.
        doing: &'static str,
        /// What is wrong with the database or the way to it.
        trouble: Trouble,
        /// What the database or the system reported.
        why: String,
    },
    /// One of the rows is at fault, and will be every time.
    #[error("cannot {doing}, because the database does not accept a row: {why}")]
    Poison {
        /// What was being done.
        doing: &'static str,
        /// What the database reported.
        why: String,
    },
    /// A table or column is missing, or the tables are those of another version.
    #[error(
        "cannot {doing}, because the tables are missing or not of this version: {why}; run `streamfleet sql migrate`"
    )]
    Schema {
        /// What was being done.
        doing: &'static str,
        /// What the database reported.
        why: String,
    },
    /// The login is wrong, or may not do this.
    #[error("cannot {doing}, because the login is refused or lacks a privilege: {why}")]
    Forbidden {
        /// What was being done.
        doing: &'static str,
        /// What the database reported.
        why: String,
    },
    /// Anything else: the setup of the database, or a mistake in this program.
    #[error("cannot {doing}: {why}")]
    Broken {
        /// What was being done.
        doing: &'static str,
        /// What the database reported.
        why: String,
    },
}

/// What is wrong with a database for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// It cannot be reached, has closed the connection, or is starting or stopping. Whether the last statement was executed is
    /// unknown.
    ConnectionLost,
    /// Two transactions waited for each other, and it chose this one to fail.
    Deadlock,
    /// Somebody else has held a lock for too long.
    LockTimeout,
    /// It accepts no writes, like a replica.
    ReadOnly,
    /// Its disk or a quota is full, or it has no memory.
    Full,
    /// It has no connection left, or this process uses all that it may have.
    TooManyConnections,
    /// The statement took longer than it may.
    TimeLimit,
}

streamfleet_domain::variants! {
    /// Returns what is wrong, in a few words.
    Trouble: Display {
        ConnectionLost = "the connection is lost",
        Deadlock = "it met a deadlock",
        LockTimeout = "somebody else holds a lock",
        ReadOnly = "the database is read-only",
        Full = "the database has no space left",
        TooManyConnections = "no connection is free",
        TimeLimit = "it took too long",
    }
}

impl Error {
    /// The classes of errors, as metrics have them.
    pub const CLASSES: [&str; 7] =
        ["address", "input", "transient", "poison", "schema", "forbidden", "broken"];

    /// Returns the class of the error, one of [`Error::CLASSES`].
    pub fn class(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Input(_) => "input",
            Self::Transient { .. } => "transient",
            Self::Poison { .. } => "poison",
            Self::Schema { .. } => "schema",
            Self::Forbidden { .. } => "forbidden",
            Self::Broken { .. } => "broken",
        }
    }

    /// Returns true if waiting helps.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. })
    }

    /// Returns true if a row is at fault.
    pub fn is_poison(&self) -> bool {
        matches!(self, Self::Poison { .. })
    }

    /// Returns what is wrong with the database if waiting helps.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Transient { trouble, .. } => Some(*trouble),
            Self::Address(_)
            | Self::Input(_)
            | Self::Poison { .. }
            | Self::Schema { .. }
            | Self::Forbidden { .. }
            | Self::Broken { .. } => None,
        }
    }

    /// Finds out what an error of sqlx means for the caller.
    pub(crate) fn of(doing: &'static str, error: &sqlx::Error) -> Self {
        let lost = |why: String| Self::Transient { doing, trouble: Trouble::ConnectionLost, why };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the enum of sqlx may grow, and the rest has one meaning"
        )]
        match error {
            sqlx::Error::Database(found) => Self::of_database(doing, found.as_ref()),
            sqlx::Error::Io(found) => lost(found.to_string()),
            sqlx::Error::PoolTimedOut => Self::Transient {
                doing,
                trouble: Trouble::TooManyConnections,
                why: "all connections that this process may have are busy".to_owned(),
            },
            sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => lost(error.to_string()),
            sqlx::Error::Protocol(found) => lost(format!("the server sent what was not expected: {found}")),
            sqlx::Error::Tls(found) => Self::Broken { doing, why: format!("TLS failed: {found}") },
            _ => Self::Broken { doing, why: error.to_string() },
        }
    }

    fn of_database(doing: &'static str, error: &dyn sqlx::error::DatabaseError) -> Self {
        let why = error.message().to_owned();
        let meaning = if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
            codes::of_mysql(error.number())
        } else if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
            codes::of_postgres(error.code())
        } else {
            codes::of_sqlite(error.code().and_then(|code| code.parse().ok()).unwrap_or_default(), &why)
        };
        match meaning {
            Meaning::Trouble(trouble) => Self::Transient { doing, trouble, why },
            Meaning::Poison => Self::Poison { doing, why },
            Meaning::Schema => Self::Schema { doing, why },
            Meaning::Forbidden => Self::Forbidden { doing, why },
            Meaning::Other => Self::Broken { doing, why },
        }
    }
}
