//! The jobs that Redis no longer has: a search goes on with those that its history keeps, the latest end first.

use std::fmt;
use std::sync::Arc;

use streamfleet::job::{Envelope, State, Timestamp};
use streamfleet::{Queue, RedisError};
use streamfleet_engine::admin::{Candidate, Filter, Match};
use streamfleet_sql::LazyDatabase;
use streamfleet_sql::history::questions::{self, Cursor};
use streamfleet_sql::history::{Body, Ending};

use super::Row;
use crate::times;

/// How many jobs a page looks at.
const PAGE: usize = 500;

/// The database in which a search finds the jobs that Redis no longer has.
#[derive(Clone)]
pub struct Past(Arc<LazyDatabase>);

/// Leaves out the database, whose address nobody needs here.
impl fmt::Debug for Past {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Past")
    }
}

/// Which jobs of a queue's history are wanted.
pub(super) struct PastSearch<'a> {
    pub(super) states: &'a [State],
    pub(super) filter: &'a Filter,
    /// The time by Redis's clock, for conditions about ages.
    pub(super) now: Timestamp,
    /// The most jobs of a page.
    pub(super) most: usize,
}

/// What a page of a history has.
#[derive(Default)]
pub(super) struct PastPage {
    pub(super) rows: Vec<Row>,
    /// Where to go on; `None` if everything was looked at.
    pub(super) next: Option<Cursor>,
    pub(super) looked_at: u64,
    pub(super) too_large: u64,
    pub(super) unreadable: u64,
}

/// What failed.
pub(super) enum PastError {
    Redis(RedisError),
    Database(streamfleet_sql::Error),
}

impl Past {
    /// Finds jobs in the history that this database has.
    pub fn new(database: Arc<LazyDatabase>) -> Self {
        Self(database)
    }

    /// Looks at up to 500 jobs of a queue, and returns those that match and that Redis no longer has.
    pub(super) async fn page(
        &self,
        queue: &Queue,
        search: &PastSearch<'_>,
        after: Option<&Cursor>,
    ) -> Result<PastPage, PastError> {
        let (page, verdicts) =
            self.look(&search.narrowed(queue), search, after).await.map_err(PastError::Database)?;
        let questions::Page { rows: found, next, .. } = page;
        let (mut page, mut last) = (PastPage { next, ..PastPage::default() }, None);
        for (past, verdict) in found.iter().zip(verdicts) {
            if page.rows.len() == search.most {
                // The others are looked at again.
                page.next = last.map(questions::Row::cursor);
                break;
            }
            (page.looked_at, last) = (page.looked_at + 1, Some(past));
            match verdict {
                Match::Yes if is_gone(queue, past).await.map_err(PastError::Redis)? => {
                    page.rows.push(Row::past(past, search.now));
                }
                Match::Yes | Match::No => {}
                Match::TooLarge => page.too_large += 1,
                Match::Unreadable => page.unreadable += 1,
            }
        }
        Ok(page)
    }

    /// Reads a page, and returns whether each of its jobs matches. Reads the fields of those about which nothing else decides.
    async fn look(
        &self,
        asked: &questions::Filter,
        search: &PastSearch<'_>,
        after: Option<&Cursor>,
    ) -> Result<(questions::Page, Vec<Match>), streamfleet_sql::Error> {
        let database = self.0.get().await?;
        let page = questions::jobs(database, asked, after, PAGE).await?;
        let rows = &page.rows;
        let mut verdicts: Vec<Match> = rows.iter().map(|row| search.check(row, None)).collect();
        let is_open = |at: &usize| verdicts[*at] == Match::Unreadable;
        let open: Vec<usize> = (0..rows.len()).filter(is_open).collect();
        let wanted: Vec<questions::Row> = open.iter().map(|at| rows[*at].clone()).collect();
        let mut read = 0;
        while read < open.len() {
            for body in questions::bodies(database, &wanted[read..]).await? {
                if let Body::Stored(fields) | Body::Masked(fields) = body {
                    let fields = with_death(&fields, &wanted[read]);
                    verdicts[open[read]] = search.check(&wanted[read], Some(&fields));
                }
                read += 1;
            }
        }
        Ok((page, verdicts))
    }
}

impl PastSearch<'_> {
    /// What the database is asked: for no job less than the filter matches, and for as few others as its indexes tell apart.
    fn narrowed(&self, queue: &Queue) -> questions::Filter {
        let filter = self.filter.clone().fixed_at(self.now);
        let since = filter.value_of("since").and_then(|text| times::instant(&text).ok());
        questions::Filter {
            states: self.states.iter().copied().filter_map(ending).collect(),
            types: filter.value_of("type").filter(|name| !name.ends_with('*')).into_iter().collect(),
            fingerprint: filter.value_of("group").filter(|group| !matches!(&**group, "other" | "none")),
            // No job ended before it began.
            from_ms: since.map(Timestamp::as_ms),
            ..questions::Filter::of(queue.name().clone())
        }
    }

    fn check(&self, row: &questions::Row, fields: Option<&Envelope>) -> Match {
        let id = row.id.to_string();
        let (at, state) = match row.state {
            Ending::Dead => (row.ended_ms, State::Dead),
            Ending::Done => (row.created_ms, State::Done),
            Ending::Cancelled => (row.created_ms, State::Cancelled),
        };
        let candidate = Candidate::new(&id)
            .state(state)
            .job_type(&*row.job_type)
            .error(row.error.as_deref().unwrap_or_default())
            .at(Timestamp::from_ms(at))
            .fields(fields);
        self.filter.check(&candidate, self.now)
    }
}

/// The fields of a job, with those that its dead letter had.
fn with_death(fields: &Envelope, row: &questions::Row) -> Envelope {
    let death = [("dead_reason", &row.reason), ("dead_fingerprint", &row.fingerprint)];
    let death: Vec<(&[u8], &[u8])> = death
        .iter()
        .filter_map(|(name, value)| Some((name.as_bytes(), value.as_deref()?.as_bytes())))
        .collect();
    fields.edited(|name| death.iter().any(|(own, _)| *own == name), &death)
}

/// How a job in this state has ended, if it has.
pub(super) fn ending(state: State) -> Option<Ending> {
    match state {
        State::Done => Some(Ending::Done),
        State::Dead => Some(Ending::Dead),
        State::Cancelled => Some(Ending::Cancelled),
        State::Waiting | State::Running | State::Scheduled | State::Retrying => None,
    }
}

/// Whether Redis does not have this end of the job, which the search has shown otherwise.
async fn is_gone(queue: &Queue, row: &questions::Row) -> Result<bool, RedisError> {
    let status = queue.status(&row.id).await?;
    Ok(!status.is_some_and(|status| {
        status.state.is_final() && status.generation.as_deref() == Some(&*row.life.to_string())
    }))
}
