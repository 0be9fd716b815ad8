//! Reading dead letters page by page from either end, and the limits on how many stay. `replay` moves and drops them.

use std::time::Duration;

use fred::types::{Key, Value};

use crate::client::error::Error;
use crate::client::link::entries;
use crate::job::filter::{Candidate, Filter, Match};
use crate::job::{EntryId, Envelope, JobId, Lane, Portion, State, Timestamp};
use crate::{Entry, Queue, bytes};

/// The most bytes of the name of a group. The fleet writes no longer ones.
const MAX_GROUP_BYTES: usize = 64;

/// The most bytes of letters that one command reads, roughly.
const PORTION_BYTES: usize = 1024 * 1024;

/// The most bytes of one page, roughly.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A dead letter; see the [example](DeadLetters).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Its entry in the dead stream.
    pub entry: EntryId,
    /// All its fields.
    pub fields: Envelope,
}

/// Which dead letters a queue keeps: by default all of them, for ever. See the [example](DeadLetters::evict).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LetterLimits {
    /// How long a letter stays.
    pub retention: Option<Duration>,
    /// How many letters stay; the oldest go first.
    pub most: Option<u64>,
}

impl LetterLimits {
    setters! {
        /// Sets how long a letter stays; `None` means forever.
        retention: impl Into<Option<Duration>> => retention.into();
        /// Sets how many letters stay, the newest ones: 0 for none, or `None` for all.
        most: impl Into<Option<u64>> => most.into();
    }

    /// True if letters are kept without limit.
    #[doc(hidden)]
    pub fn keep_all(self) -> bool {
        self.retention.is_none() && self.most.is_none()
    }
}

/// The outcome of checking a dead letter against the limits; see the [example](DeadLetters::evict).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// It exceeded the limits, and was deleted.
    Dropped,
    /// It may stay.
    Kept,
    /// It no longer existed.
    Gone,
}

impl DeadLetter {
    /// Creates the letter of an entry of the dead stream.
    #[doc(hidden)]
    pub fn new(entry: EntryId, fields: Envelope) -> Self {
        Self { entry, fields }
    }

    /// Returns a field as text; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
    }

    /// The job's id: `dead_job` for bytes that are not a job, its `id` field for others, or else the letter's own entry.
    pub fn job(&self) -> JobId {
        let named = ["dead_job", "id"].into_iter().find_map(|name| self.text(name).parse().ok());
        named.unwrap_or_else(|| JobId::derived(self.entry, Lane::Normal))
    }

    /// When the job died: `dead_at_ms`, or else the time of the letter's own entry.
    pub fn died(&self) -> Timestamp {
        let told = self.text("dead_at_ms").parse().ok().and_then(Timestamp::from_ms);
        told.or_else(|| Timestamp::from_ms(self.entry.ms)).unwrap_or(Timestamp::MAX)
    }

    /// Returns whether a filter matches the letter. `now` is the server's time. See the [example](Filter).
    pub fn check(&self, filter: &Filter, now: Timestamp) -> Match {
        let job = self.job().to_string();
        let candidate = Candidate::new(&job).state(State::Dead).fields(&self.fields).at(self.died());
        filter.check(&candidate, now)
    }
}

/// Whether a letter's group or fingerprint is one that counts: in letters that somebody wrote by hand, it may be anything.
/// `remove_letter` in `prelude/letters.lua` has the same rule.
pub(crate) fn is_group(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= MAX_GROUP_BYTES && name.iter().all(u8::is_ascii_alphanumeric)
}

/// The dead letters of a queue. [`Queue::dead_letters`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// for letter in queue.dead_letters().page(None, 100).await? {
///     let job = letter.job();
///     println!("{job}: {} ({})", letter.text("dead_reason"), letter.text("type"));
///     if queue.dead_letters().replay(letter.entry, &job).await?.is_done() {
///         println!("{job} runs again");
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct DeadLetters<'a> {
    pub(super) queue: &'a Queue,
    restored: Restoring<'a>,
}

/// Which letters of a page come with their large fields.
#[derive(Clone, Copy)]
enum Restoring<'a> {
    /// All of them.
    All,
    /// Those that a filter may match. The server's time is for conditions about ages.
    Wanted(&'a Filter, Timestamp),
    /// Those about which a filter cannot decide without them.
    Undecided(&'a Filter, Timestamp),
    /// None of them.
    None,
}

impl Queue {
    /// Gives access to the dead letters.
    pub fn dead_letters(&self) -> DeadLetters<'_> {
        DeadLetters { queue: self, restored: Restoring::All }
    }
}

impl<'a> DeadLetters<'a> {
    /// Reads letters for somebody who wants only those that a filter matches. Pages still have all letters, but those
    /// that the filter refuses by their small fields come without their large ones, which are not read. `now` is the server's
    /// time. [`DeadLetter::check`] decides the same about them.
    #[must_use]
    pub fn wanting(self, filter: &'a Filter, now: Timestamp) -> Self {
        let restored = match self.restored {
            Restoring::None => Restoring::Undecided(filter, now),
            Restoring::All | Restoring::Wanted(..) | Restoring::Undecided(..) => {
                Restoring::Wanted(filter, now)
            }
        };
        Self { restored, ..self }
    }

    /// Reads letters without their large fields, for somebody who needs none, or reads them one at a time: to replay or
    /// drop letters, say. A filter still sees the fields about which it has conditions.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { restored: Restoring::None, ..self }
    }
}

impl DeadLetters<'_> {
    /// Returns a page of the dead letters, oldest first, starting at `from`.
    ///
    /// A page has `count` letters, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn page(self, from: Option<EntryId>, count: u64) -> Result<Vec<DeadLetter>, Error> {
        let start = from.map_or_else(|| "-".to_owned(), |entry| entry.to_string());
        self.read_page(start, count, Self::after).await
    }

    /// Returns a page of the dead letters, oldest first, starting after `after`.
    ///
    /// A page has `count` letters, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn later(self, after: Option<EntryId>, count: u64) -> Result<Vec<DeadLetter>, Error> {
        self.read_page(entries::after(after), count, Self::after).await
    }

    /// Returns a page of the dead letters, newest first, starting before `before`.
    ///
    /// A page has `count` letters, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn recent(self, before: Option<EntryId>, count: u64) -> Result<Vec<DeadLetter>, Error> {
        self.read_page(entries::before(before), count, Self::before).await
    }

    /// Reads a page in portions, so that Redis is blocked only briefly however large the letters are. Of a portion, only those
    /// letters are restored for which the page has room.
    async fn read_page<F>(
        self,
        mut from: String,
        count: u64,
        read: impl Fn(Self, String, u64, usize) -> F,
    ) -> Result<Vec<DeadLetter>, Error>
    where
        F: Future<Output = Result<Restored, Error>>,
    {
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let (mut portion, mut page, mut bytes) = (Portion::new(1, most, PORTION_BYTES), Vec::new(), 0);
        while page.len() < most && bytes < PAGE_BYTES {
            let wanted = portion.count().min(most - page.len());
            let Restored { letters: some, is_cut } =
                read(self, from, wanted as u64, PAGE_BYTES - bytes).await?;
            portion.record_sizes(some.iter().map(|letter| letter.fields.size()));
            bytes += some.iter().map(|letter| letter.fields.size()).sum::<usize>();
            let is_last = is_cut || some.len() < wanted;
            page.extend(some);
            let Some(last) = page.last().filter(|_| !is_last) else { break };
            from = format!("({}", last.entry);
        }
        Ok(page)
    }

    async fn before(self, end: String, count: u64, most_bytes: usize) -> Result<Restored, Error> {
        let entries = self.queue.link.xrevrange(&self.queue.keys.dead, end, count, Lane::Normal).await?;
        self.letters(entries, most_bytes).await
    }

    async fn after(self, start: String, count: u64, most_bytes: usize) -> Result<Restored, Error> {
        self.range((start, "+".to_owned()), count, most_bytes).await
    }

    /// Returns one dead letter by its own entry id.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn get(self, entry: EntryId) -> Result<Option<DeadLetter>, Error> {
        let range = (entry.to_string(), entry.to_string());
        Ok(self.range(range, 1, PAGE_BYTES).await?.letters.pop())
    }

    async fn range(self, range: (String, String), count: u64, most_bytes: usize) -> Result<Restored, Error> {
        let entries = self.queue.link.xrange(&self.queue.keys.dead, range, count, Lane::Normal).await?;
        self.letters(entries, most_bytes).await
    }

    /// Restores the first letters of a reply: those for which there is room, in bytes, but at least one.
    async fn letters(self, entries: Vec<Entry>, most_bytes: usize) -> Result<Restored, Error> {
        let letter =
            |entry: Entry| DeadLetter { entry: entry.id, fields: entry.envelope.unwrap_or_default() };
        let mut letters: Vec<DeadLetter> = entries.into_iter().map(letter).collect();
        let size = |letter: &DeadLetter| {
            if self.is_wanted(letter) { restored_size(&letter.fields) } else { letter.fields.size() }
        };
        let fit = fitting(letters.iter().map(size), most_bytes);
        let is_cut = fit < letters.len();
        letters.truncate(fit);
        for letter in &mut letters {
            if !letter.fields.is_whole() && self.is_wanted(letter) {
                self.queue.restore_fields(&self.queue.link, &mut letter.fields).await?;
            }
        }
        Ok(Restored { letters, is_cut })
    }

    /// Returns false if a letter comes without its large fields.
    fn is_wanted(self, letter: &DeadLetter) -> bool {
        match self.restored {
            Restoring::All => true,
            Restoring::Wanted(filter, now) => letter.check(filter, now) != Match::No,
            Restoring::Undecided(filter, now) => {
                matches!(letter.check(filter, now), Match::TooLarge | Match::Unreadable)
            }
            Restoring::None => false,
        }
    }

    /// What it takes to delete a letter; see [`DeadLetters::parts_of`].
    pub(crate) async fn light_parts(self, letter: EntryId) -> Result<(Key, [Value; 2]), Error> {
        let letter = self.queue.link.entry(&self.queue.keys.dead, letter, Lane::Normal).await?;
        Ok(self.parts_of(&letter.and_then(|entry| entry.envelope).unwrap_or_default()))
    }

    /// The key with the offloaded fields of a letter, or if there are none, a key that never exists; then the group and the
    /// fingerprint that the letter names, or ''.
    pub(super) fn parts_of(self, letter: &Envelope) -> (Key, [Value; 2]) {
        let named = |name: &str| letter.get(name.as_bytes()).filter(|value| is_group(value));
        let named = ["dead_group", "dead_fingerprint"].map(|name| bytes(named(name).unwrap_or_default()));
        let offloaded = letter.offloaded();
        let token = offloaded.as_ref().map_or("", |offloaded| &offloaded.token);
        (self.queue.keys.offloaded(token), named)
    }
}

/// Letters with their large fields.
struct Restored {
    letters: Vec<DeadLetter>,
    /// Whether the page has no room for those that follow.
    is_cut: bool,
}

/// How many bytes a letter has with its large fields, as far as it says.
fn restored_size(fields: &Envelope) -> usize {
    fields.size().saturating_add(fields.offloaded().map_or(0, |offloaded| offloaded.bytes))
}

/// Returns how many of the first letters fit into `most_bytes` bytes; at least one.
fn fitting(sizes: impl Iterator<Item = usize>, most_bytes: usize) -> usize {
    let mut bytes = 0_usize;
    let fit = sizes.enumerate().take_while(|(nth, size)| {
        bytes = bytes.saturating_add(*size);
        *nth == 0 || bytes <= most_bytes
    });
    fit.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_restores_only_letters_for_which_it_has_waitlist() {
        const LARGE: usize = 8 * 1024 * 1024;
        assert_eq!(fitting(std::iter::repeat_n(LARGE, 127), PAGE_BYTES), 2);
        assert_eq!(fitting(std::iter::repeat_n(LARGE, 127), 1), 1);
        assert_eq!(fitting([usize::MAX, usize::MAX].into_iter(), 1), 1);
        assert_eq!(fitting(std::iter::repeat_n(100, 127), PAGE_BYTES), 127);
        assert_eq!(fitting(std::iter::empty(), PAGE_BYTES), 0);
    }

    #[test]
    fn a_letter_counts_with_the_bytes_that_it_names() {
        let fields: [(&[u8], &[u8]); 2] = [(b"type", b"mail"), (b"offloaded", b"5-1-00ff 1000")];
        let letter = Envelope::new(fields.into_iter());
        assert_eq!(restored_size(&letter), letter.size() + 1000);
    }
}
