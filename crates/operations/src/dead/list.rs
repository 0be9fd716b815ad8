//! A page of dead letters.

use serde::Serialize;
use streamfleet::job::{EntryId, Timestamp};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::{DeadLetter, Filter, LetterSearch};

use super::Letter;
use crate::{Error, List};

/// Which letters to list.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Which letters.
    pub filter: Filter,
    /// How many, at most.
    pub limit: u64,
    /// The letter after which the page begins.
    pub after: Option<EntryId>,
    /// Whether the oldest letters come first.
    pub oldest_first: bool,
    /// Only letters of jobs that this task has replayed.
    pub task: Option<String>,
}

/// What is known about all letters.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = DeadLetterFacts)]
#[non_exhaustive]
pub struct LetterFacts {
    /// The queue.
    pub queue: String,
    /// How many letters the queue has, regardless of the filter.
    pub total: u64,
    /// How many letters of this page are left out because the filter cannot read their payloads.
    pub undecided: u64,
    /// True if the search was interrupted before it found enough; `next` goes on where it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Lists letters, with the time by Redis's clock. When the stop is requested, it returns what it has found so far.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn list(
    queue: &Queue,
    input: &Listing,
    stop: &Shutdown,
) -> Result<(List<Letter, LetterFacts>, Timestamp), Error> {
    let snapshot = queue.snapshot().await.map_err(Error::redis("failed to count the dead letters"))?;
    let most = usize::try_from(input.limit).unwrap_or(usize::MAX);
    let search = LetterSearch::new(&input.filter, snapshot.now).newest_first(!input.oldest_first);
    let (search, mut items) = (search.after(input.after).most(most), Vec::new());
    let is_wanted =
        |letter: &DeadLetter| input.task.as_ref().is_none_or(|task| letter.text("dead_campaign") == *task);
    let add = |letter: &DeadLetter| {
        let is_wanted = is_wanted(letter);
        if is_wanted {
            items.push(Letter::of(letter));
        }
        is_wanted
    };
    let (mut next, mut undecided) = look(queue, search, stop, add).await?;
    let interrupted = next.is_some() && items.len() < most;
    if next.is_some() && !interrupted {
        // There is another page only if another letter matches. What cannot be read before that letter belongs to its page.
        let mut has_more = false;
        let more = |letter: &DeadLetter| {
            has_more |= is_wanted(letter);
            has_more
        };
        let rest = look(queue, search.after(next).most(1), stop, more).await?;
        if let (false, (None, unread)) = (has_more, rest) {
            (next, undecided) = (None, undecided + unread);
        }
    }
    let facts = LetterFacts { queue: queue.name().to_string(), total: snapshot.dead, undecided, interrupted };
    let next = next.map(|letter| letter.to_string());
    Ok((List { items, next, facts, former: None }, snapshot.now))
}

/// Looks through letters until `found` has taken enough of those that match, none is left, or the stop is requested. Returns the last
/// letter that was looked at, unless none is left, and how many the filter cannot judge. Large fields are read only if the filter
/// needs them.
async fn look(
    queue: &Queue,
    mut search: LetterSearch<'_>,
    stop: &Shutdown,
    mut found: impl FnMut(&DeadLetter) -> bool,
) -> Result<(Option<EntryId>, u64), Error> {
    let mut undecided = 0;
    loop {
        let page = queue.dead_letters().bare().search(&search).await;
        let page = page.map_err(Error::redis("failed to read the dead letters"))?;
        let taken = page.letters.iter().filter(|letter| found(letter)).count();
        undecided += page.undecided;
        search = search.after(page.next).most(search.most - taken);
        if page.next.is_none() || search.most == 0 || stop.is_requested() {
            return Ok((page.next, undecided));
        }
    }
}
