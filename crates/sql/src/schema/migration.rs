//! The migrations that this version knows. A released one never changes: a later change of the tables is a migration of its own.

use crate::database::Dialect;

/// What somebody may use without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The history of jobs that have ended.
    History,
    /// The outbox of applications.
    Outbox,
    /// The effects of handlers.
    Effects,
}

streamfleet_domain::variants! {
    /// Returns the name of the part, as used on the command line.
    Part: Display {
        History = "history",
        Outbox = "outbox",
        Effects = "effects",
    }
}

/// One step from one set of tables to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Its number, from 1 on. The numbers of all parts are one series.
    pub version: u32,
    /// What it is about.
    pub name: &'static str,
    /// The part that it belongs to.
    pub part: Part,
    /// Its statements.
    pub text: &'static str,
}

macro_rules! migrations {
    ($folder:literal) => {
        [
            (
                1,
                "history",
                Part::History,
                include_str!(concat!("../../migrations/", $folder, "/0001_history.sql")),
            ),
            (
                2,
                "outbox",
                Part::Outbox,
                include_str!(concat!("../../migrations/", $folder, "/0002_outbox.sql")),
            ),
            (
                3,
                "effects",
                Part::Effects,
                include_str!(concat!("../../migrations/", $folder, "/0003_effects.sql")),
            ),
        ]
    };
}

impl Migration {
    /// Returns all migrations in order.
    pub fn all(dialect: Dialect) -> Vec<Self> {
        let all = match dialect {
            Dialect::MySql => migrations!("mysql"),
            Dialect::Postgres => migrations!("postgres"),
            Dialect::Sqlite => migrations!("sqlite"),
        };
        all.into_iter().map(|(version, name, part, text)| Self { version, name, part, text }).collect()
    }

    /// Returns 16 hexadecimal digits that change with the text: FNV-1a. They find mistakes, not forgeries.
    pub fn checksum(&self) -> String {
        let hash = self.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}
