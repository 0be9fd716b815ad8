//! The recurring jobs of a queue. One hash holds the entries, another one their progress. What is due when is decided
//! elsewhere; this module reads and stores it, and submits the jobs. Each step is a script that compares the state that
//! was read.

use fred::interfaces::HashesInterface;
use fred::types::Value;
use futures_util::future::try_join_all;

use crate::client::decode::{self, timestamp};
use crate::client::error::{Class, Error};
use crate::client::script::{args, scripts};
use crate::cron::{Entry, Invalid, Progress};
use crate::job::{CronName, JobId, Lane, Pacing, Timestamp};
use crate::submit::enqueue::{ENQUEUE, enqueue_head};
use crate::{NotAccepted, Queue, bytes};

scripts! { AGENDA "agenda", CRON_MOVE "cron_move", CRON_PAUSE "cron_pause", CRON_PUT "cron_put", CRON_REMOVE "cron_remove", TICK "tick" }

/// The most recurring jobs of a queue. [`Cron::put`] stores no more.
pub const MAX_ENTRIES: usize = 1000;

/// The most bytes of entries that one script reads; the others are read one by one.
const ENTRY_BYTES: i64 = 512 * 1024;

/// How often a change is tried if others keep changing the same entry.
const TRIES: usize = 20;

/// The end of a state while the entry is paused.
const PAUSED: &str = " paused";

/// The progress of one entry, as it is stored in Redis: `<last tick in ms> <generation>`, more words of [`Progress`],
/// and ` paused` if it is paused. The generation is the revision in which the entry was last changed. A caller that
/// changes an entry names the state that it read. So nothing is done twice, and nothing is done for an entry that has
/// changed in the meantime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronState {
    text: String,
}

impl CronState {
    /// The time up to which ticks have been handled.
    pub fn handled(&self) -> Timestamp {
        timestamp(self.text.split(' ').next().and_then(|ms| ms.parse().ok()).unwrap_or(0))
    }

    /// The progress of the entry.
    pub fn progress(&self) -> Progress {
        Progress::read(self.handled(), self.words())
    }

    /// The words after the generation.
    fn words(&self) -> &str {
        let generation = self.text.find(' ').map_or("", |at| &self.text[at + 1..]);
        generation.find(' ').map_or("", |at| &generation[at..])
    }

    /// True if no tick is to be submitted.
    pub fn is_paused(&self) -> bool {
        self.text.ends_with(PAUSED)
    }

    /// The state once the entry has progressed this far.
    pub fn moved(&self, progress: &Progress) -> Self {
        let generation = self.text.split(' ').nth(1).unwrap_or("0");
        let (handled, words) = (progress.handled().as_ms(), progress.words());
        let mark = if self.is_paused() { PAUSED } else { "" };
        Self { text: format!("{handled} {generation}{words}{mark}") }
    }
}

/// The result of one read of the recurring jobs.
#[derive(Debug)]
pub struct Agenda {
    pub now: Timestamp,
    /// Grows with every change of an entry.
    pub revision: u64,
    /// How many consumers have been active in the last seconds.
    pub live: u64,
    /// The states of all entries, or of those that were asked for.
    pub states: Vec<(CronName, CronState)>,
    /// All entries; `None` if nothing has changed since the revision that was named.
    pub entries: Option<Vec<(CronName, Result<Entry, Invalid>)>>,
}

impl Agenda {
    fn state_of(&self, name: &CronName) -> Option<&CronState> {
        self.states.iter().find(|(known, _)| known == name).map(|(_, state)| state)
    }
}

/// The recurring jobs of a queue; see the [example](Cron).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CronTable {
    /// When the table was read.
    pub now: Timestamp,
    /// All of them, by name.
    pub entries: Vec<CronStatus>,
}

/// One recurring job and its progress; see the [example](Cron).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CronStatus {
    /// Its name.
    pub name: CronName,
    /// Its definition, or why this program cannot read it.
    pub entry: Result<Entry, Invalid>,
    /// The time up to which ticks have been handled; at first, the time when it was added.
    pub handled: Timestamp,
    /// True if no tick is to be submitted.
    pub paused: bool,
    #[doc(hidden)]
    pub progress: Progress,
}

impl CronStatus {
    /// Returns the first tick up to `now` that nobody has handled; `None` if the entry is paused, or if this program cannot read
    /// it.
    pub fn overdue(&self, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entry.as_ref().ok().filter(|_| !self.paused)?;
        self.progress.first_unhandled(entry.schedule()).filter(|tick| *tick <= now)
    }
}

variants! {
    /// The outcome of storing an entry; see the [example](Cron).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Kept: Display {
        /// It is new.
        Added = "added",
        /// It replaced another entry of the same name.
        Replaced = "replaced",
        /// An equal entry was already stored.
        Unchanged = "unchanged",
        /// It was not stored: another entry has this name.
        Taken = "taken",
        /// It was not stored: there are already [`MAX_ENTRIES`].
        TooMany = "too many",
    }
}

/// The recurring jobs of a queue. [`Queue::cron`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use streamfleet::admin::Kept;
/// use streamfleet::cron::{Entry, Schedule};
///
/// let schedule = Schedule::new("0 3 * * *", "Europe/Berlin")?;
/// let nightly = Entry::new("report.nightly", schedule, "report.generate")?;
/// if queue.cron().put(&nightly).await? == Kept::TooMany {
///     eprintln!("the queue has too many recurring jobs");
/// }
/// queue.cron().pause(nightly.name()).await?; // until `resume`
/// for job in queue.cron().table().await?.entries {
///     println!("{}{}", job.name, if job.paused { " is paused" } else { "" });
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy)]
pub struct Cron<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Gives access to the recurring jobs.
    pub fn cron(&self) -> Cron<'_> {
        Cron { queue: self }
    }
}

impl Cron<'_> {
    /// Returns the recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn table(self) -> Result<CronTable, Error> {
        let mut agenda = self.agenda(None, &[]).await?;
        let mut found = agenda.entries.take().unwrap_or_default();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let status = |(name, entry): (CronName, _)| {
            let state = agenda.state_of(&name);
            CronStatus {
                handled: state.map_or(timestamp(0), CronState::handled),
                paused: state.is_some_and(CronState::is_paused),
                progress: state.map_or_else(|| Progress::begun(timestamp(0)), CronState::progress),
                name,
                entry,
            }
        };
        Ok(CronTable { now: agenda.now, entries: found.into_iter().map(status).collect() })
    }

    /// Stores a recurring job if its name is new. See [`Cron::put`].
    ///
    /// # Errors
    ///
    /// The errors of [`Cron::put`].
    pub async fn add(self, entry: &Entry) -> Result<Kept, Error> {
        self.store(entry, false).await
    }

    /// Stores a recurring job, and replaces an existing one of the same name.
    ///
    /// It begins now; if only something other than its schedule changes, it continues from its current position. A
    /// paused entry stays paused. The entry's own queue is ignored.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe.
    pub async fn put(self, entry: &Entry) -> Result<Kept, Error> {
        self.store(entry, true).await
    }

    async fn store(self, entry: &Entry, replaces: bool) -> Result<Kept, Error> {
        for _ in 0..TRIES {
            let agenda = self.agenda(None, &[]).await?;
            let found = agenda.entries.iter().flatten().find(|(name, _)| name == entry.name());
            let old = found.and_then(|(_, entry)| entry.as_ref().ok());
            let state = agenda.state_of(entry.name());
            if state.is_some() && old == Some(entry) {
                return Ok(Kept::Unchanged);
            }
            if found.is_some() && !replaces {
                return Ok(Kept::Taken);
            }
            if let Some(kept) = self.replace(entry, old.zip(state), state).await? {
                return Ok(kept);
            }
        }
        Err(Error::contract("cron_put", "another state at every attempt"))
    }

    /// Stores an entry if its state is still the one that was read; otherwise `None`.
    #[doc(hidden)]
    pub async fn replace(
        self,
        entry: &Entry,
        old: Option<(&Entry, &CronState)>,
        state: Option<&CronState>,
    ) -> Result<Option<Kept>, Error> {
        let same = old.filter(|(old, _)| old.schedule() == entry.schedule());
        let handled = same.map_or_else(String::new, |(_, state)| state.handled().as_ms().to_string());
        // Jobs that were submitted stay submitted.
        let mark = match (same, state) {
            (Some((_, state)), _) => state.words(),
            (None, Some(state)) if state.is_paused() => PAUSED,
            (None, _) => "",
        };
        let args = Vec::from(args![CRON_PUT;
            name = entry.name().as_str(),
            read = state.map_or("", |state| state.text.as_str()),
            pack = Value::Bytes(entry.pack().into()),
            handled_ms = handled,
            ending = mark,
            most = MAX_ENTRIES as i64,
        ]);
        let keys = vec![self.queue.keys.cron.clone(), self.queue.keys.cron_ticks.clone()];
        Ok(match self.queue.run(&CRON_PUT, keys, args).await?.status {
            1 => Some(if state.is_some() { Kept::Replaced } else { Kept::Added }),
            2 => Some(Kept::TooMany),
            _ => None,
        })
    }

    /// Deletes a recurring job; false if none has this name. Its jobs stay.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe.
    pub async fn remove(self, name: &CronName) -> Result<bool, Error> {
        let keys = vec![self.queue.keys.cron.clone(), self.queue.keys.cron_ticks.clone()];
        let args = args![CRON_REMOVE; name = name.as_str()];
        Ok(self.queue.run(&CRON_REMOVE, keys, args.into()).await?.status == 1)
    }

    /// Pauses a recurring job: no tick is submitted until it is resumed. `None` if none has this name, false if it was
    /// already paused.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe.
    pub async fn pause(self, name: &CronName) -> Result<Option<bool>, Error> {
        self.set_paused(name, PAUSED).await
    }

    /// Resumes a paused recurring job from now on. Ticks that were due during the pause are not submitted; those that were due
    /// before it, and that nobody had handled, are due or missed as if there had been no pause. `None` if none has this name,
    /// false if it was not paused.
    ///
    /// # Errors
    ///
    /// The errors of [`Cron::pause`].
    pub async fn resume(self, name: &CronName) -> Result<Option<bool>, Error> {
        self.set_paused(name, "").await
    }

    async fn set_paused(self, name: &CronName, mark: &str) -> Result<Option<bool>, Error> {
        let args = Vec::from(args![CRON_PAUSE; name = name.as_str(), paused = mark]);
        let answer = self.queue.run(&CRON_PAUSE, vec![self.queue.keys.cron_ticks.clone()], args).await?;
        Ok((answer.status != 2).then_some(answer.status == 1))
    }

    /// Submits one job of a recurring job now, regardless of its schedule and of a pause. `None` if there is none of
    /// this name that this program can read.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if the answer was lost: the job may have been submitted.
    pub async fn run(self, name: &CronName) -> Result<Option<JobId>, Error> {
        let table = self.table().await?;
        let found = table.entries.into_iter().find(|status| status.name == *name);
        let Some(entry) = found.and_then(|status| status.entry.ok()) else { return Ok(None) };
        let id = entry.extra_id(rand::random());
        let mut args = enqueue_head(None, 1, None);
        args.extend([entry.lane().as_str().into(), Value::Integer(1)]);
        job_args(&mut args, &entry, &id, table.now);
        let answer = self.queue.run(&ENQUEUE, self.queue.enqueue_keys(), args).await?;
        NotAccepted::check("enqueue", answer)?;
        Ok(Some(id))
    }

    /// Reads the recurring jobs: all of them or, if nothing has changed since `known`, the states of `names`.
    #[doc(hidden)]
    pub async fn agenda(self, known: Option<u64>, names: &[CronName]) -> Result<Agenda, Error> {
        let keys = vec![self.queue.keys.cron.clone(), self.queue.keys.cron_ticks.clone()];
        let revision = known.map_or_else(String::new, |known| known.to_string());
        let args = args![AGENDA; known = revision, most_bytes = ENTRY_BYTES].into_iter();
        let args = args.chain(names.iter().map(|name| name.as_str().into())).collect();
        let (answer, live) = tokio::try_join!(self.queue.run(&AGENDA, keys, args), self.live_members())?;
        let [revision, Value::Array(states), Value::Array(entries)] = &answer.rest[..] else {
            return Err(Error::contract("agenda", answer));
        };
        let revision = decode::number(revision).unwrap_or(0);
        let state = |pair: &[Value]| {
            let text = decode::text(&pair[1]);
            let named = decode::text(&pair[0]).parse().ok().filter(|_| !text.is_empty());
            named.map(|name| (name, CronState { text }))
        };
        // The queue's own fields in these hashes have names that no entry can have.
        let entry = async |pair: &[Value]| {
            let name: Option<CronName> = decode::text(&pair[0]).parse().ok();
            let Some(name) = name else { return Ok(None) };
            // An entry that changes between the two reads gets another revision, and whatever is done for it compares
            // that.
            let packed = if pair[1].is_null() { self.entry(&name).await? } else { pair[1].clone() };
            Ok::<_, Error>(Some((
                name.clone(),
                Entry::unpack(name, self.queue.name.clone(), decode::data(&packed)),
            )))
        };
        let read = try_join_all(entries.chunks_exact(2).map(entry)).await?;
        Ok(Agenda {
            now: timestamp(answer.status.cast_unsigned()),
            revision,
            live,
            states: states.chunks_exact(2).filter_map(state).collect(),
            entries: (known != Some(revision)).then(|| read.into_iter().flatten().collect()),
        })
    }

    async fn entry(self, name: &CronName) -> Result<Value, Error> {
        let client = self.queue.link.client();
        self.queue.link.ask("hget", client.hget(self.queue.keys.cron.clone(), name.as_str())).await
    }

    /// How many members of the group have been active recently; zero if that cannot be read.
    async fn live_members(self) -> Result<u64, Error> {
        match self.queue.consumers(Lane::Normal).await {
            Ok(consumers) => {
                let members = Pacing::of(consumers.len() as u64);
                Ok(consumers.iter().filter(|consumer| members.counts_as_live(consumer.idle)).count() as u64)
            }
            Err(error) if error.class() == Some(Class::Configuration) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Submits the jobs of these ticks and moves the entry's state that far, in one step. Returns false, without doing
    /// anything, if the state is not the one that was read. The same call, sent again within
    /// [`RESEND_WITHIN`](crate::RESEND_WITHIN), gets the same answer.
    #[doc(hidden)]
    pub async fn tick(
        self,
        call: &str,
        entry: &Entry,
        (state, next): (&CronState, &CronState),
        ticks: &[Timestamp],
    ) -> Result<bool, Error> {
        let (name, read, moved) = (entry.name().as_str(), state.text.as_str(), next.text.as_str());
        let mut args = Vec::from(args![TICK; name, read, moved]);
        for tick in ticks {
            job_args(&mut args, entry, &entry.job_id(*tick), *tick);
        }
        let own = &self.queue.keys;
        let keys = vec![own.cron_ticks.clone(), own.stream(entry.lane()).clone(), own.receipt(call)];
        Ok(self.queue.run(&TICK, keys, args).await?.status == 1)
    }

    /// Moves an entry's state, so that every process reads it again; false if it is not the one that was read.
    #[doc(hidden)]
    pub async fn advance(
        self,
        name: &CronName,
        (state, next): (&CronState, &CronState),
    ) -> Result<bool, Error> {
        let (name, read, moved) = (name.as_str(), state.text.as_str(), next.text.as_str());
        let args = Vec::from(args![CRON_MOVE; name, read, moved]);
        Ok(self.queue.run(&CRON_MOVE, vec![self.queue.keys.cron_ticks.clone()], args).await?.status == 1)
    }
}

/// Appends the arguments of one job, as `enqueue.lua` and `tick.lua` take them.
fn job_args(args: &mut Vec<Value>, entry: &Entry, id: &JobId, tick: Timestamp) {
    let fields = entry.job_fields(tick);
    args.push(Value::Integer(2 * (fields.len() as i64 + 1)));
    args.extend([Value::from_static_str("id"), bytes(id.to_string().as_bytes())]);
    args.extend(fields.into_iter().flat_map(|(name, value)| [Value::Bytes(name), Value::Bytes(value)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_moves_and_keeps_the_rest() {
        let state = CronState { text: "1700 12 paused".to_owned() };
        assert_eq!((state.handled().as_ms(), state.is_paused()), (1700, true));
        let moved = state.moved(&state.progress().moved(&[], timestamp(1800), 0));
        assert_eq!(moved.text, "1800 12 run=1700 paused");
        let skipped = moved.progress().moved(&[timestamp(2000)], timestamp(2000), 3);
        assert_eq!(moved.moved(&skipped).text, "2000 12 run=1999 from=1800 paused");
        let broken = CronState { text: "x".to_owned() };
        assert_eq!((broken.handled().as_ms(), broken.is_paused(), broken.words()), (0, false, ""));
    }
}
