//! The statements that insert the rows of lives, many rows in each.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::database::{Dialect, Statement, stored_text};
use crate::history::{Attempt, Day, Ended, body::pack, questions::JOB_COLUMNS};

/// The most rows of one statement. With the columns of `sf_jobs`, it has 10,500 values; SQLite takes 32,766, and the others
/// 65,535.
const ROWS: usize = 500;

/// The most bytes of fields in one statement with several rows.
const BODY_BYTES: usize = 1 << 20;

/// The most bytes of an error.
const ERROR_BYTES: usize = 16 << 10;

/// The most bytes of a result.
const RESULT_BYTES: usize = 64 << 10;

/// The most attempts of a life that are stored: the last ones.
const ATTEMPTS: usize = 100;

/// The most keys of a life that are stored.
const KEYS: usize = 16;

/// The most characters of a key's value, and bytes of its name.
const VALUE_CHARS: usize = 190;
const NAME_BYTES: usize = 64;

/// Cuts a key's value to what the table has of it.
pub(in crate::history) fn stored_value(value: &str) -> String {
    stored_text(&value.chars().take(VALUE_CHARS).collect::<String>(), VALUE_CHARS * 4)
}

/// Cuts a key's name to what the table has of it.
pub(in crate::history) fn stored_name(name: &str) -> String {
    stored_text(name, NAME_BYTES)
}

/// Adds a text that may be absent, cut to this many bytes.
fn text(statement: &mut Statement, value: Option<&str>, most: usize) {
    statement.text(value.map(|value| stored_text(value, most)).as_deref());
}

pub(super) fn jobs(dialect: Dialect, lives: &[&Ended]) -> Vec<Statement> {
    let head = format!("INSERT INTO sf_jobs (day, {JOB_COLUMNS}) VALUES ");
    let made = lives.chunks(ROWS).map(|lives| {
        let mut statement = Statement::varying(dialect, &head);
        for (at, life) in lives.iter().enumerate() {
            statement.add(if at == 0 { "(" } else { ", (" });
            job(&mut statement, life);
            statement.add(")");
        }
        statement.unless_there("life");
        statement
    });
    made.collect()
}

/// Adds the values of one life, in the order of [`JOB_COLUMNS`].
fn job(statement: &mut Statement, life: &Ended) {
    let result = life.result.as_deref().filter(|result| result.len() <= RESULT_BYTES);
    statement.day(life.day()).add(", ").text(life.queue.as_str());
    statement.add(", ").text(life.life.to_string().as_str()).add(", ").text(life.id.to_string().as_str());
    statement.add(", ").text(stored_text(&life.job_type, 128).as_str());
    statement.add(", ").text(life.lane.as_str()).add(", ").text(life.state.as_str());
    statement.add(", ").number(life.created_ms).add(", ").number(life.ended_ms);
    statement.add(", ").number(life.attempts);
    let root = life.root.as_ref().map(ToString::to_string);
    let texts = [
        (life.worker.as_deref(), 128),
        (life.worker_version.as_deref(), 64),
        (life.reason.as_deref(), 32),
        (life.fingerprint.as_deref(), 32),
        (life.error.as_deref(), ERROR_BYTES),
        (result, RESULT_BYTES),
        (root.as_deref(), 128),
    ];
    for (value, most) in texts {
        statement.add(", ");
        text(statement, value, most);
    }
    statement.add(", ").text(life.body.state().as_str());
}

pub(super) fn attempts(dialect: Dialect, lives: &[&Ended]) -> Vec<Statement> {
    let all = lives.iter().flat_map(|life| {
        let last = life.attempted.len().saturating_sub(ATTEMPTS);
        life.attempted[last..].iter().map(|attempt| (*life, attempt))
    });
    let all: Vec<(&Ended, &Attempt)> = all.collect();
    let made = all.chunks(ROWS).map(|rows| {
        let head = "INSERT INTO sf_attempts (day, queue, life, attempt, started_ms, ended_ms, outcome, worker, error) VALUES ";
        let mut statement = Statement::varying(dialect, head);
        for (at, (life, attempt)) in rows.iter().enumerate() {
            statement.add(if at == 0 { "(" } else { ", (" }).day(life.day());
            statement.add(", ").text(life.queue.as_str()).add(", ").text(life.life.to_string().as_str());
            statement.add(", ").number(attempt.number).add(", ").number(attempt.started_ms);
            statement.add(", ").number(attempt.ended_ms).add(", ");
            text(&mut statement, Some(&attempt.outcome), 32);
            statement.add(", ");
            text(&mut statement, attempt.worker.as_deref(), 128);
            statement.add(", ");
            text(&mut statement, attempt.error.as_deref(), ERROR_BYTES);
            statement.add(")");
        }
        statement.unless_there("life");
        statement
    });
    made.collect()
}

pub(super) fn keys(dialect: Dialect, lives: &[&Ended]) -> Vec<Statement> {
    // In the order of the primary key, in which two writers then take their locks.
    let mut all: BTreeSet<(&str, String, String, Day, String)> = BTreeSet::new();
    for life in lives {
        for key in life.keys.iter().take(KEYS) {
            let (name, value) = (stored_name(&key.name), stored_value(&key.value));
            all.insert((life.queue.as_str(), name, value, life.day(), life.life.to_string()));
        }
    }
    let all: Vec<_> = all.into_iter().collect();
    let made = all.chunks(ROWS).map(|rows| {
        let mut statement =
            Statement::varying(dialect, "INSERT INTO sf_keys (queue, name, value, day, life) VALUES ");
        for (at, (queue, name, value, day, life)) in rows.iter().enumerate() {
            statement.add(if at == 0 { "(" } else { ", (" }).text(*queue);
            statement.add(", ").text(name.as_str()).add(", ").text(value.as_str());
            statement.add(", ").day(*day).add(", ").text(life.as_str()).add(")");
        }
        statement.unless_there("life");
        statement
    });
    made.collect()
}

/// Divides lives so that the fields of each part fit into one statement.
pub(super) fn bodies(lives: &[&Ended]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, life) in lives.iter().enumerate() {
        let Some(fields) = life.body.fields() else { continue };
        let size = fields.size();
        match parts.last_mut() {
            Some(part) if bytes + size <= BODY_BYTES => {
                part.end = at + 1;
                bytes += size;
            }
            _ => {
                parts.push(at..at + 1);
                bytes = size;
            }
        }
    }
    parts
}

/// Inserts the fields of these lives, of which at least one has some.
pub(super) fn body(dialect: Dialect, lives: &[&Ended]) -> Statement {
    let mut statement =
        Statement::varying(dialect, "INSERT INTO sf_bodies (day, queue, life, fields) VALUES ");
    let stored = lives.iter().filter_map(|life| Some((life, life.body.fields()?)));
    for (at, (life, fields)) in stored.enumerate() {
        statement.add(if at == 0 { "(" } else { ", (" }).day(life.day()).add(", ").text(life.queue.as_str());
        statement.add(", ").text(life.life.to_string().as_str()).add(", ").bytes(&pack(fields)).add(")");
    }
    statement.unless_there("life");
    statement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_by_characters_and_a_name_by_bytes() {
        assert_eq!(stored_value(&"ä".repeat(300)).chars().count(), 190);
        assert_eq!(stored_name(&"ä".repeat(300)).len(), 64);
        assert_eq!(stored_value("a\0"), "a\u{fffd}");
    }
}
