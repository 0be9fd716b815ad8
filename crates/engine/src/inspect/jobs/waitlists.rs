//! Reads the jobs that wait in waiting lists, one by one: first those of the waiting list that has had jobs for longest, and in a waiting
//! list those that came first.

use std::collections::VecDeque;

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::try_join_all;

use super::cursor::{JobCursor, Location, WaitlistTurn};
use super::locations::{MOST, PAGE_BYTES, of_entry};
use super::{FoundJob, JobSearch, Portion};
use crate::client::decode;
use crate::client::error::Error;
use crate::inspect::waitlist_jobs::WaitlistJobs;
use crate::job::EntryId;
use crate::{Entry, Queue};

/// The most waiting lists that one script reads.
const WAITLISTS_EACH: usize = 100;

/// How many scripts read at once, as long as each reads all of its waiting lists to their ends.
const AT_ONCE: usize = 4;

/// How many waiting lists a walk remembers if there are more than twice as many. It lists the others again after these. A waiting list
/// takes about a hundred bytes here, and each list reads all waiting lists, so that short lists would make a walk over a million of them
/// slow.
pub(super) const MAX_WAITLISTS: usize = 200_000;

/// How many waiting lists a walk remembers if only one page of it is read. They have more jobs than a page.
pub(super) const WAITLISTS_OF_PAGE: usize = 1000;

/// About how many waiting lists one command lists.
const SCANNED: i64 = 1000;

/// The waiting lists that a walk has not read to their ends, in the order of their turns.
#[derive(Debug)]
pub(super) struct Waitlists {
    left: VecDeque<Waitlist>,
    /// The last entry that was read of the first of these.
    after: Option<EntryId>,
    /// When the first of the waiting lists that are not listed yet got its jobs, if there are any.
    unlisted: Option<u64>,
    /// How many scripts read at once.
    at_once: usize,
}

#[derive(Debug)]
struct Waitlist {
    turn: WaitlistTurn,
    name: String,
}

impl Waitlists {
    /// Puts waiting lists into the order of their turns. Of those with the time of the waiting list that was begun, leaves out the ones
    /// that were read before it. The table of waiting lists may list one twice.
    fn in_turn(mut listed: Vec<(u64, String)>, unlisted: Option<u64>, from: JobCursor) -> Self {
        listed.sort_unstable();
        listed.dedup();
        let mut left = VecDeque::with_capacity(listed.len());
        for together in listed.chunk_by_mut(|one, other| one.0 == other.0) {
            let (since, of) = (together[0].0, u32::try_from(together.len()).unwrap_or(u32::MAX));
            let begun = from.waitlist.filter(|begun| begun.since == since);
            let first = begun.map_or(0, |begun| begun.nth.saturating_sub(begun.of.saturating_sub(of)));
            for (nth, (_, name)) in (0..).zip(together).skip(first as usize) {
                left.push_back(Waitlist {
                    turn: WaitlistTurn { since, nth, of },
                    name: std::mem::take(name),
                });
            }
        }
        let is_begun = |first: &Waitlist| from.waitlist == Some(first.turn);
        let after = from.after.filter(|_| left.front().is_some_and(is_begun));
        Self { left, after, unlisted, at_once: 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Where the walk goes on; `None` if all waiting lists were read.
    fn cursor(&self) -> Option<JobCursor> {
        let begun = self.left.front().map(|waitlist| (waitlist.turn, self.after));
        // No such turn exists, so the waiting lists of that time are read from the first on.
        let unlisted = || self.unlisted.map(|since| (WaitlistTurn { since, nth: 0, of: 0 }, None));
        let (turn, after) = begun.or_else(unlisted)?;
        Some(JobCursor { location: Location::Waitlists, waitlist: Some(turn), after })
    }

    /// Adds what a script has read to a portion. Returns whether what the next script read follows it without a gap.
    fn pass(&mut self, read: WaitlistJobs, portion: &mut Portion) -> bool {
        let count = read.waitlists.len();
        for (nth, entries) in (1..).zip(read.waitlists) {
            let Some(waitlist) = self.left.front() else { return false };
            portion.unreadable += u64::from(entries.is_none());
            let entries = entries.unwrap_or_default();
            let last = entries.last().map(|entry| entry.id);
            portion.jobs.extend(entries.into_iter().map(|entry| {
                let (job, fields) = of_entry(entry, Location::Waitlists);
                let cursor = JobCursor { waitlist: Some(waitlist.turn), ..job.cursor };
                (FoundJob { waitlist: Some(waitlist.name.clone()), cursor, ..job }, fields)
            }));
            if nth == count && read.has_more {
                self.after = last.or(self.after);
                return false;
            }
            self.left.pop_front();
            self.after = None;
        }
        count == WAITLISTS_EACH
    }
}

/// Leaves out the waiting lists with the last turns if there are too many, but no part of those that got their jobs in the same
/// millisecond. Returns the time from which on waiting lists were left out.
fn shorten(listed: &mut Vec<(u64, String)>, most: usize) -> Option<u64> {
    listed.sort_unstable();
    listed.dedup();
    let (first, since) = (listed.first()?.0, listed.get(most)?.0);
    if first == since {
        return None;
    }
    listed.retain(|waitlist| waitlist.0 < since);
    Some(since)
}

impl Queue {
    /// Lists the waiting lists whose jobs a walk reads from this place on: at most twice this many, unless more got their first jobs in the
    /// same millisecond.
    pub(super) async fn list_waitlists(
        &self,
        search: &JobSearch,
        from: JobCursor,
        most: usize,
    ) -> Result<Waitlists, Error> {
        if let Some(gate) = &search.gate {
            return Ok(Waitlists::in_turn(vec![(0, gate.as_str().to_owned())], None, from));
        }
        let earliest = from.waitlist.map_or(0, |turn| turn.since);
        let (mut listed, mut unlisted, mut cursor) = (Vec::new(), None::<u64>, "0".to_owned());
        loop {
            let (next, page) = self.scan_waitlist_times(cursor).await?;
            let is_wanted = |since: u64| since >= earliest && unlisted.is_none_or(|end| since < end);
            listed.extend(page.into_iter().filter(|waitlist| is_wanted(waitlist.0)));
            if listed.len() > 2 * most {
                unlisted = shorten(&mut listed, most).or(unlisted);
            }
            if next == "0" {
                break;
            }
            cursor = next;
        }
        Ok(Waitlists::in_turn(listed, unlisted, from))
    }

    /// Reads a part of the table of waiting lists: since when each has had jobs, and its name. Returns where the next part begins.
    async fn scan_waitlist_times(&self, cursor: String) -> Result<(String, Vec<(u64, String)>), Error> {
        let (client, key) = (self.link.client(), &self.keys.waitlists);
        let command = CustomCommand::new_static("HSCAN", ClusterHash::FirstKey, false);
        let args: Vec<Value> =
            vec![key.clone().into(), cursor.into(), "COUNT".into(), Value::Integer(SCANNED)];
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        let reply = self.link.ask("hscan", reply).await.map_err(|error| error.of_key(key))?;
        let Value::Array(parts) = reply else { return Err(Error::contract("hscan", reply)) };
        let [next, Value::Array(flat)] = &parts[..] else { return Err(Error::contract("hscan", parts)) };
        let waitlist = |pair: &[Value]| (decode::number(&pair[1]).unwrap_or(0), decode::text(&pair[0]));
        Ok((decode::text(next), flat.chunks_exact(2).map(waitlist).collect()))
    }

    /// Reads the next jobs of waiting lists. No entry in a waiting list is large, because its large fields are elsewhere.
    pub(super) async fn page_waitlists(&self, waitlists: &mut Waitlists) -> Result<Portion, Error> {
        let (mut portion, mut bytes) = (Portion::default(), 0);
        while portion.jobs.len() < MOST && bytes < PAGE_BYTES && !waitlists.is_empty() {
            let (after, at_once) = (waitlists.after, waitlists.at_once);
            let wanted = (MOST - portion.jobs.len()).div_ceil(WAITLISTS_EACH).min(at_once);
            let left: &[Waitlist] = waitlists.left.make_contiguous();
            let reading = left.chunks(WAITLISTS_EACH).take(wanted).enumerate().map(|(nth, some)| {
                let names: Vec<&str> = some.iter().map(|waitlist| waitlist.name.as_str()).collect();
                let after = after.filter(|_| nth == 0);
                async move { self.waitlist_jobs(&names, after).await }
            });
            let found = try_join_all(reading).await?;
            for read in found {
                bytes += read.waitlists.iter().flatten().flatten().map(Entry::size).sum::<usize>();
                let is_whole = waitlists.pass(read, &mut portion);
                waitlists.at_once = if is_whole { AT_ONCE } else { 1 };
                // What another script read behind a gap is read again.
                if !is_whole {
                    break;
                }
            }
        }
        portion.next = waitlists.cursor();
        Ok(portion)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::Lane;

    fn listed(times: &[u64]) -> Vec<(u64, String)> {
        times.iter().enumerate().map(|(nth, since)| (*since, format!("type:{nth:03}"))).collect()
    }

    fn names(waitlists: &Waitlists) -> Vec<&str> {
        waitlists.left.iter().map(|waitlist| waitlist.name.as_str()).collect()
    }

    fn start() -> JobCursor {
        JobCursor::at(Location::Waitlists, None)
    }

    #[test]
    fn the_waiting_lists_that_have_had_jobs_for_longest_come_first() {
        let waitlists = Waitlists::in_turn(listed(&[7, 3, 7, 3, 9]), None, start());
        assert_eq!(names(&waitlists), ["type:001", "type:003", "type:000", "type:002", "type:004"]);
        let again = Waitlists::in_turn([listed(&[7, 3]), listed(&[7, 3])].concat(), None, start());
        assert_eq!(names(&again), ["type:001", "type:000"]);
    }

    #[test]
    fn a_walk_goes_on_in_the_waiting_list_where_it_stopped() {
        let entry = Some(EntryId::new(5, 0));
        let cursor = |since, nth, of| JobCursor {
            location: Location::Waitlists,
            waitlist: Some(WaitlistTurn { since, nth, of }),
            after: entry,
        };
        let waitlists = Waitlists::in_turn(listed(&[7, 7, 9]), None, cursor(7, 1, 2));
        assert_eq!((names(&waitlists), waitlists.after), (vec!["type:001", "type:002"], entry));
        // If one of three is gone, it may have been before the one that was begun. If one has come, its jobs are new.
        for (of, left) in [(3, 3), (1, 2)] {
            let waitlists = Waitlists::in_turn(listed(&[7, 7, 9]), None, cursor(7, 1, of));
            assert_eq!((waitlists.left.len(), waitlists.after), (left, None));
        }
    }

    #[test]
    fn a_walk_stays_in_a_waiting_list_that_may_have_more() {
        let entry = |ms| Entry { id: EntryId::new(ms, 0), lane: Lane::Normal, envelope: None };
        let mut waitlists = Waitlists::in_turn(listed(&[1, 2, 3, 4]), None, start());
        let mut portion = Portion::default();
        let read = vec![Some(vec![entry(5)]), None, Some(vec![entry(6), entry(7)])];
        assert!(!waitlists.pass(WaitlistJobs { waitlists: read, has_more: true }, &mut portion));
        assert_eq!((portion.jobs.len(), portion.unreadable), (3, 1));
        assert_eq!(
            (names(&waitlists), waitlists.after),
            (vec!["type:002", "type:003"], Some(EntryId::new(7, 0)))
        );
        assert!(
            !waitlists
                .pass(WaitlistJobs { waitlists: vec![Some(Vec::new())], has_more: false }, &mut portion)
        );
        assert_eq!((names(&waitlists), waitlists.after), (vec!["type:003"], None));
    }

    #[test]
    fn what_follows_as_many_waiting_lists_as_a_script_reads_has_no_gap() {
        let mut waitlists = Waitlists::in_turn(listed(&[1; WAITLISTS_EACH + 1]), None, start());
        let read = (0..WAITLISTS_EACH).map(|_| Some(Vec::new())).collect();
        assert!(waitlists.pass(WaitlistJobs { waitlists: read, has_more: false }, &mut Portion::default()));
        assert_eq!(waitlists.left.len(), 1);
    }

    proptest! {
        #[test]
        fn waiting_lists_of_one_time_are_listed_together(
            times in proptest::collection::vec(0u64..20, 0..60), most in 1usize..40,
        ) {
            let mut short = listed(&times);
            let unlisted = shorten(&mut short, most);
            let end = unlisted.unwrap_or(u64::MAX);
            let mut want: Vec<_> = listed(&times).into_iter().filter(|waitlist| waitlist.0 < end).collect();
            want.sort_unstable();
            prop_assert_eq!(&short, &want);
            prop_assert!(unlisted.is_none() || !short.is_empty() && short.len() <= most);
        }
    }
}
