//! The groups of dead letters: letters with one fingerprint died of one cause. The scripts that write and delete letters
//! count them, so reading the groups takes no longer if there are a million letters.

use std::collections::BTreeMap;

use fred::types::{Key, Value};

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::letter::{DeadLetters, is_group};
use crate::job::{DeadReason, EntryId, JobId, JobType, Lane, Portion, Timestamp};
use crate::{Entry, bytes};

scripts! { GROUPS "groups", RECOUNT "recount" }

/// About how many groups one script returns.
const GROUPS_PAGE: i64 = 1000;

/// How many letters one script counts. It takes Redis less than a millisecond.
const LETTERS_PAGE: usize = 100;

/// The most bytes of letters that a recount reads at once, roughly.
const PORTION_BYTES: usize = 1024 * 1024;

/// The most bytes of an error that a group keeps as a sample.
const SAMPLE_BYTES: usize = 200;

/// The group that counts what does not fit into the table.
const OTHER: &str = "other";

/// Dead letters with one fingerprint; see the [example](DeadLetters::groups).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadGroup {
    /// The fingerprint, as `dead_fingerprint` of its letters has it. `None` for letters of all the groups that are not
    /// counted apart, because there are too many.
    pub fingerprint: Option<String>,
    /// How many letters it has.
    pub count: u64,
    /// How often its jobs have died since it was last empty, also those whose letters are gone. A recount adds letters to
    /// a group, but no deaths.
    pub deaths: u64,
    /// When its first letter died, of those that it has had since it was last empty.
    pub first: Timestamp,
    /// When its last letter died.
    pub last: Timestamp,
    /// The letter that was the last to die, unless it is gone.
    pub sample: Option<EntryId>,
    /// The type of its jobs; `None` if they were not jobs.
    pub job_type: Option<JobType>,
    /// Why its jobs are dead.
    pub reason: Option<DeadReason>,
    /// The error of the last letter, at most 200 bytes of it.
    pub error: String,
}

/// All groups of dead letters; see the [example](DeadLetters::groups).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadGroups {
    /// The groups; those whose last letter died last come first.
    pub groups: Vec<DeadGroup>,
    /// How many letters exist.
    pub letters: u64,
}

impl DeadGroups {
    /// Returns how many letters no group counts: an older version or somebody wrote them, or the table of the groups was lost.
    pub fn uncounted(&self) -> u64 {
        self.letters.saturating_sub(self.counted())
    }

    /// Returns how many letters the groups count that do not exist: somebody or an older version deleted them.
    pub fn overcounted(&self) -> u64 {
        self.counted().saturating_sub(self.letters)
    }

    fn counted(&self) -> u64 {
        self.groups.iter().map(|group| group.count).fold(0, u64::saturating_add)
    }
}

impl DeadGroup {
    /// Reads what the table says about a group: see `add_to_group` in `prelude/groups.lua`.
    fn read(name: &str, figures: &str) -> Option<Self> {
        let mut parts = figures.splitn(8, ' ');
        let mut part = || parts.next();
        let time = |text: &str| text.parse().ok().and_then(Timestamp::from_ms);
        Some(Self {
            fingerprint: Some(name.to_owned()).filter(|name| name != OTHER),
            count: part()?.parse().ok()?,
            deaths: part()?.parse().ok()?,
            first: time(part()?)?,
            last: time(part()?)?,
            sample: part()?.parse().ok(),
            job_type: part()?.parse().ok(),
            reason: part().and_then(DeadReason::named),
            error: part().unwrap_or_default().to_owned(),
        })
    }
}

impl DeadLetters<'_> {
    /// Returns the groups of the dead letters, at most about 10,000. The letters of further groups are counted as one.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// let dead = queue.dead_letters().groups().await?;
    /// for group in &dead.groups {
    ///     println!("{} died of {}", group.count, group.error);
    /// }
    /// if dead.uncounted() > 0 {
    ///     queue.dead_letters().recount(|_| ()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn groups(self) -> Result<DeadGroups, Error> {
        let own = &self.queue.keys;
        let keys = || {
            [&own.dead, &own.dead_recount, &own.dead_groups, &own.dead_groups_2].map(Clone::clone).to_vec()
        };
        let (mut found, mut cursor, mut table) = (BTreeMap::new(), "0".to_owned(), String::new());
        loop {
            let args = Vec::from(args![GROUPS; cursor = cursor.as_str(), most = GROUPS_PAGE]);
            let answer = self.queue.run(&GROUPS, keys(), args).await?;
            let (Ok(letters), [live, next, Value::Array(page)]) =
                (u64::try_from(answer.status), &answer.rest[..])
            else {
                return Err(Error::contract("groups", answer));
            };
            let live = decode::text(live);
            if live != table && !table.is_empty() {
                (found, cursor, table) = (BTreeMap::new(), "0".to_owned(), live);
                continue;
            }
            for pair in page.chunks_exact(2) {
                let [name, figures] = [&pair[0], &pair[1]].map(decode::text);
                // A page may repeat what an earlier one had.
                found.extend(DeadGroup::read(&name, &figures).map(|group| (name, group)));
            }
            (cursor, table) = (decode::text(next), live);
            if cursor == "0" {
                let mut groups: Vec<DeadGroup> = found.into_values().collect();
                groups.sort_by_key(|group| std::cmp::Reverse(group.last));
                return Ok(DeadGroups { groups, letters });
            }
        }
    }

    /// Counts the letters of all groups again: also letters of older versions, and without letters that somebody deleted by
    /// hand. `progress` is called with the number of letters counted so far.
    ///
    /// Returns how many letters were counted, or `None` if somebody else began a recount meanwhile, which then replaces
    /// this one, or if this one did nothing for ten minutes. The counts stay exact while letters come and go.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Then the counts are as they were before.
    pub async fn recount(self, mut progress: impl FnMut(u64)) -> Result<Option<u64>, Error> {
        // The new counts do not have these letters, and nobody may take them out again.
        self.forget_all_gone().await?;
        let call = format!("{:032x}", rand::random::<u128>());
        let Some(bound) = self.count_page(&call, None, &[]).await?.flatten() else {
            return Err(Error::contract("recount", "no dead letter to count up to"));
        };
        let (mut from, mut counted) = (EntryId::new(0, 0), 0);
        let mut portion = Portion::new(1, LETTERS_PAGE, PORTION_BYTES);
        loop {
            let (range, count) = ((format!("({from}"), bound.to_string()), portion.count() as u64);
            let page = self.queue.link.xrange(&self.queue.keys.dead, range, count, Lane::Normal).await?;
            portion.record_sizes(page.iter().map(Entry::size));
            let Some(goes_on) = self.count_page(&call, Some(from), &page).await? else { return Ok(None) };
            counted += page.len() as u64;
            progress(counted);
            let Some(last) = goes_on else { return Ok(Some(counted)) };
            from = last;
        }
    }

    /// Sends one page of letters to be counted; without `from`, begins. Returns where to continue, or nothing there if all are
    /// counted; `None` if another recount has begun. See `recount.lua`.
    async fn count_page(
        self,
        call: &str,
        from: Option<EntryId>,
        page: &[Entry],
    ) -> Result<Option<Option<EntryId>>, Error> {
        let own = &self.queue.keys;
        let keys: Vec<Key> =
            [&own.dead, &own.dead_recount, &own.dead_gone, &own.dead_groups, &own.dead_groups_2]
                .map(Clone::clone)
                .to_vec();
        let id = |id: Option<EntryId>| Value::from(id.map_or_else(String::new, |id| id.to_string()));
        let to = page.last().map(|letter| letter.id);
        let mut args = Vec::from(args![RECOUNT; call, from = id(from), to = id(to)]);
        page.iter().for_each(|letter| args.extend(figures(letter)));
        let answer = self.queue.run_named(&RECOUNT, keys, args).await?;
        match (answer.status, answer.rest.first().and_then(decode::entry_id)) {
            (0, _) => Ok(None),
            (1, Some(last)) => Ok(Some(Some(last))),
            (2, _) => Ok(Some(None)),
            _ => Err(Error::contract("recount", answer)),
        }
    }
}

/// What `recount` must know about a letter. Anything can be in a letter that somebody wrote by hand.
fn figures(letter: &Entry) -> [Value; 8] {
    let field = |name: &str| letter.envelope.as_ref().and_then(|fields| fields.get(name.as_bytes()));
    let text = |name: &str| field(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let name = |field: &str| text(field).filter(|name| is_group(name.as_bytes()));
    let died = text("dead_at_ms").and_then(|ms| ms.parse().ok()).and_then(Timestamp::from_ms);
    let job_type = text("type").and_then(|name| name.parse::<JobType>().ok());
    let reason =
        DeadReason::ALL.into_iter().find(|reason| field("dead_reason") == Some(reason.as_str().as_bytes()));
    let error = field("dead_error").unwrap_or_default();
    let job = ["dead_job", "id"].into_iter().find_map(|name| text(name)?.parse::<JobId>().ok());
    args![RECOUNT;
        letter = letter.id.to_string(),
        group = name("dead_group").unwrap_or_default(),
        fingerprint = name("dead_fingerprint").unwrap_or_else(|| "none".to_owned()),
        ms = died.map_or(letter.id.ms, Timestamp::as_ms).to_string(),
        job_type = job_type.as_ref().map_or("-", JobType::as_str),
        reason = reason.map_or("-", DeadReason::as_str),
        error_text = bytes(&error[..error.len().min(SAMPLE_BYTES + 1)]),
        id = job.map_or_else(String::new, |job| job.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_group_is_read_as_the_scripts_write_it() {
        let group =
            DeadGroup::read("00ff", "3 4 1700000000000 1700000000500 1700000000500-1 mail fatal no: a b")
                .unwrap();
        assert_eq!((group.count, group.deaths, group.last.as_ms()), (3, 4, 1_700_000_000_500));
        assert_eq!(
            (group.sample, group.reason),
            (Some(EntryId::new(1_700_000_000_500, 1)), Some(DeadReason::Fatal))
        );
        assert_eq!((group.job_type.unwrap().as_str(), group.error.as_str()), ("mail", "no: a b"));
        let other = DeadGroup::read(OTHER, "1 1 0000007 0000007 - - - ").unwrap();
        assert_eq!((other.fingerprint, other.sample, other.job_type, other.reason), (None, None, None, None));
        assert_eq!((other.first.as_ms(), other.error.as_str()), (7, ""));
        assert_eq!(DeadGroup::read("00ff", "x"), None);
    }

    #[test]
    fn letters_that_are_not_counted_or_do_not_exist_are_told() {
        let group = |count: u64| DeadGroup::read("a", &format!("{count} 1 5 5 - - - ")).unwrap();
        let found = |counts: &[u64], letters| {
            let groups = counts.iter().map(|count| group(*count)).collect();
            let dead = DeadGroups { groups, letters };
            (dead.uncounted(), dead.overcounted())
        };
        assert_eq!((found(&[2, 3], 7), found(&[2, 3], 5)), ((2, 0), (0, 0)));
        assert_eq!((found(&[2, 3], 4), found(&[u64::MAX, 3], 4)), ((0, 1), (0, u64::MAX - 4)));
    }

    proptest! {
        #[test]
        fn reading_any_group_never_panics(name in any::<String>(), figures in any::<String>()) {
            let _ignored = DeadGroup::read(&name, &figures).is_some();
        }
    }
}
