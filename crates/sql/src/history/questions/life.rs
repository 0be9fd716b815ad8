//! One life with all that the history has of it, and all lives of an id.

use streamfleet_domain::job::{Generation, JobId, QueueName};

use super::row::JOB_COLUMNS;
use super::{Row, asking, by};
use crate::Error;
use crate::database::{Database, Dialect, Session, Statement};
use crate::history::{Attempt, Body, Day};

/// The most lives of an id that are returned.
const LIVES: i64 = 100;

/// The most attempts of a life that are returned, which are all that are written.
const ATTEMPTS: i64 = 1000;

/// What finds a life: the primary key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LifeKey {
    queue: QueueName,
    life: Generation,
    day: Day,
}

impl LifeKey {
    /// Names a life that began at this time, in milliseconds since 1970.
    pub fn new(queue: QueueName, life: Generation, created_ms: u64) -> Self {
        let day = Day::of_life(&life, created_ms);
        Self { queue, life, day }
    }

    /// Names a life by its token alone; `None` if a producer has drawn the token, because it does not say when the life began.
    pub fn of_token(queue: QueueName, life: Generation) -> Option<Self> {
        let day = Day::of_token(&life)?;
        Some(Self { queue, life, day })
    }
}

/// A life with its attempts and fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Story {
    /// The life.
    pub row: Row,
    /// Its attempts in order, at most the last 100.
    pub attempts: Vec<Attempt>,
    /// Its fields.
    pub body: Body,
}

/// Returns the lives of a job's id, the latest end first, at most 100.
///
/// # Errors
///
/// What the database answered.
pub async fn job(database: &Database, queue: &QueueName, id: &JobId) -> Result<Vec<Row>, Error> {
    let mut session = asking(database).await?;
    let rows = session.rows(&of_id(database.dialect(), queue, id)).await?;
    rows.iter().map(Row::read).collect()
}

/// Returns a life with its attempts and fields; `None` if the history does not have it.
///
/// # Errors
///
/// What the database answered.
pub async fn life(database: &Database, key: &LifeKey) -> Result<Option<Story>, Error> {
    let mut session = asking(database).await?;
    let [row, attempts, body] = of_key(database.dialect(), key);
    let found = session.rows(&row).await?;
    let Some(row) = found.first().map(Row::read).transpose()? else { return Ok(None) };
    let attempts = read_attempts(&mut session, &attempts).await?;
    let packed = session.rows(&body).await?.first().map(|row| row.bytes(0)).transpose()?.flatten();
    let body = Body::read(row.payload_state, packed.as_deref());
    Ok(Some(Story { row, attempts, body }))
}

async fn read_attempts(session: &mut Session, statement: &Statement) -> Result<Vec<Attempt>, Error> {
    let mut attempts = Vec::new();
    for row in session.rows(statement).await? {
        attempts.push(Attempt {
            number: row.number(0)?,
            started_ms: row.int(1)?.and_then(|ms| u64::try_from(ms).ok()),
            ended_ms: row.number(2)?,
            outcome: row.text(3)?.unwrap_or_default(),
            worker: row.text(4)?,
            error: row.text(5)?,
        });
    }
    Ok(attempts)
}

pub(super) fn of_id(dialect: Dialect, queue: &QueueName, id: &JobId) -> Statement {
    let text = format!("SELECT {JOB_COLUMNS} FROM sf_jobs{} WHERE queue = ", by(dialect, "sf_jobs_id"));
    let mut statement = Statement::new(dialect, &text);
    statement.text(queue.as_str()).add(" AND id = ").text(id.to_string().as_str());
    statement.add(" ORDER BY ended_ms DESC, life DESC LIMIT ").digits(&[LIVES]);
    statement
}

/// Returns the statements that read a life, its attempts and its fields.
pub(super) fn of_key(dialect: Dialect, key: &LifeKey) -> [Statement; 3] {
    let attempts = "SELECT attempt, started_ms, ended_ms, outcome, worker, error FROM sf_attempts";
    let jobs = format!("SELECT {JOB_COLUMNS} FROM sf_jobs");
    let mut made = [jobs.as_str(), attempts, "SELECT fields FROM sf_bodies"].map(|text| {
        let mut statement = Statement::varying(dialect, text);
        statement.add(" WHERE day = ").fixed_day(key.day).add(" AND queue = ").text(key.queue.as_str());
        statement.add(" AND life = ").text(key.life.to_string().as_str());
        statement
    });
    made[1].add(" ORDER BY attempt, ended_ms LIMIT ").digits(&[ATTEMPTS]);
    made
}
