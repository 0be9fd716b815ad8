//! Does something once for a job, whatever becomes of its attempts.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Transaction;
use streamfleet_domain::job::{EntryId, JobId, QueueName};

use super::Supported;
use crate::Error;
use crate::database::{Dialect, Link, Statement};

/// The most bytes of a result, as JSON.
const RESULT_BYTES: usize = 64 << 10;

/// The most characters of a step.
const STEP_CHARS: usize = 64;

const DOING: &str = "note an effect";

/// What is done once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The job's queue.
    pub queue: QueueName,
    /// The job's id. A replay has the same one, so the work is not done again.
    pub job_id: JobId,
    /// Which of several effects of the job it is: at most 64 characters; empty if there is one.
    pub step: String,
}

/// The fence of an attempt: the id of its entry, which a handler gets, and which is greater for every later attempt.
pub type Fence = EntryId;

/// Whether the work was done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Once<T> {
    /// It was done now, and takes effect when the transaction is committed.
    Now(T),
    /// It was done before, and this was its result.
    Before(T),
}

impl<T> Once<T> {
    /// Returns the result, whenever the work was done.
    pub fn into_inner(self) -> T {
        match self {
            Self::Now(result) | Self::Before(result) => result,
        }
    }
}

/// Why nothing was done, or must not be committed. Roll the transaction back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// A later attempt has done the work already, so this one is outdated: it should stop.
    #[error("a later attempt of the job has done this already, so this attempt should stop")]
    Superseded,
    /// The database has not noted the effect. If [`Error::is_transient`], the attempt may be repeated.
    #[error(transparent)]
    Database(#[from] Error),
    /// The result cannot be kept: it is no JSON, has more than 64 KiB, or was stored as something else.
    #[error("the result of an effect {0}")]
    Result(String),
    /// The work has failed.
    #[error("the work has failed")]
    Work(#[source] E),
}

/// Does the work in this transaction, unless it was done before. The caller commits afterwards, or rolls back after an error.
/// `work` gets the transaction, and what it changes by it is committed together with the note, so it happens once.
///
/// Two attempts at the same time wait for each other: the second one gets the result of the first when that commits, or does
/// the work when it rolls back. If the reply to the commit is lost, the next attempt finds out. In SQLite, begin the
/// transaction by `BEGIN IMMEDIATE`, or one of the two is refused.
///
/// A job that was replayed has the same id, so it gets the result of the life before.
///
/// ```no_run
/// use streamfleet_sql::effects::{Fence, Key, OnceError, once};
///
/// # async fn example(pool: sqlx::PgPool, key: Key, fence: Fence) -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = pool.begin().await?;
/// let done: Result<_, OnceError<sqlx::Error>> = once(&mut transaction, &key, fence, async |transaction| {
///     let paid = "UPDATE orders SET is_paid = TRUE WHERE id = 7";
///     Ok(sqlx::query(paid).execute(&mut **transaction).await?.rows_affected())
/// })
/// .await;
/// let _rows = done?.into_inner();
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// See [`OnceError`].
pub async fn once<D, T, E>(
    transaction: &mut Transaction<'_, D>,
    key: &Key,
    fence: Fence,
    work: impl AsyncFnOnce(&mut Transaction<'_, D>) -> Result<T, E>,
) -> Result<Once<T>, OnceError<E>>
where
    D: Supported,
    T: Serialize + DeserializeOwned,
{
    check(key)?;
    let noted = note(&mut D::link(&mut **transaction).0, key, fence).await?;
    match noted {
        Noted::Now => {}
        Noted::Before(found, _) if found > fence => return Err(OnceError::Superseded),
        Noted::Before(_, result) => {
            let result = result.as_deref().unwrap_or(b"null");
            let result = serde_json::from_slice(result);
            return result.map(Once::Before).map_err(|error| {
                OnceError::Result(format!("that was stored for {} is of another type: {error}", key.job_id))
            });
        }
    }
    let value = work(transaction).await.map_err(OnceError::Work)?;
    let result =
        serde_json::to_vec(&value).map_err(|error| OnceError::Result(format!("is no JSON: {error}")))?;
    if result.len() > RESULT_BYTES {
        let bytes = result.len();
        return Err(OnceError::Result(format!(
            "has {bytes} bytes of JSON, but at most {RESULT_BYTES} are allowed"
        )));
    }
    keep(&mut D::link(&mut **transaction).0, key, &result).await?;
    Ok(Once::Now(value))
}

fn check(key: &Key) -> Result<(), Error> {
    let length = key.step.chars().count();
    if length > STEP_CHARS || key.step.contains('\0') {
        let why = format!(
            "the step of an effect has {length} characters, but may have at most {STEP_CHARS} and no NUL"
        );
        return Err(Error::Input(why));
    }
    Ok(())
}

/// Whether the row was there.
enum Noted {
    Now,
    Before(Fence, Option<Vec<u8>>),
}

/// Inserts the row first, so that two attempts wait for each other at the primary key. No statement fails if the row is there:
/// an error would end the transaction in PostgreSQL.
async fn note(link: &mut Link<'_>, key: &Key, fence: Fence) -> Result<Noted, Error> {
    let failed = |error: sqlx::Error| Error::of(DOING, &error);
    let dialect = link.dialect();
    let text = "INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq) VALUES (";
    let mut insert = Statement::new(dialect, text);
    let id = key.job_id.to_string();
    insert.text(key.queue.as_str()).add(", ").text(id.as_str()).add(", ").text(key.step.as_str());
    insert.add(", ").number(fence.ms).add(", ").number(fence.seq).add(")");
    match dialect {
        // sqlx lets MySQL count a row that was found as one that was changed, so the number of rows does not tell.
        // LAST_INSERT_ID(1) does: it is evaluated only if the row is there.
        Dialect::MySql => {
            insert.add(" ON DUPLICATE KEY UPDATE queue = IF(LAST_INSERT_ID(1) = 1, queue, queue)")
        }
        Dialect::Postgres | Dialect::Sqlite => insert.add(" ON CONFLICT DO NOTHING"),
    };
    let done = link.execute(&insert).await.map_err(failed)?;
    let is_new = if dialect == Dialect::MySql { done.last_id == 0 } else { done.rows == 1 };
    if is_new {
        return Ok(Noted::Now);
    }
    let mut ask = Statement::new(dialect, "SELECT fence_ms, fence_seq, result FROM streamfleet_effects");
    at_key(&mut ask, key);
    // MySQL might otherwise show the rows as they were before the other attempt committed.
    ask.add(if dialect == Dialect::MySql { " FOR UPDATE" } else { "" });
    let rows = link.rows(&ask).await.map_err(failed)?;
    let why =
        || Error::Broken { doing: DOING, why: "the row was deleted at the same time: try again".to_owned() };
    let row = rows.first().ok_or_else(why)?;
    Ok(Noted::Before(Fence::new(row.number(0)?, row.number(1)?), row.bytes(2)?))
}

/// Stores the result in the row.
async fn keep(link: &mut Link<'_>, key: &Key, result: &[u8]) -> Result<(), Error> {
    let mut update = Statement::new(link.dialect(), "UPDATE streamfleet_effects SET result = ");
    update.bytes(result);
    at_key(&mut update, key);
    let done = link.execute(&update).await.map_err(|error| Error::of(DOING, &error))?;
    if done.rows == 1 {
        return Ok(());
    }
    let why = "the work has deleted the row, or has ended the transaction".to_owned();
    Err(Error::Broken { doing: DOING, why })
}

fn at_key(statement: &mut Statement, key: &Key) {
    statement.add(" WHERE queue = ").text(key.queue.as_str());
    statement
        .add(" AND job_id = ")
        .text(key.job_id.to_string().as_str())
        .add(" AND step = ")
        .text(key.step.as_str());
}
