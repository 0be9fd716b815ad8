//! Copies the lives that were written, within the database: as many rows in a fraction of the time.

use crate::month::{DAYS, Month};
use crate::place::Place;

/// Each table with its columns after `day` and `queue`, as a copy has them. `{n}` is its number.
const TABLES: [(&str, &str, &str); 4] = [
    (
        "sf_jobs",
        "life, id, type, lane, state, created_ms, ended_ms, attempts, worker, worker_version, reason, fingerprint, error, result, root, \
         payload_state",
        "REPLACE(life, '-0', '-{n}'), REPLACE(id, 'order-', 'order-{n}-'), type, lane, state, created_ms, ended_ms, attempts, worker, \
         worker_version, reason, fingerprint, error, result, root, payload_state",
    ),
    (
        "sf_attempts",
        "life, attempt, started_ms, ended_ms, outcome, worker, error",
        "REPLACE(life, '-0', '-{n}'), attempt, started_ms, ended_ms, outcome, worker, error",
    ),
    ("sf_bodies", "life, fields", "REPLACE(life, '-0', '-{n}'), fields"),
    ("sf_keys", "name, value, life", "name, value, REPLACE(life, '-0', '-{n}')"),
];

/// Makes this many copies of each life that is there. Their generations and ids have the number of the copy.
pub(crate) async fn copy(place: &Place, copies: u64) {
    let mut hand = place.hand().await;
    // One day after the other, because its indexes fit into memory.
    for day in 0..=DAYS {
        let day = Month::first_day().plus(i32::try_from(day).unwrap());
        hand.run("BEGIN").await;
        for (table, columns, copied) in TABLES {
            for n in 1..=copies {
                let copied = copied.replace("{n}", &n.to_string());
                let text = format!(
                    "INSERT INTO {table} (day, queue, {columns}) SELECT day, queue, {copied} FROM {table} \
                     WHERE day = '{day}' AND life LIKE '%-0'"
                );
                hand.run(&text).await;
            }
        }
        hand.run("COMMIT").await;
        eprintln!("{day} is copied");
    }
}
