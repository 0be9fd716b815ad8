//! Sharing a queue between the values of a field: a flood of one value waits in the waiting lists of that value, and all values have
//! their turns.

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope, Lane, Portion, weight};
use crate::{Entry, Queue, bytes};

scripts! { SHARE "share" }

/// The most jobs that one script sorts and lets out, with about ten commands for each, …
const MAX_MOVED: usize = 100;

/// … and the most that they weigh, roughly.
const MAX_WEIGHT: usize = 256 * 1024;

/// How many entries the first command of a look reads, …
const FIRST_AT_ONCE: usize = 8;

/// … and the most that one reads. Nobody knows how large the next ones are. This many of 8 MiB are a reply that Redis still
/// sends; beyond a `client-output-buffer-limit` of 256 MB, it would end the connection.
const MAX_AT_ONCE: usize = 24;

/// After this many bytes of entries, no more are looked at.
const MAX_LOOKED_BYTES: usize = 1024 * 1024;

/// An entry with more fields than this stays in its lane, as a large one does.
const MAX_FIELDS: usize = 950;

/// The result of one `share`.
#[derive(Debug, Clone)]
pub struct Shared {
    /// How many jobs moved to waiting lists.
    pub held_back: u64,
    /// How many left them.
    pub left: u64,
    /// Whether more may move at once.
    pub more: bool,
    /// Whether jobs wait for their turn.
    pub has_waitlists: bool,
    /// Why some of it was not done: a key of another type, or a full server.
    pub failed: Option<Error>,
}

/// What one call has seen of a lane, and lets the script read.
#[derive(Debug, Default)]
struct Seen {
    /// After which entry it looked, as the script told it.
    mark: String,
    /// The last entry that it saw.
    last: Option<EntryId>,
    /// Whether there may be more.
    has_more: bool,
    /// The first and the last entry of each run of entries that the script may read.
    runs: Vec<[EntryId; 2]>,
    is_in_run: bool,
}

/// How much the script may still read.
struct Allowance {
    jobs: usize,
    weight: usize,
    bytes: usize,
}

impl Allowance {
    /// What each of this many lanes gets.
    fn shared_by(lanes: usize) -> Self {
        Self { jobs: MAX_MOVED / lanes, weight: MAX_WEIGHT / lanes, bytes: MAX_LOOKED_BYTES / lanes }
    }

    fn is_spent(&self) -> bool {
        self.jobs == 0 || self.weight == 0 || self.bytes == 0
    }
}

impl Seen {
    /// Notes an entry of this size. Returns false if the script must read it another time.
    fn note(&mut self, entry: EntryId, (size, count): (usize, usize), left: &mut Allowance) -> bool {
        left.bytes = left.bytes.saturating_sub(size);
        if size > Envelope::LARGE_BYTES || count > MAX_FIELDS {
            (self.last, self.is_in_run) = (Some(entry), false);
            return true;
        }
        if left.jobs == 0 || left.weight == 0 {
            return false;
        }
        left.jobs -= 1;
        left.weight = left.weight.saturating_sub(weight(size, count));
        match self.runs.last_mut().filter(|_| self.is_in_run) {
            Some([_, last]) => *last = entry,
            None => self.runs.push([entry; 2]),
        }
        (self.last, self.is_in_run) = (Some(entry), true);
        true
    }

    fn args(&self) -> impl Iterator<Item = Value> {
        let last = self.last.map_or_else(String::new, |last| last.to_string());
        let count = i64::try_from(2 * self.runs.len()).unwrap_or(i64::MAX);
        let (mark, has_more) = (self.mark.as_str(), i64::from(self.has_more));
        let head = args![SHARE; mark, to = last, has_more, count];
        head.into_iter().chain(self.runs.iter().flatten().map(|entry| Value::from(entry.to_string())))
    }
}

impl Queue {
    /// Sorts the jobs of lanes in which more than `window` wait, and lets others out of waiting lists in their turns. Without a window,
    /// only empties waiting lists of a queue that is not shared any more. `names` are waiting lists that are known to have jobs. See
    /// `share.lua`.
    #[doc(hidden)]
    pub async fn share(&self, window: Option<usize>, names: &[String]) -> Result<Shared, Error> {
        let (first, marks) = self.share_seen(window, names, &Default::default()).await?;
        if marks.iter().all(String::is_empty) {
            return Ok(first);
        }
        let seen = self.look(marks).await?;
        let (next, _) = self.share_seen(window, names, &seen).await?;
        let (held_back, left) = (first.held_back + next.held_back, first.left + next.left);
        Ok(Shared { held_back, left, failed: first.failed.or(next.failed), ..next })
    }

    /// Runs the script. Also returns for each lane nothing, or a mark that begins with the entry after which to look.
    async fn share_seen(
        &self,
        window: Option<usize>,
        names: &[String],
        seen: &[Seen; 3],
    ) -> Result<(Shared, [String; 3]), Error> {
        let own = &self.keys;
        let shared = [&own.gates, &own.waitlists, &own.waitlist_locations, &own.dead, &own.fair];
        let rings = Lane::ALL.map(|lane| own.ring(lane));
        let keys = shared.into_iter().chain(own.streams()).chain(&rings).cloned().collect();
        let window = window.map_or_else(|| "".into(), |jobs| Value::Integer(jobs as i64));
        let (most, most_weight) = (MAX_MOVED as i64, MAX_WEIGHT as i64);
        let mut args = Vec::from(args![SHARE; window, most, most_weight]);
        args.extend(seen.iter().flat_map(Seen::args));
        args.extend(names.iter().map(|name| bytes(name.as_bytes())));
        let answer = self.run(&SHARE, keys, args).await?;
        let (Ok(held_back), [left, more, has_waitlists, failed, marks @ ..]) =
            (u64::try_from(answer.status), &answer.rest[..])
        else {
            return Err(Error::contract("share", answer));
        };
        let [high, normal, low] = marks else { return Err(Error::contract("share", answer)) };
        let failed = Some(decode::text(failed)).filter(|failed| !failed.is_empty());
        let shared = Shared {
            held_back,
            left: decode::number(left).unwrap_or(0),
            more: decode::number(more) == Some(1),
            has_waitlists: decode::number(has_waitlists) == Some(1),
            failed: failed.map(|failed| self.name_keys(Error::refused("share", failed))),
        };
        Ok((shared, [high, normal, low].map(decode::text)))
    }

    /// Looks at what has come to lanes after these marks. Redis copies no entry to Lua for that.
    async fn look(&self, marks: [String; 3]) -> Result<[Seen; 3], Error> {
        let lanes = marks.iter().filter(|mark| !mark.is_empty()).count().max(1);
        let mut seen: [Seen; 3] = Default::default();
        for ((lane, mark), seen) in Lane::ALL.into_iter().zip(marks).zip(&mut seen) {
            if !mark.is_empty() {
                *seen = self.look_after(lane, mark, Allowance::shared_by(lanes)).await?;
            }
        }
        Ok(seen)
    }

    async fn look_after(&self, lane: Lane, mark: String, mut left: Allowance) -> Result<Seen, Error> {
        let mut portion = Portion::new(FIRST_AT_ONCE, MAX_AT_ONCE, MAX_WEIGHT);
        let mut from = mark.split(' ').next().unwrap_or_default().to_owned();
        let mut seen = Seen { mark, has_more: true, ..Seen::default() };
        while !left.is_spent() {
            let (range, count) = ((format!("({from}"), "+".to_owned()), portion.count());
            let page = self.link.xrange(self.keys.stream(lane), range, count as u64, lane).await?;
            for entry in &page {
                let count = entry.envelope.as_ref().map_or(0, Envelope::len);
                if !seen.note(entry.id, (entry.size(), count), &mut left) {
                    return Ok(seen);
                }
            }
            portion.record_sizes(page.iter().map(Entry::size));
            let Some(last) = page.last().filter(|_| page.len() == count) else {
                seen.has_more = false;
                break;
            };
            from = last.id.to_string();
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A script reads the small entries that its caller has seen, each once, and no others.
        #[test]
        fn a_script_may_read_few_small_entries(
            sizes in prop::collection::vec((0_usize..200_000, 1_usize..1_100), 0..400),
            lanes in 1_usize..=3,
        ) {
            let (mut seen, mut left) = (Seen::default(), Allowance::shared_by(lanes));
            let entry = |nth: usize| EntryId::new(nth as u64 + 1, 0);
            let noted = sizes.iter().enumerate().take_while(|(nth, size)| seen.note(entry(*nth), **size, &mut left)).count();
            prop_assert_eq!(seen.last, noted.checked_sub(1).map(entry));
            let is_small = |(size, fields): (usize, usize)| size <= Envelope::LARGE_BYTES && fields <= MAX_FIELDS;
            let may_read = |nth: usize| seen.runs.iter().any(|[first, last]| (*first..=*last).contains(&entry(nth)));
            for (nth, size) in sizes.iter().enumerate() {
                prop_assert_eq!(may_read(nth), nth < noted && is_small(*size));
            }
            let read = sizes.iter().take(noted).filter(|size| is_small(**size));
            let (jobs, sum) = read.fold((0, 0), |(jobs, sum), (size, fields)| (jobs + 1, sum + weight(*size, *fields)));
            prop_assert!(jobs <= MAX_MOVED / lanes && sum < MAX_WEIGHT / lanes + weight(Envelope::LARGE_BYTES, MAX_FIELDS) + 1);
            prop_assert_eq!(seen.args().count(), 4 + 2 * seen.runs.len());
        }
    }
}
