//! A queue's figures at one moment, read without changing it. Nothing walks a stream to count it. See `snapshot.lua`.

use std::collections::BTreeMap;
use std::time::Duration;

use fred::interfaces::StreamsInterface;
use fred::types::{Key, Value};
use futures_util::future::try_join_all;

use crate::client::decode::{self, Entry, timestamp};
use crate::client::error::{Class, Error};
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Lane, Pacing, Timestamp};
use crate::{Consumer, CronStatus, CronTable, Part, Queue, Unread, millis};

scripts! { SNAPSHOT "snapshot" }

/// A queue's figures at one moment.
///
/// [`Queue::snapshot`] returns all of them but those that only the queue's leader surveys. The leader reports all of
/// them as `QueueEvent::Surveyed`.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::job::Lane;
///
/// let snapshot = queue.snapshot().await?;
/// for (lane, figures) in Lane::ALL.into_iter().zip(snapshot.lanes) {
///     println!("{lane}: {} jobs wait, {} run", figures.waiting, figures.running);
/// }
/// for unread in snapshot.uncounted() {
///     eprintln!("{unread}"); // zeros that mean nothing
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The time of the server's clock.
    pub now: Timestamp,
    /// Each lane, in the order of [`Lane::ALL`].
    pub lanes: [LaneSnapshot; 3],
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// Those of them that are due within [`QueueSnapshot::SOON`], or overdue.
    pub due_soon: u64,
    /// When the first of them is due.
    pub next_due: Option<Timestamp>,
    /// Dead letters.
    pub dead: u64,
    /// The oldest of them, if this is a leader's survey.
    pub oldest_dead: Option<EntryId>,
    /// The consumer that leads.
    pub leader: Option<String>,
    /// Jobs that recurring jobs will submit within [`QueueSnapshot::SOON`], or should have submitted; `None` if they
    /// were not counted, or cannot be.
    pub ticks: Option<u64>,
    /// The members of the group, if this is a leader's survey.
    pub members: Option<Members>,
    /// What Redis reports about its memory, if this is a leader's survey and Redis reports it.
    pub memory: Option<RedisMemory>,
    /// Jobs that wait in waiting lists, because a gate does not let them pass.
    pub in_rooms: u64,
    /// Jobs that wait in waiting lists for a worker that knows their type. If there are more than 1000 waiting lists, some of these jobs
    /// are among [`in_rooms`](Self::in_rooms) instead.
    pub in_unknown_rooms: u64,
    /// Jobs that wait in waiting lists for the turn of their value, in a queue that is shared between the values of a field. The same
    /// applies if there are more than 1000 waiting lists.
    pub in_fair_rooms: u64,
    /// The first job of the waiting list of the value with the most such jobs: about the one that has waited there for longest.
    pub oldest_in_fair_rooms: Option<EntryId>,
    /// The first job of the other waiting list that has had jobs for longest: usually the one that has waited longest at gates, or for a
    /// worker that knows its type. If it has come from the waiting list of another gate, this has the time at which it began to wait at
    /// the first one.
    pub oldest_in_rooms: Option<EntryId>,
    /// Gates that somebody has closed, if this is a leader's survey.
    pub gates_closed: u64,
    /// Gates that their breakers have closed, if this is a leader's survey. Those of single values of a field count while jobs
    /// wait for them, except beyond 1000 waiting lists.
    pub breakers_open: u64,
    /// Since when the whole queue is closed, if it is.
    pub closed_since: Option<Timestamp>,
    /// Jobs that had been moved here from other queues, and away, since the last sample. Each of these jobs is among the figures, or is
    /// not, accordingly.
    pub(crate) moved: [u64; 2],
    /// Keys that cannot be read. Their figures are missing: the zeros here mean nothing.
    pub unread: Vec<Unread>,
}

/// The figures of one lane; see the [example](QueueSnapshot).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneSnapshot {
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that a worker holds.
    pub running: u64,
    /// The oldest entry that no worker has taken.
    pub oldest_waiting: Option<EntryId>,
    /// Entries ever added, if known. A leader's survey finds it out.
    pub added: Option<u64>,
    /// The longest silence of an entry that a worker holds, if this is a leader's survey.
    pub silence: Option<Duration>,
}

/// The members of a queue's group, as a [snapshot](QueueSnapshot) counts them. The consumers of claimers come and go,
/// and are not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Members {
    /// Those that have recently read or renewed something in any lane.
    pub live: u64,
    /// Those that have not.
    pub stale: u64,
}

/// What Redis reports about its memory, as a [snapshot](QueueSnapshot) has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisMemory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes allowed; 0 for no limit.
    pub max: u64,
    /// Whether Redis refuses what does not fit, and deletes nothing to make room.
    pub is_eviction_safe: bool,
}

impl QueueSnapshot {
    /// Work that is due within this time counts, because an additional worker takes about as long to start.
    pub const SOON: Duration = Duration::from_secs(60);

    /// Jobs that no worker has taken, over all lanes and waiting lists.
    pub fn waiting(&self) -> u64 {
        self.waiting_in_lanes() + self.in_rooms + self.in_unknown_rooms + self.in_fair_rooms
    }

    pub(crate) fn waiting_in_lanes(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.waiting).sum()
    }

    /// Jobs that a worker holds, over all lanes.
    pub fn running(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.running).sum()
    }

    /// The amount of work now and soon: jobs that wait, run, are due soon, or will be submitted by recurring jobs soon.
    ///
    /// Jobs that wait for a gate do not wait for a worker, so all of them together count as one. Nothing but running jobs counts
    /// while the queue is closed. Otherwise, it is 0 only if there are no jobs and none are due soon, so a fleet that
    /// follows this figure may scale to zero.
    pub fn jobs(&self) -> u64 {
        if self.closed_since.is_some() {
            return self.running();
        }
        let waitlists = self.in_rooms.min(1);
        self.waiting_in_lanes()
            + self.in_unknown_rooms
            + self.in_fair_rooms
            + waitlists
            + self.running()
            + self.due_soon
            + self.ticks.unwrap_or(0)
    }

    /// Keys that cannot be read and whose jobs [`jobs`](Self::jobs) therefore lacks.
    pub fn uncounted(&self) -> impl Iterator<Item = &Unread> {
        self.unread.iter().filter(|unread| match unread.part {
            Part::Delayed | Part::Lane(_) | Part::Cron | Part::Waitlists | Part::Queue => true,
            Part::Dead | Part::Leader | Part::Gates => false,
        })
    }

    /// The oldest waiting entry, of the lanes and of the waiting lists.
    pub fn oldest_entry(&self) -> Option<EntryId> {
        let lanes = self.lanes.iter().filter_map(|lane| lane.oldest_waiting);
        lanes.chain(self.oldest_in_fair_rooms).chain(self.oldest_in_rooms).min()
    }

    /// How long the oldest waiting job has been in its lane, or at gates: in waiting lists, whichever of them.
    pub fn oldest_waiting(&self) -> Option<Duration> {
        self.oldest_entry().map(|entry| self.age(entry))
    }

    /// How long the oldest job that waits for nothing but a worker has been in its stream.
    #[doc(hidden)]
    pub fn oldest_in_lanes(&self) -> Option<Duration> {
        let lanes = self.lanes.iter().filter_map(|lane| lane.oldest_waiting);
        lanes.chain(self.oldest_in_fair_rooms).min().map(|entry| self.age(entry))
    }

    /// The age of the oldest dead letter, if this is a leader's survey.
    pub fn oldest_dead_age(&self) -> Option<Duration> {
        self.oldest_dead.map(|letter| self.age(letter))
    }

    /// By how much the most overdue delayed job is overdue; zero if none is.
    pub fn overdue(&self) -> Duration {
        self.next_due.map(|due| self.now.since(due)).unwrap_or_default()
    }

    /// The longest silence of an entry that a worker holds, over all lanes; zero if this is not a leader's survey.
    pub fn longest_silence(&self) -> Duration {
        self.lanes.iter().filter_map(|lane| lane.silence).max().unwrap_or_default()
    }

    fn age(&self, entry: EntryId) -> Duration {
        self.now.since(timestamp(entry.ms))
    }
}

/// What a snapshot has besides the figures that its script counts. Everything here costs more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras {
    /// The oldest waiting entry of each lane and of two waiting lists, which are read with their whole bodies.
    pub oldest: bool,
    /// The ticks that are due soon: a second script, if the queue has recurring jobs.
    pub ticks: bool,
    /// A leader's survey: pending entries, members, memory, and the oldest dead letter with its whole body. A silence longer than this lease counts as long.
    pub survey: Option<Duration>,
}

/// What the script returns for further commands.
pub(crate) struct Hints {
    /// Where to start reading for the oldest waiting entry of each lane; empty if there is none.
    pub(super) starts: [String; 3],
    /// The waiting list of the value with the most jobs that wait for its turn; empty if there is none.
    longest_waitlist: String,
    /// The other waiting list that has had jobs for longest; empty if there is none.
    lasting_waitlist: String,
    /// False if the queue has no recurring jobs.
    recurs: bool,
}

/// The part of the queue behind each key of the script.
const PARTS: [Part; 10] = [
    Part::Delayed,
    Part::Dead,
    Part::Leader,
    Part::Lane(Lane::High),
    Part::Lane(Lane::Normal),
    Part::Lane(Lane::Low),
    Part::Cron,
    Part::Waitlists,
    Part::Gates,
    Part::Waitlists,
];

impl Queue {
    /// Returns the queue's figures. A key that cannot be read affects only its own.
    ///
    /// This takes one script, whose cost does not depend on the number of jobs, a read of the oldest waiting entry of
    /// each lane and of two waiting lists, and a second script if the queue has recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn snapshot(&self) -> Result<QueueSnapshot, Error> {
        self.snapshot_with(Extras { oldest: true, ticks: true, survey: None }).await
    }

    /// Returns the figures that the script counts, and these.
    #[doc(hidden)]
    pub async fn snapshot_with(&self, extras: Extras) -> Result<QueueSnapshot, Error> {
        let (mut snapshot, hints) = self.count(extras.survey).await?;
        if extras.oldest {
            self.find_oldest(&mut snapshot, &hints).await?;
        }
        if extras.ticks {
            self.find_ticks(&mut snapshot, hints.recurs).await?;
        }
        if extras.survey.is_some() {
            self.survey(&mut snapshot).await?;
        }
        Ok(snapshot)
    }

    /// The snapshot if Redis refuses all of it.
    #[doc(hidden)]
    pub fn unknown_snapshot(&self, why: &str) -> QueueSnapshot {
        let unread = Unread { part: Part::Queue, key: self.keys.pattern(), error: why.to_owned() };
        QueueSnapshot { unread: vec![unread], ..QueueSnapshot::default() }
    }

    pub(crate) async fn count(&self, lease: Option<Duration>) -> Result<(QueueSnapshot, Hints), Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.dead.clone(), self.keys.leader.clone()];
        keys.extend(self.keys.streams().clone());
        keys.extend([self.keys.cron.clone(), self.keys.waitlist_locations.clone(), self.keys.gates.clone()]);
        keys.extend([self.keys.waitlists.clone(), self.keys.counts.clone()]);
        let (soon_ms, lease) = (millis(QueueSnapshot::SOON), lease.map_or_else(|| "".into(), millis));
        let args = Vec::from(args![SNAPSHOT; soon_ms, lease]);
        let answer = self.run(&SNAPSHOT, keys.clone(), args).await?;
        read(answer.status, &answer.rest, &keys).ok_or_else(|| Error::contract("snapshot", answer))
    }

    async fn find_oldest(&self, snapshot: &mut QueueSnapshot, hints: &Hints) -> Result<(), Error> {
        let names = [hints.longest_waitlist.as_str(), &hints.lasting_waitlist];
        let waitlists = names.map(|waitlist| self.keys.waitlist(waitlist));
        let heads = names.map(|waitlist| if waitlist.is_empty() { "" } else { "-" });
        let streams = self.keys.streams().iter().chain(&waitlists);
        let starts = hints.starts.iter().map(String::as_str).chain(heads);
        let sought = streams.zip(starts).map(|(stream, from)| self.first_entry(stream, from));
        let mut found = try_join_all(sought).await?.into_iter();
        for lane in &mut snapshot.lanes {
            lane.oldest_waiting = found.next().flatten().map(|entry| entry.id);
        }
        snapshot.oldest_in_fair_rooms = found.next().flatten().map(|entry| entry.id);
        snapshot.oldest_in_rooms = found.next().flatten().as_ref().map(came_to_waitlists);
        Ok(())
    }

    /// Returns the first entry of a stream from `from` on; nothing if there is nowhere to start. No script
    /// does this: Lua would get the whole body, which may have 8 MiB, and would block Redis three times as long.
    async fn first_entry(&self, stream: &Key, from: &str) -> Result<Option<Entry>, Error> {
        if from.is_empty() {
            return Ok(None);
        }
        let range = (from.to_owned(), "+".to_owned());
        Ok(self.link.xrange(stream, range, 1, Lane::Normal).await?.pop())
    }

    async fn find_ticks(&self, snapshot: &mut QueueSnapshot, recurs: bool) -> Result<(), Error> {
        if !recurs {
            snapshot.ticks = Some(0);
            return Ok(());
        }
        match self.cron().table().await {
            Ok(table) => snapshot.ticks = Some(ticks(&table)),
            Err(error) if error.class() == Some(Class::Configuration) => {
                let key = self.keys.cron_ticks.as_str_lossy().into_owned();
                snapshot.unread.push(Unread { part: Part::Cron, key, error: error.to_string() });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Finds out what no script does: the members, how many entries each lane ever had, and the oldest dead letter.
    async fn survey(&self, snapshot: &mut QueueSnapshot) -> Result<(), Error> {
        let known = snapshot.lanes.map(|lane| lane.added);
        let letters = if snapshot.dead > 0 { "-" } else { "" };
        let (added, members, oldest_dead) = tokio::try_join!(
            try_join_all(Lane::ALL.map(|lane| self.added(lane, known[lane as usize]))),
            self.members(&snapshot.unread),
            self.first_entry(&self.keys.dead, letters),
        )?;
        for (lane, added) in snapshot.lanes.iter_mut().zip(added) {
            lane.added = Some(added);
        }
        snapshot.members = Some(members);
        snapshot.oldest_dead = oldest_dead.map(|letter| letter.id);
        Ok(())
    }

    /// Returns how many entries a lane ever had, if the script has not found out. The stream's own answer includes its
    /// first and last entries, however large, so no script asks for it.
    async fn added(&self, lane: Lane, known: Option<u64>) -> Result<u64, Error> {
        if let Some(known) = known {
            return Ok(known);
        }
        let client = self.link.client();
        let reply = client.xinfo_stream(self.keys.stream(lane).clone(), false, None);
        let reply: Value = match self.link.ask("xinfo", reply).await {
            Err(Error::Refused { detail, .. }) if detail.ends_with("no such key") => return Ok(0),
            reply => reply?,
        };
        let Value::Array(facts) = &reply else { return Err(Error::contract("xinfo", reply)) };
        let mut facts = facts.chunks_exact(2);
        let added = facts.find(|fact| decode::data(&fact[0]) == b"entries-added");
        Ok(added.and_then(|fact| decode::number(&fact[1])).unwrap_or(0))
    }

    /// Counts the members of the group that are live, and those that are not.
    pub(super) async fn members(&self, unread: &[Unread]) -> Result<Members, Error> {
        let lanes = Lane::ALL.into_iter().filter(|lane| !Unread::is_among(Part::Lane(*lane), unread));
        let found: Vec<Vec<Consumer>> = try_join_all(lanes.map(|lane| self.consumers(lane))).await?;
        let mut idle: BTreeMap<String, Duration> = BTreeMap::new();
        for consumer in found.into_iter().flatten().filter(|consumer| !consumer.name.ends_with(".claims")) {
            let least = idle.entry(consumer.name).or_insert(consumer.idle);
            *least = (*least).min(consumer.idle);
        }
        let members = Pacing::of(idle.len() as u64);
        let live = idle.values().filter(|idle| members.counts_as_live(**idle)).count();
        Ok(Members { live: live as u64, stale: (idle.len() - live) as u64 })
    }
}

/// Returns an id with the time at which the job of this entry came to the first of the waiting lists that it has been in. See `drain.lua`.
fn came_to_waitlists(entry: &Entry) -> EntryId {
    let moves = entry.envelope.as_ref().and_then(|fields| fields.get(b"room_moves"));
    let since =
        moves.and_then(|moves| std::str::from_utf8(moves).ok()?.split_once(' ')?.1.parse::<u64>().ok());
    since.map_or(entry.id, |since| entry.id.min(EntryId::new(since, 0)))
}

fn read(now: i64, rest: &[Value], keys: &[Key]) -> Option<(QueueSnapshot, Hints)> {
    let [
        unread,
        delayed,
        due_soon,
        next_due,
        dead,
        leader,
        lanes @ ..,
        recurring,
        used,
        max,
        policy,
        in_rooms,
        closed,
        unserved,
        fair,
        gates_closed,
        breakers_open,
        longest_waitlist,
        lasting_waitlist,
        moved_in,
        moved_out,
    ] = rest
    else {
        return None;
    };
    let [high, normal, low] = [0, 1, 2].map(|at| lane(lanes.get(5 * at..5 * at + 5)?));
    let [(high, high_start), (normal, normal_start), (low, low_start)] = [high?, normal?, low?];
    let memory = decode::number(used).map(|used| RedisMemory {
        used,
        max: decode::number(max).unwrap_or(0),
        is_eviction_safe: decode::text(policy) == "noeviction",
    });
    let (in_unknown_rooms, in_fair_rooms) = (decode::number(unserved)?, decode::number(fair)?);
    let snapshot = QueueSnapshot {
        now: timestamp(now.cast_unsigned()),
        lanes: [high, normal, low],
        delayed: decode::number(delayed)?,
        due_soon: decode::number(due_soon)?,
        next_due: decode::number(next_due).map(timestamp),
        dead: decode::number(dead)?,
        leader: Some(decode::text(leader)).filter(|leader| !leader.is_empty()),
        memory,
        in_rooms: decode::number(in_rooms)?.saturating_sub(in_unknown_rooms + in_fair_rooms),
        in_unknown_rooms,
        in_fair_rooms,
        gates_closed: decode::number(gates_closed)?,
        breakers_open: decode::number(breakers_open)?,
        closed_since: decode::number(closed).map(timestamp),
        moved: [decode::number(moved_in)?, decode::number(moved_out)?],
        unread: Unread::read(unread, &PARTS, keys),
        ..QueueSnapshot::default()
    };
    let starts = [high_start, normal_start, low_start];
    let (longest_waitlist, lasting_waitlist) =
        (decode::text(longest_waitlist), decode::text(lasting_waitlist));
    let hints = Hints { starts, longest_waitlist, lasting_waitlist, recurs: decode::number(recurring)? > 0 };
    Some((snapshot, hints))
}

/// Reads one lane, and where to start reading for its oldest waiting entry.
fn lane(values: &[Value]) -> Option<(LaneSnapshot, String)> {
    let [entries, pending, added, start, silence] = values else { return None };
    let running = decode::number(pending)?;
    let lane = LaneSnapshot {
        // If somebody has deleted entries, more are pending than exist.
        waiting: decode::number(entries)?.saturating_sub(running),
        running,
        oldest_waiting: None,
        added: decode::number(added),
        silence: decode::number(silence).map(Duration::from_millis),
    };
    Some((lane, decode::text(start)))
}

/// How many jobs the recurring jobs will have submitted by the end of this minute.
fn ticks(table: &CronTable) -> u64 {
    let live = table.entries.iter().filter(|status| !status.paused);
    let of = |status: &CronStatus| {
        let entry = status.entry.as_ref().ok()?;
        Some(status.progress.due_within(entry.missed(), entry.schedule(), table.now, QueueSnapshot::SOON))
    };
    live.filter_map(of).sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Envelope;

    #[test]
    fn a_delayed_job_is_overdue_from_its_due_time_on() {
        let overdue = |due: Option<u64>| {
            let (now, next_due) = (timestamp(10_000), due.map(timestamp));
            QueueSnapshot { now, next_due, ..QueueSnapshot::default() }.overdue()
        };
        let want = [Duration::ZERO, Duration::ZERO, Duration::from_secs(3)];
        assert_eq!([None, Some(12_000), Some(7_000)].map(overdue), want);
    }

    #[test]
    fn jobs_in_rooms_need_one_worker_and_a_closed_queue_needs_none() {
        let lane = LaneSnapshot { waiting: 5, running: 2, ..LaneSnapshot::default() };
        let lanes = [lane, LaneSnapshot::default(), LaneSnapshot::default()];
        let open = QueueSnapshot { lanes, in_rooms: 1000, due_soon: 3, ..QueueSnapshot::default() };
        assert_eq!((open.waiting(), open.jobs()), (1005, 11));
        let unknown = QueueSnapshot { in_unknown_rooms: 40, ..open.clone() };
        assert_eq!((unknown.waiting(), unknown.jobs()), (1045, 51), "each needs a worker");
        let shared = QueueSnapshot { in_fair_rooms: 40, ..open.clone() };
        assert_eq!((shared.waiting(), shared.jobs()), (1045, 51), "more workers would help");
        let closed = QueueSnapshot { closed_since: Some(timestamp(1)), ..open };
        assert_eq!((closed.waiting(), closed.jobs()), (1005, 2));
    }

    #[test]
    fn a_job_in_a_waiting_list_may_be_the_oldest_one() {
        let oldest = |lane: Option<u64>, [fair, waitlist]: [Option<u64>; 2]| {
            let entry = |ms: Option<u64>| ms.map(|ms| EntryId::new(ms, 0));
            let lane = LaneSnapshot { oldest_waiting: entry(lane), ..LaneSnapshot::default() };
            let lanes = [LaneSnapshot::default(), lane, LaneSnapshot::default()];
            let (oldest_in_fair_rooms, oldest_in_rooms) = (entry(fair), entry(waitlist));
            let waitlists =
                QueueSnapshot { oldest_in_fair_rooms, oldest_in_rooms, ..QueueSnapshot::default() };
            let snapshot = QueueSnapshot { now: timestamp(10_000), lanes, ..waitlists };
            [snapshot.oldest_waiting(), snapshot.oldest_in_lanes()].map(|age| age.map(|age| age.as_secs()))
        };
        assert_eq!(oldest(Some(9000), [Some(4000), None]), [Some(6), Some(6)]);
        assert_eq!(oldest(Some(9000), [None, Some(2000)]), [Some(8), Some(1)]);
        assert_eq!(oldest(Some(9000), [None; 2]), [Some(1), Some(1)]);
        assert_eq!(oldest(None, [None; 2]), [None, None]);
    }

    #[test]
    fn a_job_that_moved_between_waiting_lists_has_waited_since_it_came_to_the_first() {
        let came = |moves: &[u8]| {
            let envelope = Some(Envelope::new([(b"room_moves".as_slice(), moves)].into_iter()));
            came_to_waitlists(&Entry { id: EntryId::new(9000, 3), lane: Lane::Normal, envelope })
        };
        assert_eq!(came(b"2 4000"), EntryId::new(4000, 0));
        for unknown in [b"2".as_slice(), b"2 9500", b"2 -1", b"x \xff", b""] {
            assert_eq!(came(unknown), EntryId::new(9000, 3), "{unknown:?}");
        }
    }

    #[test]
    fn only_keys_with_work_make_the_number_of_jobs_incomplete() {
        let parts = [Part::Delayed, Part::Dead, Part::Leader, Part::Lane(Lane::Low), Part::Cron, Part::Queue];
        let unread = parts.map(|part| Unread { part, key: String::new(), error: String::new() });
        let snapshot = QueueSnapshot { unread: unread.into(), ..QueueSnapshot::default() };
        let uncounted: Vec<_> = snapshot.uncounted().map(|unread| unread.part).collect();
        assert_eq!(uncounted, [Part::Delayed, Part::Lane(Lane::Low), Part::Cron, Part::Queue]);
    }
}
