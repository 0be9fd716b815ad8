//! The outbox, as applications fill it and a relay empties it.

use std::time::Duration;

use streamfleet_sql::Error;
use streamfleet_sql::outbox::{MAX_WITHOUT, Row, delete, refuse, take, waiting};

use crate::kit::{Place, until};

const INSERT: &str = "INSERT INTO streamfleet_outbox (job_id, queue, type, payload) VALUES ";

on_all_databases!(
    a_row_written_by_hand_is_taken_with_what_it_has,
    rows_stay_until_they_are_deleted,
    a_row_with_a_smaller_number_that_is_committed_later_is_not_lost,
    rows_are_bounded_in_bytes,
    a_refused_row_is_out_of_the_way,
    rows_of_queues_that_are_left_out_hold_up_no_others,
    what_waits_is_counted,
    a_relay_waits_for_no_open_transaction,
);

fn seqs(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.seq).collect()
}

fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.job_id.as_str()).collect()
}

async fn a_row_written_by_hand_is_taken_with_what_it_has(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    hand.run(&format!("{INSERT} ('a', 'mail', 'mail.send', '{{}}')")).await;
    hand.run(
        "INSERT INTO streamfleet_outbox (job_id, queue, lane, type, payload, encoding, headers, run_at_ms, options) \
         VALUES ('b', 'mail', 'high', 'mail.send', 'x', 'msgpack', '{\"a\":\"b\"}', 7, '{\"max_attempts\":\"3\"}')",
    )
    .await;
    let rows = take(&database, &[], 10, 1 << 20).await.unwrap();
    assert_eq!(ids(&rows), ["a", "b"]);
    assert_eq!((rows[0].queue.as_str(), rows[0].job_type.as_str()), ("mail", "mail.send"));
    assert_eq!(
        (rows[0].payload.as_slice(), &rows[0].lane, rows[0].run_at_ms),
        (b"{}".as_slice(), &None, None)
    );
    assert_eq!((rows[1].lane.as_deref(), rows[1].encoding.as_deref()), (Some("high"), Some("msgpack")));
    assert_eq!((rows[1].headers.as_deref(), rows[1].run_at_ms), (Some("{\"a\":\"b\"}"), Some(7)));
    assert_eq!(rows[1].options.as_deref(), Some("{\"max_attempts\":\"3\"}"));
}

async fn rows_stay_until_they_are_deleted(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    let values: Vec<String> = (0..1200).map(|number| format!("('{number}', 'q', 't', '')")).collect();
    hand.run(&format!("{INSERT} {}", values.join(", "))).await;
    let rows = take(&database, &[], 1000, 1 << 20).await.unwrap();
    assert_eq!(seqs(&take(&database, &[], 1000, 1 << 20).await.unwrap()), seqs(&rows));
    assert_eq!(delete(&database, &seqs(&rows)).await.unwrap(), 1000);
    let left = take(&database, &[], 1000, 1 << 20).await.unwrap();
    assert_eq!((left.len(), left[0].job_id.as_str()), (200, "1000"));
    let mut all = seqs(&rows);
    all.extend(seqs(&left));
    assert_eq!(delete(&database, &all).await.unwrap(), 200);
    assert_eq!(delete(&database, &all).await.unwrap(), 0);
    assert!(take(&database, &[], 1000, 1 << 20).await.unwrap().is_empty());
    assert!(matches!(take(&database, &[], 0, 1).await, Err(Error::Input(_))));
}

async fn a_row_with_a_smaller_number_that_is_committed_later_is_not_lost(place: Place) {
    if place.dialect == streamfleet_sql::Dialect::Sqlite {
        // It has one writer at a time, so numbers are committed in order.
        return;
    }
    let database = place.migrated().await;
    let (mut slow, mut fast) = (place.hand().await, place.hand().await);
    slow.run("BEGIN").await;
    slow.run(&format!("{INSERT} ('slow', 'q', 't', '')")).await;
    fast.run(&format!("{INSERT} ('fast', 'q', 't', '')")).await;
    let rows = take(&database, &[], 10, 1 << 20).await.unwrap();
    assert_eq!(ids(&rows), ["fast"]);
    assert_eq!(delete(&database, &seqs(&rows)).await.unwrap(), 1);
    assert!(take(&database, &[], 10, 1 << 20).await.unwrap().is_empty());
    slow.run("COMMIT").await;
    assert_eq!(ids(&take(&database, &[], 10, 1 << 20).await.unwrap()), ["slow"]);
}

async fn rows_are_bounded_in_bytes(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    let large = "x".repeat(10_000);
    for number in 0..3 {
        hand.run(&format!("{INSERT} ('{number}', 'q', 't', '{large}')")).await;
    }
    assert_eq!(ids(&take(&database, &[], 10, 22_000).await.unwrap()), ["0", "1"]);
    assert_eq!(ids(&take(&database, &[], 10, 5).await.unwrap()), ["0"]);
}

async fn a_refused_row_is_out_of_the_way(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    hand.run(&format!("{INSERT} ('bad', 'q', 'T!', ''), ('good', 'q', 't', '')")).await;
    let rows = take(&database, &[], 10, 1 << 20).await.unwrap();
    assert!(
        refuse(&database, rows[0].seq, &format!("a type must match\0{}", "…".repeat(1000))).await.unwrap()
    );
    assert!(!refuse(&database, 12_345, "gone").await.unwrap());
    assert_eq!(ids(&take(&database, &[], 10, 1 << 20).await.unwrap()), ["good"]);
    let found = waiting(&database).await.unwrap();
    assert_eq!((found.rows, found.refused), (1, 1));
    hand.run("UPDATE streamfleet_outbox SET type = 't', refused = NULL").await;
    assert_eq!(ids(&take(&database, &[], 10, 1 << 20).await.unwrap()), ["bad", "good"]);
}

async fn rows_of_queues_that_are_left_out_hold_up_no_others(place: Place) {
    let database = place.migrated().await;
    let mut hand = place.hand().await;
    let full: Vec<String> = (0..50).map(|number| format!("('{number}', 'full', 't', '')")).collect();
    hand.run(&format!("{INSERT} {}, ('x', 'it''s', 't', ''), ('y', 'mail', 't', '')", full.join(", "))).await;
    assert_eq!(take(&database, &[], 50, 1 << 20).await.unwrap().len(), 50);
    assert_eq!(ids(&take(&database, &["full"], 50, 1 << 20).await.unwrap()), ["x", "y"]);
    assert_eq!(ids(&take(&database, &["full", "it's"], 50, 1 << 20).await.unwrap()), ["y"]);
    assert!(matches!(take(&database, &["q"; MAX_WITHOUT + 1], 50, 1).await, Err(Error::Input(_))));
}

async fn what_waits_is_counted(place: Place) {
    let database = place.migrated().await;
    let found = waiting(&database).await.unwrap();
    assert_eq!((found.rows, found.oldest_ms, found.refused), (0, None, 0));
    let mut hand = place.hand().await;
    hand.run(&format!("{INSERT} ('a', 'q', 't', ''), ('b', 'q', 't', '')")).await;
    let rows = waiting(&database).await.unwrap().rows;
    assert_eq!(rows, 2);
    until("an age of a second", async || waiting(&database).await.unwrap().oldest_ms.unwrap() >= 1000).await;
    hand.run("UPDATE streamfleet_outbox SET created_at = '2020-01-01 00:00:00'").await;
    let oldest = waiting(&database).await.unwrap().oldest_ms.unwrap();
    assert!(Duration::from_millis(oldest) > Duration::from_secs(365 * 86_400), "{oldest}");
}

async fn a_relay_waits_for_no_open_transaction(place: Place) {
    if place.dialect == streamfleet_sql::Dialect::Sqlite {
        // Its writers wait for each other.
        return;
    }
    let database = place.migrated().await;
    let (mut application, mut hand) = (place.hand().await, place.hand().await);
    hand.run(&format!("{INSERT} ('a', 'q', 't', ''), ('b', 'q', 't', ''), ('c', 'q', 't', '')")).await;
    application.run("BEGIN").await;
    application.run(&format!("{INSERT} ('open', 'q', 't', '')")).await;
    application.run("UPDATE streamfleet_outbox SET headers = '{}' WHERE seq = 2").await;
    let rows = take(&database, &[], 10, 1 << 20).await.unwrap();
    assert_eq!(ids(&rows), ["a", "b", "c"]);
    let free: Vec<i64> = rows.iter().filter(|row| row.job_id != "b").map(|row| row.seq).collect();
    // It would take 10 s and fail if it waited.
    assert_eq!(delete(&database, &free).await.unwrap(), 2);
    application.run("ROLLBACK").await;
    assert_eq!(ids(&take(&database, &[], 10, 1 << 20).await.unwrap()), ["b"]);
}
