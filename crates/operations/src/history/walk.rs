//! The jobs that a restore is about, page by page.

use std::collections::BTreeMap;

use streamfleet::job::QueueName;
use streamfleet_sql::Database;
use streamfleet_sql::history::Ending;
use streamfleet_sql::history::questions::{self, Cursor, Filter, Row};

use super::departed::Kept;
use super::restore::Restore;
use super::{asked, cursor, filter};
use crate::Error;

/// The most jobs of a page.
const PAGE: u64 = 500;

/// The pages of the jobs that are wanted.
pub(super) struct Walk<'a> {
    pub(super) database: &'a Database,
    filter: Filter,
    /// Where the next page begins.
    pub(super) after: Option<Cursor>,
    left: u64,
    pub(super) is_over: bool,
}

impl<'a> Walk<'a> {
    /// Begins with the first page.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] that names what cannot be used.
    pub(super) fn begin(database: &'a Database, queue: &QueueName, input: &Restore) -> Result<Self, Error> {
        input.check()?;
        let (filter, after) = (filter(queue, input.wanted.clone()), cursor(input.after.as_deref())?);
        Ok(Self { database, filter, after, left: input.limit, is_over: false })
    }

    /// Reads the next page, which may be empty; `None` after the last one.
    pub(super) async fn next_page(&mut self) -> Result<Option<Vec<Row>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let limit = usize::try_from(self.left.min(PAGE)).unwrap_or(usize::MAX);
        let page = questions::jobs(self.database, &self.filter, self.after.as_ref(), limit).await;
        let page = page.map_err(asked)?;
        self.left = self.left.saturating_sub(page.rows.len() as u64);
        self.is_over = self.left == 0 || page.next.is_none();
        self.after = page.next;
        Ok(Some(page.rows))
    }

    /// Returns the rows whose jobs can come back, and counts the others.
    pub(super) async fn sort_out(
        &self,
        mut rows: Vec<Row>,
        kept: &mut BTreeMap<&'static str, u64>,
    ) -> Result<Vec<Row>, Error> {
        let dead = rows.iter().filter(|row| row.state == Ending::Dead);
        let dead: Vec<_> = dead.map(|row| &row.id).collect();
        let last = questions::last_ends(self.database, &self.filter.queue, &dead).await.map_err(asked)?;
        rows.retain(|row| {
            let why = Kept::of(row, last.get(&row.id).copied());
            why.is_none_or(|why| {
                *kept.entry(why.as_str()).or_default() += 1;
                false
            })
        });
        Ok(rows)
    }
}
