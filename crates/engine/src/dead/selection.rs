//! Which dead letters somebody means: those that a filter matches, of the letters that existed when it was given. Pages
//! have no bound but their own size; a plan says beforehand what would happen to how many.

use std::collections::BTreeMap;

use crate::client::error::Error;
use crate::dead::groups::DeadGroup;
use crate::dead::letter::{DeadLetter, DeadLetters};
use crate::job::filter::{Filter, Match};
use crate::job::{DeadReason, EntryId, Timestamp, cut};

/// How many letters one page reads.
const PAGE: u64 = 200;

/// The most groups of a plan that are counted apart.
const MAX_GROUPS: usize = 1000;

/// The most bytes of an error in a plan.
const ERROR_BYTES: usize = 200;

/// The dead letters that a filter matches, of those that existed when it was given; see the
/// [example](DeadLetters::select).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// The filter. Its conditions about ages are replaced by conditions about times.
    pub filter: Filter,
    /// The newest letter; `None` if there was no letter.
    pub last: Option<EntryId>,
    /// How many letters there are to look at, also those that the filter does not match.
    pub total: u64,
    /// How many letters were wanted at most, the oldest ones.
    pub limit: Option<u64>,
    /// When it was made, by the server's clock.
    pub now: Timestamp,
}

impl Selection {
    /// How its letters are searched, after one of them; `None` if it has none.
    fn search(&self, after: Option<EntryId>) -> Option<LetterSearch<'_>> {
        let last = Some(self.last?);
        Some(LetterSearch { after, last, ..LetterSearch::new(&self.filter, self.now) })
    }
}

/// Which letters to look through, and when to end; see the [example](DeadLetters::search).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct LetterSearch<'a> {
    /// Which letters match.
    pub filter: &'a Filter,
    /// The server's time, for conditions about ages.
    pub now: Timestamp,
    /// The letter after which the search begins; `None` for the first one.
    pub after: Option<EntryId>,
    /// Whether the newest letters come first.
    pub newest_first: bool,
    /// How many letters may match before the search ends.
    pub most: usize,
    /// The newest letter that is looked at, if the oldest come first.
    last: Option<EntryId>,
    /// After how many letters the search ends, …
    most_read: u64,
    /// … and after how many bytes of letters; both roughly.
    most_bytes: usize,
    /// How many letters are read first.
    first: u64,
}

impl<'a> LetterSearch<'a> {
    /// Searches all letters, oldest first.
    pub fn new(filter: &'a Filter, now: Timestamp) -> Self {
        Self {
            filter,
            now,
            after: None,
            newest_first: false,
            most: usize::MAX,
            last: None,
            most_read: 1,
            most_bytes: usize::MAX,
            first: PAGE,
        }
    }

    setters! {
        /// Sets the letter after which the search begins.
        after: impl Into<Option<EntryId>> => after.into();
        /// Sets whether the newest letters come first.
        newest_first: bool;
        /// Sets how many letters may match before the search ends.
        most: usize;
    }
}

/// A page of letters; see the [example](DeadLetters::select).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectedPage {
    /// The letters that match: of a [`Selection`], oldest first.
    pub letters: Vec<DeadLetter>,
    /// Where the next page begins: after this letter. `None` if this was the last page.
    pub next: Option<EntryId>,
    /// How many letters were read.
    pub read: u64,
    /// How many letters nobody can judge, because their payload is too large or cannot be read. They do not match.
    pub undecided: u64,
    /// For each of the letters, how many were read for it, with itself, if that was counted.
    pub(crate) reads: Vec<u64>,
}

impl SelectedPage {
    /// Looks at a letter.
    fn add(&mut self, letter: DeadLetter, search: &LetterSearch<'_>) {
        self.read += 1;
        match letter.check(search.filter, search.now) {
            Match::Yes => {
                self.reads.push(self.read - self.reads.iter().sum::<u64>());
                self.letters.push(letter);
            }
            Match::No => {}
            Match::TooLarge | Match::Unreadable => self.undecided += 1,
        }
    }
}

/// What would happen to how many letters; see the [example](DeadLetters::select).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectionPlan {
    /// How many letters match.
    pub letters: u64,
    /// The groups of these letters; the largest come first. The letters of all groups beyond a thousand are one group.
    pub groups: Vec<DeadGroup>,
    /// How many letters nobody can judge, because their payload is too large or cannot be read. They do not match.
    pub undecided: u64,
}

impl DeadLetters<'_> {
    /// Selects the letters that exist now and that a filter matches. An empty filter matches all of them: make sure that
    /// somebody wants that. Letters that die later, or that are edited, do not belong to the selection.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::Filter;
    ///
    /// let dead = queue.dead_letters().bare();
    /// let selection = dead.select(Filter::new().job_type("mail.*")?).await?;
    /// let plan = dead.plan(&selection, |_| ()).await?;
    /// println!("{} letters in {} groups", plan.letters, plan.groups.len());
    ///
    /// let mut after = None;
    /// loop {
    ///     let page = dead.selected(&selection, after).await?;
    ///     for letter in &page.letters {
    ///         dead.replay(letter.entry, &letter.job()).await?;
    ///     }
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn select(self, filter: Filter) -> Result<Selection, Error> {
        // Letters that die in between are not counted, so that nobody takes them for letters that are gone.
        let snapshot = self.queue.snapshot().await?;
        let last = self.bare().recent(None, 1).await?.pop().map(|letter| letter.entry);
        let (filter, total, now) = (filter.fixed_at(snapshot.now), snapshot.dead, snapshot.now);
        Ok(Selection { filter, last, total, limit: None, now })
    }

    /// Narrows a selection to the oldest of its letters that match, at most this many.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn oldest(self, selection: Selection, most: u64) -> Result<Selection, Error> {
        let selection = Selection { limit: Some(most), ..selection };
        let (mut after, mut found, mut read) = (None, 0, 0);
        loop {
            let page = self.bare().selected(&selection, after).await?;
            let left = usize::try_from(most.saturating_sub(found)).unwrap_or(usize::MAX).max(1);
            if let Some(last) = page.letters.get(left - 1) {
                let total = read + page.reads[..left].iter().sum::<u64>();
                return Ok(Selection { last: Some(last.entry), total, ..selection });
            }
            (found, read) = (found + page.letters.len() as u64, read + page.read);
            after = page.next;
            if after.is_none() {
                return Ok(selection);
            }
        }
    }

    /// Returns a page of the selected letters, from the beginning or after one of them. It may be empty before the last.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn selected(
        self,
        selection: &Selection,
        after: Option<EntryId>,
    ) -> Result<SelectedPage, Error> {
        match selection.search(after) {
            Some(search) => self.search(&search).await,
            None => Ok(SelectedPage::default()),
        }
    }

    /// Returns a page like [`DeadLetters::selected`], of the letters after `after`. It ends with `most` letters that match,
    /// or when letters with about `most_bytes` have been read. It begins with one letter, so few are read in vain.
    pub(crate) async fn next_selected(
        self,
        selection: &Selection,
        after: EntryId,
        (most, most_bytes): (usize, usize),
    ) -> Result<SelectedPage, Error> {
        let Some(search) = selection.search(Some(after)) else { return Ok(SelectedPage::default()) };
        let search = LetterSearch { most, most_bytes, most_read: PAGE, first: 1, ..search };
        self.bare().search(&search).await
    }

    /// Looks through a page of letters, or fewer if enough of them match. The next search begins after the last letter that was
    /// looked at.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::{Filter, LetterSearch};
    ///
    /// let (filter, now) = (Filter::new().job_type("mail.*")?, queue.clock().await?);
    /// let search = LetterSearch::new(&filter, now).newest_first(true).most(10);
    /// let found = queue.dead_letters().search(&search).await?;
    /// println!("{} of {} letters match", found.letters.len(), found.read);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn search(self, search: &LetterSearch<'_>) -> Result<SelectedPage, Error> {
        let dead = self.wanting(search.filter, search.now);
        let mut page = SelectedPage { next: search.after, ..SelectedPage::default() };
        let (mut count, mut bytes) = (search.first, 0_usize);
        loop {
            let read = if search.newest_first {
                dead.recent(page.next, count).await?
            } else {
                dead.later(page.next, count).await?
            };
            bytes += read.iter().map(|letter| letter.fields.size()).sum::<usize>();
            page.next = None;
            for letter in read {
                if search.last.is_some_and(|last| letter.entry > last) {
                    return Ok(SelectedPage { next: None, ..page });
                }
                page.next = Some(letter.entry).filter(|entry| search.last != Some(*entry));
                page.add(letter, search);
                if page.letters.len() >= search.most {
                    return Ok(page);
                }
            }
            if page.next.is_none() || bytes >= search.most_bytes || page.read >= search.most_read {
                return Ok(page);
            }
            // Nobody knows how large the next letters are.
            let usual = bytes / usize::try_from(page.read).unwrap_or(usize::MAX).max(1);
            let fit = (search.most_bytes - bytes) / usual.max(1);
            count = (2 * count).min(PAGE).min(fit as u64).max(1);
        }
    }

    /// Reads all letters of a selection, and changes nothing. `progress` is called with how many letters were read so far.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn plan(
        self,
        selection: &Selection,
        mut progress: impl FnMut(u64),
    ) -> Result<SelectionPlan, Error> {
        let (mut counts, mut after, mut read) = (Counts::default(), None, 0);
        loop {
            let page = self.bare().selected(selection, after).await?;
            page.letters.iter().for_each(|letter| counts.add(letter));
            counts.undecided += page.undecided;
            read += page.read;
            progress(read);
            after = page.next;
            if after.is_none() {
                return Ok(counts.plan());
            }
        }
    }
}

/// The letters of a plan, counted so far.
#[derive(Default)]
struct Counts {
    letters: u64,
    undecided: u64,
    /// By fingerprint; without one, all further groups.
    groups: BTreeMap<Option<String>, DeadGroup>,
}

impl Counts {
    fn add(&mut self, letter: &DeadLetter) {
        self.letters += 1;
        let fingerprint = cut(letter.text("dead_fingerprint"), ERROR_BYTES);
        let is_apart = self.groups.len() < MAX_GROUPS || self.groups.contains_key(&Some(fingerprint.clone()));
        let (fingerprint, died) = (is_apart.then_some(fingerprint), letter.died());
        let group = self.groups.entry(fingerprint.clone()).or_insert_with(|| DeadGroup {
            fingerprint,
            count: 0,
            deaths: 0,
            first: died,
            last: died,
            sample: None,
            job_type: None,
            reason: None,
            error: String::new(),
        });
        (group.count, group.deaths) = (group.count + 1, group.deaths + 1);
        (group.first, group.last) = (group.first.min(died), group.last.max(died));
        group.sample = Some(letter.entry);
        group.error = cut(letter.text("dead_error"), ERROR_BYTES);
        if is_apart {
            group.job_type = letter.text("type").parse().ok();
            group.reason = DeadReason::named(&letter.text("dead_reason"));
        }
    }

    fn plan(self) -> SelectionPlan {
        let mut groups: Vec<DeadGroup> = self.groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        SelectionPlan { letters: self.letters, groups, undecided: self.undecided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Envelope;

    fn letter(nth: u64, fingerprint: &str) -> DeadLetter {
        let fields: [(&[u8], &[u8]); 4] = [
            (b"type", b"mail"),
            (b"dead_reason", b"fatal"),
            (b"dead_error", b"no"),
            (b"dead_fingerprint", fingerprint.as_bytes()),
        ];
        DeadLetter { entry: EntryId::new(nth, 0), fields: Envelope::new(fields.into_iter()) }
    }

    #[test]
    fn a_plan_counts_the_letters_of_each_group() {
        let mut counts = Counts::default();
        for (nth, fingerprint) in ["a", "b", "b"].into_iter().enumerate() {
            counts.add(&letter(nth as u64 + 1, fingerprint));
        }
        let plan = counts.plan();
        let found: Vec<_> =
            plan.groups.iter().map(|group| (group.fingerprint.as_deref(), group.count)).collect();
        assert_eq!((plan.letters, found), (3, vec![(Some("b"), 2), (Some("a"), 1)]));
        let largest = &plan.groups[0];
        assert_eq!(
            (largest.first.as_ms(), largest.last.as_ms(), largest.sample),
            (2, 3, Some(EntryId::new(3, 0)))
        );
        assert_eq!((largest.reason, largest.error.as_str()), (Some(DeadReason::Fatal), "no"));
    }

    #[test]
    fn too_many_groups_are_counted_as_one() {
        let mut counts = Counts::default();
        for nth in 1..=MAX_GROUPS as u64 + 5 {
            counts.add(&letter(nth, &format!("f{nth}")));
        }
        counts.add(&letter(1, "f1"));
        let plan = counts.plan();
        assert_eq!((plan.groups.len(), plan.letters), (MAX_GROUPS + 1, MAX_GROUPS as u64 + 6));
        assert_eq!((plan.groups[0].fingerprint.as_deref(), plan.groups[0].count), (None, 5));
    }
}
