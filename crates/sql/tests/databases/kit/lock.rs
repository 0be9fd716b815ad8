//! Waiting until a transaction waits for a lock.

use std::time::Duration;

use streamfleet_sql::Dialect;
use tokio::sync::Mutex;

use super::{Place, until};

/// The server of MySQL shows what waited when nobody had looked for 100 ms, so tests look one after the other, and not more often.
static LOOKS: Mutex<()> = Mutex::const_new(());
const BETWEEN_LOOKS: Duration = Duration::from_millis(120);

/// Waits until a transaction in this database waits for a lock. In SQLite, it does not: nothing shows who waits.
pub(crate) async fn somebody_waits(place: &Place) {
    let (text, is_mysql) = match place.dialect {
        Dialect::MySql => (
            "SELECT COUNT(*) FROM information_schema.innodb_trx AS t JOIN information_schema.processlist AS p \
             ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()",
            true,
        ),
        Dialect::Postgres => (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
            false,
        ),
        Dialect::Sqlite => return,
    };
    let mut hand = place.hand().await;
    until("a wait for a lock", async || {
        let _turn = LOOKS.lock().await;
        if is_mysql {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        hand.number(text).await > 0
    })
    .await;
}
