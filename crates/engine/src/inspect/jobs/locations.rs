//! Reads the next jobs of a lane, of the delayed set, of the dead letters or of the records, in portions that block Redis only
//! briefly.

use std::time::Duration;

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::{join_all, try_join_all};

use super::cursor::{JobCursor, Location};
use super::tie::Tie;
use super::{FoundJob, Portion};
use crate::client::decode::{self, timestamp};
use crate::client::error::{Class, Error};
use crate::inspect::holdings::{Holdings, PendingEntry};
use crate::inspect::server::scan_page;
use crate::inspect::status::Status;
use crate::job::{self, EntryId, Envelope, JobId, Lane, State, Timestamp};
use crate::{Entry, GROUP, Queue, Upcoming};

/// The most jobs of a portion …
pub(super) const MOST: usize = 500;

/// … and the most bytes, unless a single job has more.
pub(super) const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes that one command reads, roughly.
pub(super) const COMMAND_BYTES: usize = 1024 * 1024;

/// The most entries that are read at once, each by its own id.
const ENTRIES_AT_ONCE: usize = 64;

/// How many records are read at once.
const AT_ONCE: usize = 8;

impl Queue {
    /// Reads entries that workers hold, each by its own id, because others may be between them.
    pub(super) async fn page_held(
        &self,
        lane: Lane,
        after: Option<EntryId>,
        (holdings, size): (&Holdings, &mut job::Portion),
    ) -> Result<Portion, Error> {
        let pending = self.pending(lane, after).await?;
        let is_full = pending.len() == MOST;
        let (mut portion, mut bytes, mut left) = (Portion::default(), 0, &pending[..]);
        while bytes < PAGE_BYTES && !left.is_empty() {
            let (some, rest) = left.split_at(size.count().min(ENTRIES_AT_ONCE).min(left.len()));
            let entries =
                try_join_all(some.iter().map(|held| self.bare_entry(lane, None, held.entry))).await?;
            size.record_sizes(entries.iter().flatten().map(Entry::size));
            for (held, entry) in some.iter().zip(entries) {
                // Settled in the meantime, or deleted by somebody.
                let Some(entry) = entry else { continue };
                bytes += entry.size();
                let holder = holdings.holder(self.name(), lane, held.clone());
                let (job, fields) = of_entry(entry, Location::Held(lane));
                portion.jobs.push((FoundJob { holder: Some(holder), ..job }, fields));
            }
            left = rest;
        }
        let last = pending.len().checked_sub(left.len() + 1).and_then(|last| pending.get(last));
        let last = last.filter(|_| is_full || !left.is_empty());
        portion.next = last.map(|held| JobCursor::at(Location::Held(lane), Some(held.entry)));
        Ok(portion)
    }

    /// Returns which entries workers hold, without reading them.
    pub(super) async fn locations_held(
        &self,
        lane: Lane,
        after: Option<EntryId>,
        holdings: &Holdings,
    ) -> Result<Portion, Error> {
        let pending = self.pending(lane, after).await?;
        let cursor = |entry| JobCursor::at(Location::Held(lane), Some(entry));
        let next = pending.last().map(|held| cursor(held.entry)).filter(|_| pending.len() == MOST);
        let found = |held: PendingEntry| {
            let (entry, cursor) = (held.entry, cursor(held.entry));
            let id = JobId::derived(entry, lane).to_string();
            let holder = Some(holdings.holder(self.name(), lane, held));
            let job = FoundJob::new(id, State::Running, cursor);
            (FoundJob { lane: Some(lane), entry: Some(entry), holder, ..job }, None)
        };
        Ok(Portion { jobs: pending.into_iter().map(found).collect(), next, unreadable: 0 })
    }

    /// Reads the entry of a running job that a search found without reading it ([`only_places`](super::JobSearch::only_places)).
    /// Other jobs come back as they are. `None` if the entry no longer exists: the job has ended since, or moved.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::admin::JobSearch;
    /// use streamfleet::job::State;
    ///
    /// let search = JobSearch::new().states(vec![State::Running]).only_places(true);
    /// for job in queue.find_jobs(&search, None).await?.jobs.into_iter().take(10) {
    ///     let Some(job) = queue.read_found(job).await? else { continue };
    ///     println!("{} has the type {}", job.id, job.job_type);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn read_found(&self, job: FoundJob) -> Result<Option<FoundJob>, Error> {
        let (Location::Held(lane), Some(id)) = (job.cursor.location, job.entry) else { return Ok(Some(job)) };
        let Some(entry) = self.bare_entry(lane, None, id).await? else { return Ok(None) };
        let (read, _fields) = of_entry(entry, Location::Held(lane));
        Ok(Some(FoundJob { holder: job.holder, ..read }))
    }

    /// Returns the pending entries of a lane after this one.
    async fn pending(&self, lane: Lane, after: Option<EntryId>) -> Result<Vec<PendingEntry>, Error> {
        let (client, key) = (self.link.client(), self.keys.stream(lane));
        let command = CustomCommand::new_static("XPENDING", ClusterHash::FirstKey, false);
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let args: Vec<Value> =
            vec![key.clone().into(), GROUP.into(), from.into(), "+".into(), Value::Integer(MOST as i64)];
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        match self.link.ask("xpending", reply).await {
            Ok(Value::Array(items)) => Ok(items.iter().filter_map(pending_entry).collect()),
            Ok(Value::Null) => Ok(Vec::new()),
            Ok(reply) => Err(Error::contract("xpending", reply)),
            Err(error) if error.class() == Some(Class::NoGroup) => Ok(Vec::new()),
            Err(error) => Err(error.of_key(key)),
        }
    }

    /// Reads entries that no worker has taken: those after the last one that was delivered.
    pub(super) async fn page_waiting(
        &self,
        lane: Lane,
        after: Option<EntryId>,
        size: &mut job::Portion,
    ) -> Result<Portion, Error> {
        let mut from = match after {
            Some(after) => format!("({after}"),
            None => {
                let (_, hints) = self.count(None).await?;
                hints.starts[lane as usize].clone()
            }
        };
        let mut portion = Portion::default();
        if from.is_empty() {
            return Ok(portion);
        }
        let mut bytes = 0;
        while portion.jobs.len() < MOST && bytes < PAGE_BYTES {
            let wanted = size.count().min(MOST - portion.jobs.len());
            let (key, range) = (self.keys.stream(lane), (from, "+".to_owned()));
            let entries = self.link.xrange(key, range, wanted as u64, lane).await;
            let entries = entries.map_err(|error| error.of_key(key))?;
            size.record_sizes(entries.iter().map(Entry::size));
            bytes += entries.iter().map(Entry::size).sum::<usize>();
            let last = entries.last().map(|entry| entry.id).filter(|_| entries.len() == wanted);
            portion.jobs.extend(entries.into_iter().map(|entry| of_entry(entry, Location::Waiting(lane))));
            portion.next = last.map(|last| JobCursor::at(Location::Waiting(lane), Some(last)));
            let Some(last) = last else { break };
            from = format!("({last}");
        }
        Ok(portion)
    }

    /// Reads the delayed set, the next due first. `after` packs a [`Tie`].
    pub(super) async fn page_delayed(&self, after: Option<EntryId>) -> Result<Portion, Error> {
        let from = after.map_or(Tie::default(), Tie::unpacked);
        // A priority adds a fraction of a millisecond, so a bound is a whole one, and excluded.
        let (below, above) = (format!("({}", from.ms), format!("({}", from.ms.saturating_add(1)));
        let (page, skip, total, before) = loop {
            let passed = async {
                match after {
                    None => Ok((0, 0)),
                    Some(_) => {
                        tokio::try_join!(self.count_due("-inf", &below), self.count_due(&below[1..], &above))
                    }
                }
            };
            let (total, (before, here)) = tokio::try_join!(self.count_due("-inf", "+inf"), passed)?;
            let skip = before.saturating_add(from.skip(here));
            let page = self.delayed().bare_page(skip, MOST as u64).await?;
            // Jobs that have left since they were counted are no end: those behind them have moved up.
            if !page.is_empty() || skip >= total {
                break (page, skip, total, before);
            }
        };
        let mut ties: Vec<Tie> = Vec::with_capacity(page.len());
        for job in &page {
            let ms = job.due.as_ms();
            let (last, already) = match ties.last() {
                Some(tie) => (tie.ms, u64::from(tie.read)),
                None => (from.ms, skip - before),
            };
            ties.push(Tie::new(ms, if last == ms { already.saturating_add(1) } else { 1 }));
        }
        if let Some(last) = ties.last().copied() {
            let end = format!("({}", last.ms.saturating_add(1));
            Tie::count(&mut ties, self.count_due(&last.ms.to_string(), &end).await?);
        }
        let next = ties.last().map(|tie| tie.packed()).or(after);
        let at = |tie: Tie| JobCursor::at(Location::Delayed, Some(tie.packed()));
        let jobs: Vec<_> = page.into_iter().zip(ties).map(|(job, tie)| of_delayed(job, at(tie))).collect();
        // A page that is not full may end where jobs moved up, because others became due. If it has all that there were, it is
        // the end, even if more jobs arrive there all the time.
        let is_end = jobs.is_empty() || jobs.len() < MOST && skip.saturating_add(jobs.len() as u64) >= total;
        let next = next.map(|next| JobCursor::at(Location::Delayed, Some(next))).filter(|_| !is_end);
        Ok(Portion { jobs, next, unreadable: 0 })
    }

    /// Counts the jobs of the delayed set that are due between these times, as ZCOUNT has them.
    async fn count_due(&self, from: &str, until: &str) -> Result<u64, Error> {
        let (client, key) = (self.link.client(), &self.keys.delayed);
        let command = CustomCommand::new_static("ZCOUNT", ClusterHash::FirstKey, false);
        let args: Vec<Value> = vec![key.clone().into(), from.into(), until.into()];
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        let counted = self.link.ask("zcount", reply).await.map_err(|error| error.of_key(key))?;
        Ok(decode::number(&counted).unwrap_or(0))
    }

    /// Reads dead letters, the oldest first, without their large fields.
    pub(super) async fn page_dead(&self, after: Option<EntryId>) -> Result<Portion, Error> {
        let letters = self.dead_letters().bare().later(after, MOST as u64).await?;
        let cursor = |entry| JobCursor::at(Location::Dead, Some(entry));
        let next = letters.last().map(|letter| cursor(letter.entry));
        let jobs = letters.into_iter().map(|letter| {
            let (id, died, cursor) = (letter.job().to_string(), letter.died(), cursor(letter.entry));
            let job = FoundJob {
                job_type: letter.text("type"),
                lane: letter.text("dead_origin").parse().ok(),
                entry: Some(letter.entry),
                created: number(&letter.fields, "dead_created_ms").map(timestamp),
                attempts: number(&letter.fields, "dead_attempts").unwrap_or(0),
                died: Some(died),
                error: Some(letter.text("dead_error")),
                ..FoundJob::new(id, State::Dead, cursor)
            };
            (job, Some(letter.fields))
        });
        Ok(Portion { jobs: jobs.collect(), next, unreadable: 0 })
    }

    /// Reads the records of jobs that ended well. They are scattered over all keys of the server, so many portions may have none. A
    /// scan can only go on with a whole portion, so `after` also has how many of its records were read before.
    pub(super) async fn page_records(&self, after: Option<EntryId>) -> Result<Portion, Error> {
        let EntryId { ms: scanned, seq: before } = after.unwrap_or(EntryId::new(0, 0));
        let mut keys = Vec::new();
        let next = scan_page(&self.link, &scanned.to_string(), &self.keys.records(), &mut keys).await?;
        let next: u64 = next.parse().map_err(|_| Error::contract("scan", &next))?;
        let cursor = |next, nth| JobCursor::at(Location::Records, Some(EntryId::new(next, nth)));
        let ids = keys.iter().filter_map(|key| self.keys.job_of_record(&key.as_str_lossy()));
        let ids: Vec<(u64, JobId)> =
            (1..).zip(ids).skip(usize::try_from(before).unwrap_or(usize::MAX)).collect();
        let (mut jobs, mut unreadable) = (Vec::new(), 0);
        for some in ids.chunks(AT_ONCE) {
            let found = join_all(some.iter().map(|(_, id)| self.status_without_log(id))).await;
            for ((nth, _), status) in some.iter().zip(found) {
                match status {
                    Err(error) if is_of_another_type(&error) => unreadable += 1,
                    status => {
                        let cursor = cursor(scanned, *nth);
                        jobs.extend(status?.and_then(|status| of_record(status, cursor)));
                    }
                }
            }
        }
        Ok(Portion { jobs, next: Some(cursor(next, 0)).filter(|_| next != 0), unreadable })
    }
}

/// Returns true if a key has another type than the fleet's. That affects the jobs of this key, and no others.
pub(super) fn is_of_another_type(error: &Error) -> bool {
    matches!(error, Error::Refused { detail, .. } if detail.contains("WRONGTYPE"))
}

fn pending_entry(item: &Value) -> Option<PendingEntry> {
    let Value::Array(parts) = item else { return None };
    let [entry, consumer, silent, deliveries] = &parts[..] else { return None };
    Some(PendingEntry {
        entry: decode::entry_id(entry)?,
        consumer: decode::text(consumer),
        silent: Duration::from_millis(decode::number(silent).unwrap_or(0)),
        deliveries: decode::number(deliveries).unwrap_or(0),
    })
}

pub(super) fn of_entry(entry: Entry, location: Location) -> (FoundJob, Option<Envelope>) {
    let state = if matches!(location, Location::Held(_)) { State::Running } else { State::Waiting };
    let cursor = JobCursor::at(location, Some(entry.id));
    let fields = entry.envelope.unwrap_or_default();
    let named = text(&fields, "id").parse::<JobId>().ok();
    let id = named.unwrap_or_else(|| JobId::derived(entry.id, entry.lane));
    let created = number(&fields, "created_ms").unwrap_or(entry.id.ms);
    // Another lane, or a waiting list, may have it for once.
    let own_lane = text(&fields, "lane").parse::<Lane>().ok();
    let job = FoundJob {
        lane: Some(own_lane.unwrap_or(entry.lane)),
        entry: Some(entry.id),
        created: Some(timestamp(created)),
        ..FoundJob::new(id.to_string(), state, cursor)
    };
    (with_fields(job, &fields), Some(fields))
}

fn of_delayed(upcoming: Upcoming, cursor: JobCursor) -> (FoundJob, Option<Envelope>) {
    let (id, due) = (upcoming.id, Some(upcoming.due));
    let Some((lane, fields)) = upcoming.fields else {
        return (FoundJob { due, ..FoundJob::new(id, State::Scheduled, cursor) }, None);
    };
    let created: Option<Timestamp> = number(&fields, "created_ms").map(timestamp);
    let job = FoundJob { lane: Some(lane), due, created, ..FoundJob::new(id, State::Scheduled, cursor) };
    let job = with_fields(job, &fields);
    let state = if job.attempts > 0 { State::Retrying } else { State::Scheduled };
    (FoundJob { state, ..job }, Some(fields))
}

/// Reads the record of a job that ended well; `None` for any other job.
fn of_record(status: Status, cursor: JobCursor) -> Option<(FoundJob, Option<Envelope>)> {
    if !matches!(status.state, State::Done | State::Cancelled) {
        return None;
    }
    let job = FoundJob {
        job_type: status.job_type,
        lane: Some(status.lane),
        created: status.created,
        attempts: status.attempts.len() as u64,
        ended: status.attempts.last().map(|attempt| attempt.ended),
        error: Some(status.error.unwrap_or_default()),
        ..FoundJob::new(status.id.to_string(), status.state, cursor)
    };
    Some((job, None))
}

fn with_fields(job: FoundJob, fields: &Envelope) -> FoundJob {
    let count = |name: &str| number(fields, name).unwrap_or(0);
    FoundJob {
        job_type: text(fields, "type"),
        attempts: count("attempt").saturating_add(count("lost")),
        ..job
    }
}

fn text(fields: &Envelope, name: &str) -> String {
    String::from_utf8_lossy(fields.get(name.as_bytes()).unwrap_or_default()).into_owned()
}

fn number(fields: &Envelope, name: &str) -> Option<u64> {
    text(fields, name).parse().ok()
}
