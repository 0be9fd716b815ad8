//! What the tests of all themes need: servers, a database for each test, a connection that the crate under test does not know,
//! and waiting.

mod crash;
mod hand;
mod lives;
mod lock;
mod place;
mod server;
mod wire;

use std::time::{Duration, Instant};

use streamfleet_sql::schema::{Part, migrate};
use streamfleet_sql::{Database, Options};

pub(crate) use hand::Hand;
pub(crate) use lives::{MS, ended, queue};
pub(crate) use lock::somebody_waits;
pub(crate) use place::Place;
pub(crate) use wire::Wire;

/// How long a test waits for what must come. A machine that is three times slower needs a fraction of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much memory a server has for pages, in MiB.
const PAGES_MIB: u32 = 32;

impl Place {
    /// Connects with the default options.
    pub(crate) async fn open(&self) -> Database {
        self.open_with(Options::default()).await
    }

    /// Connects, and makes all tables.
    pub(crate) async fn migrated(&self) -> Database {
        let database = self.open().await;
        migrate(&database, &Part::ALL).await.unwrap();
        database
    }
}

/// How long a test waits before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not come within {PATIENCE:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Runs each test on each database.
macro_rules! on_all_databases {
    ($($name:ident),+ $(,)?) => {
        mod mariadb {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::kit::Place::new(streamfleet_sql::Dialect::MySql).await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::kit::Place::new(streamfleet_sql::Dialect::Postgres).await).await;
            })+
        }

        mod sqlite {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::kit::Place::new(streamfleet_sql::Dialect::Sqlite).await).await;
            })+
        }
    };
}
