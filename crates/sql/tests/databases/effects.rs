//! Effects happen once, whatever the attempts do.

use std::time::Duration;

use sqlx::{Connection, Executor, MySql, Postgres, Sqlite, Transaction};
use streamfleet_sql::effects::{Fence, Key, Once, OnceError, Supported, once, prune};
use streamfleet_sql::{Dialect, Error};

use crate::kit::{Place, somebody_waits};

on_all_databases!(
    an_effect_happens_once_and_its_result_stays,
    an_attempt_that_is_older_than_the_effect_is_superseded,
    an_effect_that_was_rolled_back_happens_again,
    two_attempts_at_once_have_one_effect,
    an_attempt_takes_over_from_one_that_rolls_back,
    results_and_steps_are_bounded,
    a_note_without_a_result_counts,
    old_effects_are_deleted,
    futures_may_be_spawned,
);

fn key(step: &str) -> Key {
    Key { queue: "mail".parse().unwrap(), job_id: "order-7".parse().unwrap(), step: step.to_owned() }
}

fn fence(ms: u64) -> Fence {
    Fence::new(ms, 0)
}

/// Runs this with the type of the database in sqlx and its address.
macro_rules! with_database {
    ($place:expr, $name:ident($($argument:expr),*)) => {
        match $place.dialect {
            Dialect::MySql => $name::<MySql>(&$place.url, $($argument),*).await,
            Dialect::Postgres => $name::<Postgres>(&$place.url, $($argument),*).await,
            Dialect::Sqlite => $name::<Sqlite>(&$place.url, $($argument),*).await,
        }
    };
}

type Outcome = Result<Once<u32>, OnceError<sqlx::Error>>;

/// Adds 1 to a balance once, and commits if that is asked for.
async fn transfer<D: Supported>(url: &str, step: &str, ms: u64, is_committed: bool) -> Outcome
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let mut connection = D::Connection::connect(url).await.unwrap();
    let begin = if url.starts_with("sqlite") { "BEGIN IMMEDIATE" } else { "BEGIN" };
    let mut transaction = connection.begin_with(sqlx::AssertSqlSafe(begin.to_owned())).await.unwrap();
    let done = work(&mut transaction, step, ms).await;
    match is_committed && done.is_ok() {
        true => transaction.commit().await.unwrap(),
        false => transaction.rollback().await.unwrap(),
    }
    done
}

async fn work<D: Supported>(transaction: &mut Transaction<'_, D>, step: &str, ms: u64) -> Outcome
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    once(transaction, &key(step), fence(ms), async |transaction: &mut Transaction<'_, D>| {
        (&mut **transaction).execute(sqlx::raw_sql("UPDATE accounts SET balance = balance + 1")).await?;
        Ok(7)
    })
    .await
}

async fn with_account(place: &Place) {
    let _database = place.migrated().await;
    let mut hand = place.hand().await;
    hand.run("CREATE TABLE accounts (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)").await;
    hand.run("INSERT INTO accounts (id, balance) VALUES (1, 0)").await;
}

async fn balance(place: &Place) -> i64 {
    place.hand().await.number("SELECT balance FROM accounts").await
}

async fn an_effect_happens_once_and_its_result_stays(place: Place) {
    with_account(&place).await;
    assert_eq!(with_database!(place, transfer("", 5, true)).unwrap(), Once::Now(7));
    assert_eq!(with_database!(place, transfer("", 5, true)).unwrap(), Once::Before(7));
    assert_eq!(with_database!(place, transfer("", 9, true)).unwrap(), Once::Before(7));
    assert_eq!(balance(&place).await, 1);
    assert_eq!(with_database!(place, transfer("other", 5, true)).unwrap(), Once::Now(7));
    assert_eq!(balance(&place).await, 2);
}

async fn an_attempt_that_is_older_than_the_effect_is_superseded(place: Place) {
    with_account(&place).await;
    with_database!(place, transfer("", 5, true)).unwrap();
    let outdated = with_database!(place, transfer("", 4, true));
    assert!(matches!(outdated, Err(OnceError::Superseded)), "{outdated:?}");
    assert_eq!(balance(&place).await, 1);
}

async fn an_effect_that_was_rolled_back_happens_again(place: Place) {
    with_account(&place).await;
    assert_eq!(with_database!(place, transfer("", 5, false)).unwrap(), Once::Now(7));
    assert_eq!(balance(&place).await, 0);
    assert_eq!(with_database!(place, transfer("", 6, true)).unwrap(), Once::Now(7));
    assert_eq!(balance(&place).await, 1);
}

async fn two_attempts_at_once_have_one_effect(place: Place) {
    with_account(&place).await;
    let all = async |first: u64, second: u64| {
        tokio::join!(async { with_database!(place, transfer("", first, true)) }, async {
            with_database!(place, transfer("", second, true))
        },)
    };
    let (first, second) = all(5, 5).await;
    let done = [first.unwrap(), second.unwrap()];
    assert!(done.contains(&Once::Now(7)) && done.contains(&Once::Before(7)), "{done:?}");
    assert_eq!(balance(&place).await, 1);
}

/// Notes the effect, waits until another attempt waits for it, and rolls back.
async fn give_up_when_awaited<D: Supported>(url: &str, place: &Place)
where
    for<'c> &'c mut D::Connection: Executor<'c, Database = D>,
{
    let mut connection = D::Connection::connect(url).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    assert_eq!(work(&mut transaction, "", 5).await.unwrap(), Once::Now(7));
    let other = async { with_database!(place, transfer("", 6, true)) };
    let give_up = async {
        somebody_waits(place).await;
        transaction.rollback().await.unwrap();
    };
    let (done, ()) = tokio::join!(other, give_up);
    assert_eq!(done.unwrap(), Once::Now(7));
}

async fn an_attempt_takes_over_from_one_that_rolls_back(place: Place) {
    with_account(&place).await;
    if place.dialect == Dialect::Sqlite {
        // BEGIN IMMEDIATE lets one transaction in at a time, so nobody meets a note that is not committed.
        return;
    }
    with_database!(place, give_up_when_awaited(&place));
    assert_eq!(balance(&place).await, 1);
}

async fn futures_may_be_spawned(place: Place) {
    with_account(&place).await;
    let mut tasks = tokio::task::JoinSet::new();
    let url = place.url.clone();
    match place.dialect {
        Dialect::MySql => tasks.spawn(async move { transfer::<MySql>(&url, "", 5, true).await }),
        Dialect::Postgres => tasks.spawn(async move { transfer::<Postgres>(&url, "", 5, true).await }),
        Dialect::Sqlite => tasks.spawn(async move { transfer::<Sqlite>(&url, "", 5, true).await }),
    };
    let database = place.open().await;
    tasks.spawn(async move {
        let lives = [crate::kit::ended(1)];
        streamfleet_sql::history::write(&database, &lives).await.unwrap();
        streamfleet_sql::outbox::waiting(&database).await.unwrap();
        Ok(Once::Now(0))
    });
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
}

async fn large<D: Supported>(url: &str, bytes: usize) -> Result<Once<String>, OnceError<sqlx::Error>> {
    let mut connection = D::Connection::connect(url).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    once(&mut transaction, &key(""), fence(1), async |_| Ok("x".repeat(bytes))).await
}

async fn strange_step<D: Supported>(url: &str) -> Result<Once<u32>, OnceError<sqlx::Error>> {
    let mut connection = D::Connection::connect(url).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    once(&mut transaction, &key(&"s".repeat(65)), fence(1), async |_| Ok(1)).await
}

async fn results_and_steps_are_bounded(place: Place) {
    with_account(&place).await;
    let result = with_database!(place, large((64 << 10) - 2));
    assert!(matches!(result, Ok(Once::Now(_))));
    let result = with_database!(place, large((64 << 10) - 1));
    assert!(matches!(result, Err(OnceError::Result(ref why)) if why.contains("65537 bytes")));
    let result = with_database!(place, strange_step());
    assert!(matches!(result, Err(OnceError::Database(Error::Input(_)))));
}

async fn a_note_without_a_result_counts(place: Place) {
    with_account(&place).await;
    let note = "INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq) VALUES ('mail', 'order-7', '', 5, 0)";
    place.hand().await.run(note).await;
    let result = with_database!(place, transfer("", 5, true));
    // Null is no number.
    assert!(matches!(result, Err(OnceError::Result(_))), "{result:?}");
    assert_eq!(balance(&place).await, 0);
}

async fn old_effects_are_deleted(place: Place) {
    with_account(&place).await;
    let database = place.open().await;
    for step in ["a", "b", "c"] {
        with_database!(place, transfer(step, 5, true)).unwrap();
    }
    let day = Duration::from_secs(86_400);
    assert_eq!(prune(&database, day, 10).await.unwrap(), 0);
    place
        .hand()
        .await
        .run("UPDATE streamfleet_effects SET created_at = '2020-01-01 00:00:00' WHERE step <> 'c'")
        .await;
    assert_eq!(prune(&database, Duration::ZERO, 1).await.unwrap(), 1);
    assert_eq!(prune(&database, Duration::from_secs(3600), 10).await.unwrap(), 1);
    place.hand().await.run("UPDATE streamfleet_effects SET created_at = '2020-01-01 00:00:00'").await;
    let mut application = place.hand().await;
    application.run("BEGIN").await;
    let note = "INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq) VALUES ('a', 'a', '', 5, 0)";
    if place.dialect != Dialect::Sqlite {
        application.run(note).await;
    }
    // It would take 10 s and fail if it waited for the note that is not committed.
    assert_eq!(prune(&database, Duration::from_secs(3600), 10).await.unwrap(), 1);
    assert!(matches!(prune(&database, day, 0).await, Err(Error::Input(_))));
}
