//! Dead letters with all their fields, oldest first. Nothing is kept in memory but one page.

use streamfleet::Queue;
use streamfleet::job::EntryId;
use streamfleet_engine::admin::{DeadLetter, Filter, Selection};

use crate::Error;

/// What an error says if Redis fails.
const FAILED: &str = "failed to read the dead letters";

/// The letters that existed when an export began, read page by page.
#[derive(Debug)]
pub struct Export {
    selection: Selection,
    after: Option<EntryId>,
    is_over: bool,
    /// How many letters were left out so far because the filter cannot read their payloads.
    pub undecided: u64,
}

/// Begins an export of the letters that exist now and that a filter matches.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn export(queue: &Queue, filter: Filter) -> Result<Export, Error> {
    let selection = queue.dead_letters().select(filter).await.map_err(Error::redis(FAILED))?;
    Ok(Export { selection, after: None, is_over: false, undecided: 0 })
}

impl Export {
    /// Reads a page of letters, of about 16 MiB at most; `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`Error::Redis`].
    pub async fn page(&mut self, queue: &Queue) -> Result<Option<Vec<DeadLetter>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let page = queue.dead_letters().selected(&self.selection, self.after).await;
        let page = page.map_err(Error::redis(FAILED))?;
        self.undecided += page.undecided;
        (self.after, self.is_over) = (page.next, page.next.is_none());
        Ok(Some(page.letters))
    }
}
