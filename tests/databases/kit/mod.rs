//! A database for each test, on the servers that the tests of the crate `streamfleet-sql` start.

#[path = "../../../crates/sql/tests/databases/kit/crash.rs"]
mod crash;
#[path = "../../../crates/sql/tests/databases/kit/hand.rs"]
mod hand;
#[path = "../../../crates/sql/tests/databases/kit/place.rs"]
mod place;
#[path = "../../../crates/sql/tests/databases/kit/server.rs"]
mod server;

use std::time::Duration;

use streamfleet_sql::schema::{Part, migrate};
use streamfleet_sql::{Database, Options};

pub(crate) use hand::Hand;
pub(crate) use place::Place;

/// How long a server may take to start. A machine that is three times slower needs a fraction of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much memory a server has for pages, in MiB.
const PAGES_MIB: u32 = 32;

impl Place {
    /// The process from which those of the server come, if no other test has it.
    pub(crate) fn shell(&self) -> Option<u32> {
        self.own.as_ref().map(|server| server.shell.lock().unwrap().id())
    }

    /// Connects, and makes all tables.
    pub(crate) async fn migrated(&self) -> Database {
        let database = self.open_with(Options::default()).await;
        migrate(&database, &Part::ALL).await.unwrap();
        database
    }
}

/// Runs each test on each database, or, after `alone:`, on servers of its own.
macro_rules! on_all_databases {
    (alone: $($name:ident),+ $(,)?) => {
        on_all_databases!(@on alone $($name)+);
    };
    (@on $make:ident $($name:ident)+) => {
        on_all_databases!(@of mariadb MySql $make $($name)+);
        on_all_databases!(@of postgres Postgres $make $($name)+);
        on_all_databases!(@of sqlite Sqlite $make $($name)+);
    };
    (@of $module:ident $dialect:ident $make:ident $($name:ident)+) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::kit::Place::$make(streamfleet_sql::Dialect::$dialect).await).await;
            })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        on_all_databases!(@on new $($name)+);
    };
}
