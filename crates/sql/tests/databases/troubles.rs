//! What goes wrong is named by what the caller can do about it.

use std::cell::Cell;
use std::time::Duration;

use streamfleet_sql::history::questions::{LifeKey, life};
use streamfleet_sql::history::{Ended, write};
use streamfleet_sql::schema::{Part, migrate, pending};
use streamfleet_sql::{Database, Dialect, Error, Options, Trouble, outbox};

use crate::kit::{Hand, Place, Wire, ended, queue, somebody_waits, until};

on_all_databases!(
    a_deadlock_or_a_lock_that_is_held_is_transient,
    a_connection_that_is_lost_is_transient_and_replaced,
    a_server_that_is_away_is_transient,
    a_pool_in_use_is_not_taken_for_a_server_that_is_away,
    a_login_that_lacks_a_privilege_is_forbidden,
    a_statement_that_takes_too_long_ends,
    a_lock_of_a_table_is_not_waited_for_without_end,
    a_server_that_falls_silent_is_given_up,
    a_call_that_is_given_up_leaves_no_transaction,
    a_database_that_is_read_only_is_transient,
    a_server_that_crashes_within_a_write_is_transient,
    nothing_shows_a_password,
);

/// Returns an INSERT of the life that [`ended`] returns for this number.
fn insert(number: u64) -> String {
    let life = ended(number);
    format!(
        "INSERT INTO sf_jobs (day, queue, life, id, type, lane, state, created_ms, ended_ms, attempts, payload_state) \
         VALUES ('{}', 'mail', '{}', 'x', 'x', 'normal', 'done', 0, 0, 0, 'none')",
        life.day(),
        life.life
    )
}

async fn a_deadlock_or_a_lock_that_is_held_is_transient(place: Place) {
    let database = place.migrated().await;
    let quick =
        place.open_with(Options { statement_limit: Duration::from_millis(400), ..Options::default() }).await;
    let mut hand = place.hand().await;
    if place.dialect == Dialect::Sqlite {
        hand.run("BEGIN IMMEDIATE").await;
        let error = write(&quick, &[ended(1)]).await.unwrap_err();
        assert_eq!(error.trouble(), Some(Trouble::LockTimeout), "{error:?}");
        hand.run("ROLLBACK").await;
        assert_eq!(write(&quick, &[ended(1)]).await.unwrap().stored, 1);
        return;
    }
    if place.dialect == Dialect::Postgres {
        // The first one that looks for a deadlock and finds it is the one that fails.
        hand.run("SET deadlock_timeout = '60s'").await;
    }
    hand.run("BEGIN").await;
    // MySQL ends the transaction that has changed less.
    for number in 100..150 {
        hand.run(&insert(number)).await;
    }
    hand.run(&insert(2)).await;
    let lives = [ended(1), ended(2)];
    let writes = write(&database, &lives);
    let meets = async {
        somebody_waits(&place).await;
        hand.run(&insert(1)).await;
    };
    let (written, ()) = tokio::join!(writes, meets);
    let error = written.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::Deadlock), "{error:?}");
    hand.run("ROLLBACK").await;
    assert_eq!(write(&database, &lives).await.unwrap().stored, 2);
}

/// Ends all connections to the database but this one and that of `holder`.
async fn end_all_others(hand: &mut Hand, holder: i64) {
    match hand {
        Hand::MySql(_) => {
            let text = format!(
                "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist WHERE db = DATABASE() \
                 AND id NOT IN (CONNECTION_ID(), {holder})"
            );
            loop {
                let id = hand.number(&text).await;
                if id == 0 {
                    return;
                }
                let _gone = hand.try_run(&format!("KILL CONNECTION {id}")).await;
                tokio::task::yield_now().await;
            }
        }
        Hand::Postgres(_) => {
            let text = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
                 AND pid NOT IN (pg_backend_pid(), {holder})"
            );
            hand.run(&text).await;
        }
        Hand::Sqlite(_) => {}
    }
}

async fn a_connection_that_is_lost_is_transient_and_replaced(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    if place.dialect == Dialect::Sqlite {
        // It has no connection that others could end.
        return;
    }
    let mut holder = place.hand().await;
    let own = if place.dialect == Dialect::MySql {
        "CAST(CONNECTION_ID() AS SIGNED)"
    } else {
        "pg_backend_pid()::bigint"
    };
    let held_by = holder.number(&format!("SELECT {own}")).await;
    holder.run("BEGIN").await;
    holder.run(&insert(1)).await;
    let lives = [ended(1)];
    let cut = async {
        somebody_waits(&place).await;
        // If the holder ended, too, the write might be done before its own connection ends.
        end_all_others(&mut hand, held_by).await;
    };
    let (written, ()) = tokio::join!(write(&database, &lives), cut);
    let error = written.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::ConnectionLost), "{error:?}");
    holder.run("ROLLBACK").await;
    assert_eq!(write(&database, &lives).await.unwrap().stored, 1);
}

async fn a_server_that_is_away_is_transient(place: Place) {
    let url = match place.dialect {
        Dialect::MySql => "mysql://root:secret@127.0.0.1:1/app",
        Dialect::Postgres => "postgres://root:secret@127.0.0.1:1/app",
        Dialect::Sqlite => {
            let error = Database::connect(&"sqlite:/missing/folder/x.db".into(), &Options::default())
                .await
                .unwrap_err();
            assert!(matches!(error, Error::Broken { .. }), "{error:?}");
            return;
        }
    };
    let options = Options { acquire_timeout: Duration::from_millis(300), ..Options::default() };
    let error = Database::connect(&url.into(), &options).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::ConnectionLost), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

async fn a_pool_in_use_is_not_taken_for_a_server_that_is_away(place: Place) {
    let options =
        Options { max_connections: 1, acquire_timeout: Duration::from_millis(300), ..Options::default() };
    let database = place.open_with(options).await;
    place.hand().await.run(endless(place.dialect)).await;
    let holds = pending(&database, &Part::ALL);
    let asks = async {
        until("an error", async || {
            let error = outbox::waiting(&database).await.unwrap_err();
            error.trouble() == Some(Trouble::TooManyConnections)
        })
        .await;
    };
    tokio::select! {
        found = holds => panic!("it did not take long: {found:?}"),
        () = asks => {}
    }
}

/// The name of the database, which is free as the name of a user.
fn name_of(place: &Place) -> &str {
    place.url.split_once("localhost/").map_or("", |(_, rest)| rest.split('?').next().unwrap_or_default())
}

async fn a_login_that_lacks_a_privilege_is_forbidden(place: Place) {
    let _database = place.migrated().await;
    let mut hand = place.hand().await;
    let user = name_of(&place);
    let (make, url) = match place.dialect {
        Dialect::MySql => (
            format!("CREATE USER {user} IDENTIFIED BY 'secret'; GRANT SELECT ON sf_jobs TO {user}"),
            place.url.replace("root@", &format!("{user}:secret@")),
        ),
        Dialect::Postgres => (
            format!("CREATE ROLE {user} LOGIN PASSWORD 'secret'"),
            place.url.replace("postgres@", &format!("{user}:secret@")),
        ),
        Dialect::Sqlite => return,
    };
    hand.run(&make).await;
    let database = Database::connect(&url.as_str().into(), &Options::default()).await.unwrap();
    let error = write(&database, &[ended(1)]).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
    let wrong = url.replace("secret", "wrong");
    if place.dialect == Dialect::MySql {
        let error = Database::connect(&wrong.as_str().into(), &Options::default()).await.unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

/// Returns a view in the place of the table of migrations that takes for ever to read.
fn endless(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MySql => {
            "CREATE VIEW streamfleet_migrations AS SELECT SLEEP(1000) AS version, '' AS checksum"
        }
        Dialect::Postgres => {
            "CREATE VIEW streamfleet_migrations AS SELECT 1 AS version, '' AS checksum FROM pg_sleep(1000)"
        }
        Dialect::Sqlite => {
            "CREATE VIEW streamfleet_migrations AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
             SELECT MAX(i) AS version, '' AS checksum FROM n"
        }
    }
}

async fn a_statement_that_takes_too_long_ends(place: Place) {
    let options = Options { statement_limit: Duration::from_millis(700), ..Options::default() };
    let database = place.open_with(options).await;
    place.hand().await.run(endless(place.dialect)).await;
    let error = pending(&database, &Part::ALL).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::TimeLimit), "{error:?}");
    // The database has ended it, not this process, which would have waited for 2 s more.
    assert!(!error.to_string().contains("has not answered"), "{error}");
}

async fn a_lock_of_a_table_is_not_waited_for_without_end(place: Place) {
    if place.dialect == Dialect::Sqlite {
        // Its readers wait for nobody.
        return;
    }
    let _database = place.migrated().await;
    let mut hand = place.hand().await;
    match place.dialect {
        Dialect::MySql => hand.run("LOCK TABLES streamfleet_outbox WRITE").await,
        Dialect::Postgres | Dialect::Sqlite => hand.run("BEGIN; LOCK TABLE streamfleet_outbox").await,
    }
    let options = Options { statement_limit: Duration::from_millis(2500), ..Options::default() };
    let database = place.open_with(options).await;
    let error = outbox::waiting(&database).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::LockTimeout), "{error:?}");
}

async fn a_server_that_falls_silent_is_given_up(place: Place) {
    let Some(wire) = Wire::to(&place).await else { return };
    let options = Options { statement_limit: Duration::from_millis(300), ..Options::default() };
    let database = Database::connect(&wire.url.as_str().into(), &options).await.unwrap();
    migrate(&database, &Part::ALL).await.unwrap();
    wire.hold(true);
    let error = outbox::waiting(&database).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    wire.hold(false);
    assert_eq!(outbox::waiting(&database).await.unwrap().rows, 0);
}

async fn a_call_that_is_given_up_leaves_no_transaction(place: Place) {
    if place.dialect == Dialect::Sqlite {
        return;
    }
    let database = place.open_with(Options { max_connections: 1, ..Options::default() }).await;
    migrate(&database, &Part::ALL).await.unwrap();
    let mut hand = place.hand().await;
    hand.run("BEGIN").await;
    hand.run(&insert(2)).await;
    let lives: Vec<Ended> = (1..3).map(ended).collect();
    {
        let mut write = std::pin::pin!(write(&database, &lives));
        tokio::select! {
            _ = &mut write => panic!("it did not wait for the lock"),
            () = somebody_waits(&place) => {}
        }
    }
    hand.run("ROLLBACK").await;
    let key = LifeKey::of_token(queue(), lives[0].life.clone()).unwrap();
    assert_eq!(life(&database, &key).await.unwrap(), None);
    assert_eq!(write(&database, &lives).await.unwrap().stored, 2);
}

/// SQLite has no such setting, and the tests may run as root, who may write any file.
async fn a_database_that_is_read_only_is_transient(place: Place) {
    if place.dialect == Dialect::Sqlite {
        return;
    }
    let place = Place::alone(place.dialect).await;
    let (database, mut hand) = (place.migrated().await, place.hand().await);
    let (name, mut url) = (name_of(&place), place.url.clone());
    let (set, unset) = match place.dialect {
        Dialect::MySql => {
            // It does not count for root.
            hand.run(&format!("CREATE USER {name}; GRANT ALL ON {name}.* TO {name}")).await;
            url = url.replace("root@", &format!("{name}@"));
            ("SET GLOBAL read_only = 1".to_owned(), "SET GLOBAL read_only = 0".to_owned())
        }
        Dialect::Postgres | Dialect::Sqlite => {
            let set = |value| format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
            (set("on"), set("off"))
        }
    };
    hand.run(&set).await;
    let writing = Database::connect(&url.as_str().into(), &Options::default()).await.unwrap();
    let error = write(&writing, &[ended(1)]).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::ReadOnly), "{error:?}");
    let error = outbox::delete(&writing, &[1]).await.unwrap_err();
    assert_eq!(error.trouble(), Some(Trouble::ReadOnly), "{error:?}");
    hand.run(&unset).await;
    writing.close().await;
    assert_eq!(write(&database, &[ended(1)]).await.unwrap().stored, 1);
}

/// Writes while the server crashes again and again, so that some crashes come within a commit.
async fn a_server_that_crashes_within_a_write_is_transient(place: Place) {
    if place.dialect == Dialect::Sqlite {
        return;
    }
    let place = Place::alone(place.dialect).await;
    let options = Options { acquire_timeout: Duration::from_secs(1), ..Options::default() };
    let database = Database::connect(&place.url.as_str().into(), &options).await.unwrap();
    migrate(&database, &Part::ALL).await.unwrap();
    let lives: Vec<Ended> = (0..4000).map(ended).collect();
    let (written, failures, is_over) = (Cell::new(0), Cell::new(0), Cell::new(false));
    let writes = async {
        for lives in lives.chunks(20).cycle() {
            while let Err(error) = write(&database, lives).await {
                assert!(error.is_transient(), "{error:?}");
                failures.set(failures.get() + 1);
            }
            written.set(written.get() + 1);
            if is_over.get() {
                break;
            }
        }
    };
    let crashes = async {
        let mut crashes = 0;
        // A session that was opened again may wait for its turn when the next crash comes, so each waits for a write.
        while crashes < 4 || failures.get() == 0 {
            assert!(crashes < 40, "no crash came within a write");
            let before = written.get();
            until("a write between two crashes", async || written.get() > before).await;
            place.crash().await;
            crashes += 1;
        }
        is_over.set(true);
    };
    tokio::join!(writes, crashes);
    assert_eq!(write(&database, &lives).await.unwrap().stored, lives.len());
    let mut hand = place.hand().await;
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_jobs").await, 4000);
    assert_eq!(hand.number("SELECT COUNT(*) FROM sf_attempts").await, 8000);
}

async fn nothing_shows_a_password(place: Place) {
    let separator = if place.url.contains("//") { "@" } else { "" };
    let url =
        place.url.replacen(separator, &format!(":p%40ss{separator}"), usize::from(!separator.is_empty()));
    let database = Database::connect(&url.as_str().into(), &Options::default()).await;
    let shown = match database {
        Ok(database) => format!("{database} {database:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains("p%40ss") && !shown.contains("p@ss"), "{shown}");
}
