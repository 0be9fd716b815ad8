//! The recurring jobs of a queue: kept in a hash, and in another how far each has come. What has to be done when is
//! decided elsewhere; here it is read, kept and carried out, each step by a script that compares what was read.

use crate::broker::client::script::scripts;
use std::fmt;

use fred::interfaces::HashesInterface;
use fred::types::Value;
use futures_util::future::try_join_all;

use crate::broker::client::decode;
use crate::broker::client::error::{Class, Error};
use crate::broker::inspect::depths::timestamp;
use crate::broker::{Queue, Untaken, bytes};
use crate::cron::{Entry, Invalid, Progress};
use crate::job::{CronName, JobId, Lane, Pacing, Timestamp};

scripts! { AGENDA "agenda", CRON_MOVE "cron_move", CRON_PAUSE "cron_pause", CRON_PUT "cron_put", CRON_REMOVE "cron_remove", TICK "tick" }

/// A queue has at most so many recurring jobs.
pub const MAX_ENTRIES: usize = 1000;

/// One script reads at most so many bytes of them; the others are read one by one.
const ENTRY_BYTES: i64 = 512 * 1024;

/// A change that meets others again and again is given up after so many tries.
const TRIES: usize = 20;

/// What a state ends with while the entry is paused.
const PAUSED: &str = " paused";

/// How far one entry has come, as it is written in Redis: `<last tick in ms> <generation>`, more words of [`Progress`], and
/// ` paused` where it is. The generation is the revision in which the entry was last changed. A caller that changes an entry names the
/// state that it read, so nothing is done twice, and nothing by an entry that has changed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CronState {
    text: String,
}

impl CronState {
    /// Up to when ticks are dealt with.
    pub(crate) fn handled(&self) -> Timestamp {
        timestamp(self.text.split(' ').next().and_then(|ms| ms.parse().ok()).unwrap_or(0))
    }

    /// How far the entry has come.
    pub(crate) fn progress(&self) -> Progress {
        Progress::read(self.handled(), self.words())
    }

    /// What stands behind the generation.
    fn words(&self) -> &str {
        let generation = self.text.find(' ').map_or("", |at| &self.text[at + 1..]);
        generation.find(' ').map_or("", |at| &generation[at..])
    }

    /// True where no tick is to be submitted.
    pub(crate) fn is_paused(&self) -> bool {
        self.text.ends_with(PAUSED)
    }

    /// The state when the entry has come this far.
    pub(crate) fn moved(&self, progress: &Progress) -> Self {
        let generation = self.text.split(' ').nth(1).unwrap_or("0");
        let (handled, words) = (progress.handled().as_ms(), progress.words());
        let mark = if self.is_paused() { PAUSED } else { "" };
        Self { text: format!("{handled} {generation}{words}{mark}") }
    }
}

/// What one reading of the recurring jobs found.
#[derive(Debug)]
pub(crate) struct Agenda {
    pub(crate) now: Timestamp,
    /// Grows with every change of an entry.
    pub(crate) revision: u64,
    /// How many consumers have shown themselves in the last seconds.
    pub(crate) live: u64,
    /// How far entries have come: all, or those that were asked for.
    pub(crate) states: Vec<(CronName, CronState)>,
    /// All entries; `None` where nothing has changed since the revision that was named.
    pub(crate) entries: Option<Vec<(CronName, Result<Entry, Invalid>)>>,
}

impl Agenda {
    fn state_of(&self, name: &CronName) -> Option<&CronState> {
        self.states.iter().find(|(known, _)| known == name).map(|(_, state)| state)
    }
}

/// The recurring jobs of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct CronTable {
    /// When this was true.
    pub now: Timestamp,
    /// All of them, by name.
    pub entries: Vec<CronStatus>,
}

/// One recurring job, and how far it has come.
#[derive(Debug, Clone, PartialEq)]
pub struct CronStatus {
    /// Its name.
    pub name: CronName,
    /// What it is, or why this program cannot read it.
    pub entry: Result<Entry, Invalid>,
    /// Up to when ticks are dealt with; at first, when it was added.
    pub handled: Timestamp,
    /// True where no tick is to be submitted.
    pub paused: bool,
}

/// What became of an entry that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is new.
    Added,
    /// It has replaced another of its name.
    Replaced,
    /// It was there already, the same.
    Unchanged,
    /// It was not kept: there is another of its name.
    Taken,
    /// It was not kept: there are [`MAX_ENTRIES`] already.
    TooMany,
}

impl Queue {
    /// The recurring jobs.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn cron(&self) -> Result<CronTable, Error> {
        let mut agenda = self.agenda(None, &[]).await?;
        let mut found = agenda.entries.take().unwrap_or_default();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let status = |(name, entry): (CronName, _)| {
            let state = agenda.state_of(&name);
            CronStatus {
                handled: state.map_or(timestamp(0), CronState::handled),
                paused: state.is_some_and(CronState::is_paused),
                name,
                entry,
            }
        };
        Ok(CronTable { now: agenda.now, entries: found.into_iter().map(status).collect() })
    }

    /// Keeps a recurring job that is new. See [`Queue::put_cron`].
    ///
    /// # Errors
    ///
    /// As [`Queue::put_cron`].
    pub async fn add_cron(&self, entry: &Entry) -> Result<Kept, Error> {
        self.keep_cron(entry, false).await
    }

    /// Keeps a recurring job, in place of one of its name if there is one. It begins now; where only something else than
    /// its schedule changes, it goes on from where it was. A paused one stays paused. The entry's own queue is not looked
    /// at.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe.
    pub async fn put_cron(&self, entry: &Entry) -> Result<Kept, Error> {
        self.keep_cron(entry, true).await
    }

    async fn keep_cron(&self, entry: &Entry, replaces: bool) -> Result<Kept, Error> {
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
            if let Some(kept) = self.replace_cron(entry, old.zip(state), state).await? {
                return Ok(kept);
            }
        }
        Err(Error::contract("cron_put", "another state, again and again"))
    }

    /// Keeps an entry where the state is still the one that was read; `None` where it is another.
    pub(crate) async fn replace_cron(
        &self,
        entry: &Entry,
        old: Option<(&Entry, &CronState)>,
        state: Option<&CronState>,
    ) -> Result<Option<Kept>, Error> {
        let same = old.filter(|(old, _)| old.schedule() == entry.schedule());
        let handled = same.map_or_else(String::new, |(_, state)| state.handled().as_ms().to_string());
        // What was submitted stays submitted.
        let mark = match (same, state) {
            (Some((_, state)), _) => state.words(),
            (None, Some(state)) if state.is_paused() => PAUSED,
            (None, _) => "",
        };
        let args = vec![
            entry.name().as_str().into(),
            state.map_or("", |state| state.text.as_str()).into(),
            Value::Bytes(entry.pack().into()),
            handled.into(),
            mark.into(),
            (MAX_ENTRIES as i64).into(),
        ];
        let keys = vec![self.keys.cron.clone(), self.keys.cron_ticks.clone()];
        Ok(match self.run(&CRON_PUT, keys, args).await?.status {
            1 => Some(if state.is_some() { Kept::Replaced } else { Kept::Added }),
            2 => Some(Kept::TooMany),
            _ => None,
        })
    }

    /// Forgets a recurring job; false where there is none of this name. Its jobs stay.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe.
    pub async fn remove_cron(&self, name: &CronName) -> Result<bool, Error> {
        let keys = vec![self.keys.cron.clone(), self.keys.cron_ticks.clone()];
        Ok(self.run(&CRON_REMOVE, keys, vec![name.as_str().into()]).await?.status == 1)
    }

    /// Pauses a recurring job: no tick is submitted until it is resumed. `None` where there is none of this name, false
    /// where it was paused already.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe.
    pub async fn pause_cron(&self, name: &CronName) -> Result<Option<bool>, Error> {
        self.mark_cron(name, PAUSED).await
    }

    /// Lets a paused recurring job go on from now: what was due meanwhile is not made up for. `None` where there is none of
    /// this name, false where it was not paused.
    ///
    /// # Errors
    ///
    /// As [`Queue::pause_cron`].
    pub async fn resume_cron(&self, name: &CronName) -> Result<Option<bool>, Error> {
        self.mark_cron(name, "").await
    }

    async fn mark_cron(&self, name: &CronName, mark: &str) -> Result<Option<bool>, Error> {
        let args = vec![name.as_str().into(), mark.into()];
        let answer = self.run(&CRON_PAUSE, vec![self.keys.cron_ticks.clone()], args).await?;
        Ok((answer.status != 2).then_some(answer.status == 1))
    }

    /// Submits one job of a recurring job now, whatever its schedule says and whether it is paused. `None` where there is
    /// none of this name that this program can read.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] where the answer was lost: the job may have been submitted.
    pub async fn run_cron(&self, name: &CronName) -> Result<Option<JobId>, Error> {
        let table = self.cron().await?;
        let found = table.entries.into_iter().find(|status| status.name == *name);
        let Some(entry) = found.and_then(|status| status.entry.ok()) else { return Ok(None) };
        let id = entry.extra_id(rand::random());
        // No limit of the producer's own, and one job.
        let mut args = vec!["".into(), Value::Integer(1)];
        job_args(&mut args, &entry, &id, table.now);
        let answer =
            self.run(&crate::broker::submit::enqueue::ENQUEUE, self.enqueue_keys(entry.lane()), args).await?;
        Untaken::unless("enqueue", answer)?;
        Ok(Some(id))
    }

    /// Reads the recurring jobs: all of them, or, where nothing has changed since `known`, the states of these.
    pub(crate) async fn agenda(&self, known: Option<u64>, names: &[CronName]) -> Result<Agenda, Error> {
        let keys = vec![self.keys.cron.clone(), self.keys.cron_ticks.clone()];
        let revision = known.map_or_else(String::new, |known| known.to_string());
        let args = [revision.into(), Value::Integer(ENTRY_BYTES)].into_iter();
        let args = args.chain(names.iter().map(|name| name.as_str().into())).collect();
        let (answer, live) = tokio::try_join!(self.run(&AGENDA, keys, args), self.live())?;
        let [revision, Value::Array(states), Value::Array(entries)] = &answer.rest[..] else {
            return Err(Error::contract("agenda", answer));
        };
        let revision = decode::number(revision).unwrap_or(0);
        let state = |pair: &[Value]| {
            let text = decode::text(&pair[1]);
            let named = decode::text(&pair[0]).parse().ok().filter(|_| !text.is_empty());
            named.map(|name| (name, CronState { text }))
        };
        // The queue's own notes in these hashes have names that no entry can have.
        let entry = async |pair: &[Value]| {
            let name: Option<CronName> = decode::text(&pair[0]).parse().ok();
            let Some(name) = name else { return Ok(None) };
            // One that changes between the two is of another revision, and what is done by it compares that.
            let packed = if pair[1].is_null() { self.cron_entry(&name).await? } else { pair[1].clone() };
            Ok::<_, Error>(Some((
                name.clone(),
                Entry::unpack(name, self.name.clone(), decode::data(&packed)),
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

    async fn cron_entry(&self, name: &CronName) -> Result<Value, Error> {
        let client = self.link.client();
        self.link.ask("hget", client.hget(self.keys.cron.clone(), name.as_str())).await
    }

    /// How many members of the group have shown themselves lately; none where that cannot be read.
    async fn live(&self) -> Result<u64, Error> {
        match self.consumers(Lane::Normal).await {
            Ok(consumers) => {
                let members = Pacing::of(consumers.len() as u64);
                Ok(consumers.iter().filter(|consumer| members.counts_as_live(consumer.idle)).count() as u64)
            }
            Err(error) if error.class() == Some(Class::Configuration) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Submits the jobs of these ticks and moves the entry's state that far, in one step; false where the state is not the one
    /// that was read, and nothing was done.
    pub(crate) async fn tick(
        &self,
        entry: &Entry,
        (state, next): (&CronState, &CronState),
        ticks: &[Timestamp],
    ) -> Result<bool, Error> {
        let mut args: Vec<Value> =
            vec![entry.name().as_str().into(), state.text.as_str().into(), next.text.as_str().into()];
        for tick in ticks {
            job_args(&mut args, entry, &entry.job_id(*tick), *tick);
        }
        let keys = vec![self.keys.cron_ticks.clone(), self.keys.stream(entry.lane()).clone()];
        Ok(self.run(&TICK, keys, args).await?.status == 1)
    }

    /// Moves an entry's state, so that every process reads it anew; false where it is not the one that was read.
    pub(crate) async fn move_cron(
        &self,
        name: &CronName,
        (state, next): (&CronState, &CronState),
    ) -> Result<bool, Error> {
        let args = vec![name.as_str().into(), state.text.as_str().into(), next.text.as_str().into()];
        Ok(self.run(&CRON_MOVE, vec![self.keys.cron_ticks.clone()], args).await?.status == 1)
    }
}

/// One job as `enqueue.lua` and `tick.lua` take it.
fn job_args(args: &mut Vec<Value>, entry: &Entry, id: &JobId, tick: Timestamp) {
    let fields = entry.job_fields(tick);
    args.push(Value::Integer(2 * (fields.len() as i64 + 1)));
    args.extend([Value::from_static_str("id"), bytes(id.to_string().as_bytes())]);
    args.extend(fields.into_iter().flat_map(|(name, value)| [Value::Bytes(name), Value::Bytes(value)]));
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Unchanged => "unchanged",
            Self::Taken => "taken",
            Self::TooMany => "too many",
        })
    }
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
