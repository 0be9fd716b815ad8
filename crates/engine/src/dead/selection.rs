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
    /// How many letters existed, also those that the filter does not match.
    pub total: u64,
    /// When it was made, by the server's clock.
    pub now: Timestamp,
}

/// A page of the letters of a [`Selection`]; see the [example](DeadLetters::select).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelectedPage {
    /// The letters that match, oldest first.
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
        let last = self.bare().recent(None, 1).await?.pop().map(|letter| letter.entry);
        let snapshot = self.queue.snapshot().await?;
        Ok(Selection { filter: filter.fixed_at(snapshot.now), last, total: snapshot.dead, now: snapshot.now })
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
        let Some(last) = selection.last else { return Ok(SelectedPage::default()) };
        let read = self.wanting(&selection.filter, selection.now).later(after, PAGE).await?;
        let end = read.last().map(|letter| letter.entry).filter(|end| *end < last);
        let mut page = SelectedPage { next: end, ..SelectedPage::default() };
        for letter in read.into_iter().filter(|letter| letter.entry <= last) {
            page.read += 1;
            match letter.check(&selection.filter, selection.now) {
                Match::Yes => page.letters.push(letter),
                Match::No => {}
                Match::TooLarge | Match::Unreadable => page.undecided += 1,
            }
        }
        Ok(page)
    }

    /// Returns a page like [`DeadLetters::selected`], of the letters after `after`. It ends with `most` letters that match,
    /// or when letters with about `most_bytes` have been read. It begins with one letter, so few are read in vain.
    pub(crate) async fn next_selected(
        self,
        selection: &Selection,
        after: EntryId,
        (most, most_bytes): (usize, usize),
    ) -> Result<SelectedPage, Error> {
        let (mut page, mut bytes, mut wanted) = (SelectedPage::default(), 0_usize, 1_u64);
        page.next = Some(after);
        let wanting = self.bare().wanting(&selection.filter, selection.now);
        while let Some(after) = page.next.filter(|_| page.read < PAGE && bytes < most_bytes) {
            let from = EntryId::new(after.ms, after.seq.saturating_add(1));
            let read = wanting.page(Some(from), wanted).await?;
            bytes += read.iter().map(|letter| letter.fields.size()).sum::<usize>();
            page.next = None;
            for letter in read {
                if selection.last.is_none_or(|last| letter.entry > last) {
                    return Ok(SelectedPage { next: None, ..page });
                }
                page.next = Some(letter.entry).filter(|entry| selection.last != Some(*entry));
                page.read += 1;
                match letter.check(&selection.filter, selection.now) {
                    Match::Yes => {
                        page.reads.push(page.read - page.reads.iter().sum::<u64>());
                        page.letters.push(letter);
                    }
                    Match::No => {}
                    Match::TooLarge | Match::Unreadable => page.undecided += 1,
                }
                if page.letters.len() >= most {
                    return Ok(page);
                }
            }
            // Nobody knows how large the next letters are.
            let largest = bytes / usize::try_from(page.read).unwrap_or(1).max(1);
            let fit = most_bytes.saturating_sub(bytes) / largest.max(1);
            wanted = (2 * wanted).min(PAGE - page.read.min(PAGE)).min(fit as u64).max(1);
        }
        Ok(page)
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
            let reason = letter.text("dead_reason");
            group.reason = DeadReason::ALL.into_iter().find(|known| known.as_str() == reason);
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
