//! Writes lives: up to 500 in one transaction, sorted by primary key, so that two writers take their locks in one order. If
//! the database does not accept a row, the lives are halved until the one at fault is alone, and all others are written.

mod rows;

use std::collections::VecDeque;
use std::ops::Range;

use super::Ended;
use crate::Error;
use crate::database::{Database, Session, Statement};
pub(super) use rows::{stored_name, stored_value};

/// The most lives in one transaction.
const LIVES: usize = 500;

/// The most bytes of fields in one transaction.
const BYTES: usize = 16 << 20;

/// What became of lives that were to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Written {
    /// How many lives the history has now, whether it had them before or not.
    pub stored: usize,
    /// The lives that the database does not accept.
    pub poison: Vec<Poison>,
}

/// A life that the database does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Poison {
    /// Its place among the lives that were to be written.
    pub at: usize,
    /// Why: [`Error::Poison`].
    pub error: Error,
}

/// Writes lives that have ended. A life that the history has already is left as it is, so the call may be repeated with the
/// same lives. More than 500 lives, or 16 MiB of fields, are written in several transactions.
///
/// # Errors
///
/// What the database answered, if no single life is at fault. Some of the lives may have been written: repeat the call.
pub async fn write(database: &Database, lives: &[Ended]) -> Result<Written, Error> {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_cached_key(|at| {
        let life = &lives[*at];
        (life.day(), life.queue.as_str().to_owned(), life.life.to_string())
    });
    let mut written = Written::default();
    let mut left: VecDeque<Range<usize>> = portions(lives, &order);
    while let Some(range) = left.pop_front() {
        let mut session = database.session("write the history").await?;
        let portion: Vec<&Ended> = order[range.clone()].iter().map(|at| &lives[*at]).collect();
        match transaction(&mut session, &portion).await {
            Ok(()) => written.stored += portion.len(),
            Err(error) if error.is_poison() && portion.len() == 1 => {
                written.poison.push(Poison { at: order[range.start], error });
            }
            Err(error) if error.is_poison() => {
                let middle = range.start + range.len() / 2;
                left.push_front(middle..range.end);
                left.push_front(range.start..middle);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Divides lives into portions that one transaction may have.
fn portions(lives: &[Ended], order: &[usize]) -> VecDeque<Range<usize>> {
    let mut found = VecDeque::new();
    let (mut start, mut bytes) = (0, 0);
    for (place, at) in order.iter().enumerate() {
        let size = lives[*at].body.fields().map_or(0, |fields| fields.size());
        let is_full = place - start == LIVES || bytes + size > BYTES;
        if is_full && place > start {
            found.push_back(start..place);
            (start, bytes) = (place, 0);
        }
        bytes += size;
    }
    if start < order.len() {
        found.push_back(start..order.len());
    }
    found
}

async fn transaction(session: &mut Session, lives: &[&Ended]) -> Result<(), Error> {
    session.begin().await?;
    let inserted = insert(session, lives).await;
    match inserted {
        Ok(()) => session.commit().await,
        Err(error) => {
            session.roll_back().await;
            Err(error)
        }
    }
}

async fn insert(session: &mut Session, lives: &[&Ended]) -> Result<(), Error> {
    let dialect = session.dialect();
    let statements = [rows::jobs(dialect, lives), rows::attempts(dialect, lives), rows::keys(dialect, lives)];
    for statement in statements.into_iter().flatten() {
        session.execute(&statement).await?;
    }
    // Made one after the other, because each has up to a few MiB.
    for portion in rows::bodies(lives) {
        let statement: Statement = rows::body(dialect, &lives[portion]);
        session.execute(&statement).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Body, Ending};
    use streamfleet_domain::job::{Envelope, Lane};

    fn ended(number: usize, size: usize) -> Ended {
        let value = vec![b'x'; size];
        Ended {
            queue: "q".parse().unwrap(),
            life: format!("1796083200000-{number}").parse().unwrap(),
            id: "a".parse().unwrap(),
            job_type: "t".to_owned(),
            lane: Lane::Normal,
            state: Ending::Done,
            created_ms: 1,
            ended_ms: 2,
            attempts: 1,
            worker: None,
            worker_version: None,
            reason: None,
            fingerprint: None,
            error: None,
            result: None,
            root: None,
            body: Body::Stored(Envelope::new([(b"payload".as_slice(), value.as_slice())].into_iter())),
            attempted: Vec::new(),
            keys: Vec::new(),
        }
    }

    fn sizes(lives: &[Ended]) -> Vec<usize> {
        let order: Vec<usize> = (0..lives.len()).collect();
        portions(lives, &order).into_iter().map(|range| range.len()).collect()
    }

    #[test]
    fn portions_are_bounded_in_number_and_in_bytes() {
        let small: Vec<Ended> = (0..1001).map(|number| ended(number, 1)).collect();
        assert_eq!(sizes(&small), [500, 500, 1]);
        let large: Vec<Ended> = (0..3).map(|number| ended(number, 7 << 20)).collect();
        assert_eq!(sizes(&large), [2, 1]);
        assert!(sizes(&[]).is_empty());
    }
}
