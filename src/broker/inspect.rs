//! Looking at a queue without changing it. Everything is paged, and nothing walks a stream to count it.

use std::time::Duration;

use fred::interfaces::{ClientLike, StreamsInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use super::error::Error;
use super::history::{Attempt, LogLine, Progress, Record};
use super::{Queue, decode, script};
use crate::job::{EntryId, Envelope, JobId, Lane, State, Timestamp};

/// How many jobs a queue has in each state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depths {
    /// When this was true.
    pub now: Timestamp,
    /// Each lane, in the order of [`Lane::ALL`].
    pub lanes: [LaneDepth; 3],
    /// Jobs in the delayed set.
    pub delayed: u64,
    /// When the next of them is due.
    pub next_due: Option<Timestamp>,
    /// Dead letters.
    pub dead: u64,
    /// The consumer that does the chores.
    pub leader: Option<String>,
}

/// How many jobs one lane has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneDepth {
    /// Jobs that nobody has taken.
    pub waiting: u64,
    /// Jobs that a worker has.
    pub running: u64,
    /// The oldest entry of the stream, waiting or running.
    pub oldest: Option<EntryId>,
    /// The oldest entry that nobody has taken.
    pub oldest_waiting: Option<EntryId>,
}

impl Depths {
    /// Jobs that nobody has taken, over all lanes.
    pub fn waiting(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.waiting).sum()
    }

    /// How long the oldest waiting job has been in its stream.
    pub fn oldest_waiting(&self) -> Option<Duration> {
        let oldest = self.lanes.iter().filter_map(|lane| lane.oldest_waiting).min()?;
        Some(self.now.since(Timestamp::from_ms(oldest.ms).unwrap_or(Timestamp::MAX)))
    }

    /// Jobs that a worker has, over all lanes.
    pub fn running(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.running).sum()
    }
}

/// Everything known about one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// When this was true.
    pub now: Timestamp,
    /// The job.
    pub id: JobId,
    /// Where it is in its life.
    pub state: State,
    /// What handler it needs; empty for bytes that are no job.
    pub job_type: String,
    /// Its lane.
    pub lane: Lane,
    /// When it was submitted, where that is known.
    pub created: Option<Timestamp>,
    /// When it is due, if it is in the delayed set.
    pub due: Option<Timestamp>,
    /// Its entry, if it is in a stream.
    pub entry: Option<EntryId>,
    /// Who runs it, if somebody does.
    pub worker: Option<String>,
    /// The last error.
    pub error: Option<String>,
    /// What success returned, as JSON.
    pub result: Option<String>,
    /// Since when somebody wants it cancelled, while it has not ended.
    pub cancelling: Option<Timestamp>,
    /// Who wanted it cancelled, where its record says so.
    pub cancelled_by: Option<String>,
    /// Its dead letter.
    pub dead: Option<EntryId>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// How far it is, if its handler said so.
    pub progress: Option<Progress>,
    /// The last lines that its handler logged, oldest first.
    pub log: Vec<LogLine>,
    /// How many lines it has logged in all.
    pub logged: u64,
}

impl Queue {
    /// How many jobs there are in each state.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn depths(&self) -> Result<Depths, Error> {
        let mut keys = vec![self.keys.delayed.clone(), self.keys.dead.clone(), self.keys.leader.clone()];
        keys.extend(self.keys.streams().clone());
        let answer = self.run(&script::DEPTHS, keys, vec![]).await?;
        let [delayed, dead, next, leader, lanes @ ..] = &answer.rest[..] else {
            return Err(Error::contract("depths", answer));
        };
        let lane = async |at: usize| {
            let Some([entries, pending, oldest, waits]) = lanes.get(4 * at..4 * at + 4) else {
                return Err(Error::contract("depths", &answer));
            };
            let (Some(entries), Some(running)) = (decode::number(entries), decode::number(pending)) else {
                return Err(Error::contract("depths", &answer));
            };
            let [oldest, waits] = [oldest, waits].map(decode::text);
            let stream = &self.keys.streams()[at];
            let first = self.first_entry(stream, &oldest).await?;
            let same = oldest == waits;
            let waiting = if same { first } else { self.first_entry(stream, &waits).await? };
            let depth = LaneDepth {
                waiting: entries.saturating_sub(running),
                running,
                oldest: first,
                oldest_waiting: waiting,
            };
            Ok(depth)
        };
        let (high, normal, low) = tokio::try_join!(lane(0), lane(1), lane(2))?;
        Ok(Depths {
            now: timestamp(answer.status.cast_unsigned()),
            lanes: [high, normal, low],
            delayed: decode::number(delayed).unwrap_or(0),
            next_due: decode::number(next).map(timestamp),
            dead: decode::number(dead).unwrap_or(0),
            leader: Some(decode::text(leader)).filter(|leader| !leader.is_empty()),
        })
    }

    /// The id of the first entry of a stream from there on; nothing where there is no place to begin. No script looks for it:
    /// it would be given the whole body, which may have 8 MiB and would hold Redis up three times as long.
    pub(super) async fn first_entry(&self, stream: &Key, from: &str) -> Result<Option<EntryId>, Error> {
        if from.is_empty() {
            return Ok(None);
        }
        let client = self.link.client();
        let reply: Value = self.link.ask("xrange", client.xrange(stream.clone(), from, "+", Some(1))).await?;
        Ok(decode::entries("xrange", &reply, Lane::Normal)?.first().map(|entry| entry.id))
    }

    /// What the server's clock says.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn clock(&self) -> Result<Timestamp, Error> {
        let client = self.link.client();
        let command = CustomCommand::new_static("TIME", ClusterHash::Random, false);
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, vec![])).await };
        let reply = self.link.ask("time", reply).await?;
        let Value::Array(parts) = &reply else { return Err(Error::contract("time", reply)) };
        let part = |at: usize| parts.get(at).and_then(decode::number);
        match (part(0), part(1)) {
            (Some(seconds), Some(us)) => Ok(timestamp(seconds * 1000 + us / 1000)),
            _ => Err(Error::contract("time", reply)),
        }
    }

    /// What is known about a job: from its record, the delayed set, its entry, or the dead stream's record of it. `None`
    /// for a job that is unknown here, or that succeeded without leaving a record.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn status(&self, id: &JobId) -> Result<Option<Status>, Error> {
        self.status_at(id, id.origin(), true).await
    }

    /// The same without the log lines, for those who ask often.
    pub(crate) async fn status_without_log(&self, id: &JobId) -> Result<Option<Status>, Error> {
        self.status_at(id, id.origin(), false).await
    }

    /// The same for a job of which one entry is known.
    pub(super) async fn status_at(
        &self,
        id: &JobId,
        origin: Option<(EntryId, Lane)>,
        with_log: bool,
    ) -> Result<Option<Status>, Error> {
        Ok(self.lookup(id, origin, with_log).await?.status(id))
    }

    /// The fields of a job that is in the delayed set, and the entry of one that is in a stream.
    pub(super) async fn place(&self, id: &JobId) -> Result<Place, Error> {
        let found = self.lookup(id, id.origin(), false).await?;
        Ok((found.parked.filter(|_| found.due.is_some()), found.entry.zip(found.lane)))
    }

    async fn lookup(
        &self,
        id: &JobId,
        origin: Option<(EntryId, Lane)>,
        with_log: bool,
    ) -> Result<Found, Error> {
        let mut keys =
            vec![self.keys.record(id), self.keys.delayed.clone(), self.keys.delayed_fields.clone()];
        keys.extend(self.keys.streams().clone());
        keys.push(self.keys.cancels.clone());
        let (entry, lane) =
            origin.map_or_else(Default::default, |(entry, lane)| (entry.to_string(), lane.as_str()));
        let log = if with_log { "1" } else { "0" };
        let args: Vec<Value> = vec![id.to_string().into(), entry.into(), lane.into(), log.into()];
        let answer = self.run(&script::LOOKUP, keys, args).await?;
        let [Value::Array(record), due, packed, lane, entry, worker, job_type, created, wished] =
            &answer.rest[..]
        else {
            return Err(Error::contract("lookup", answer));
        };
        Ok(Found {
            now: timestamp(answer.status.cast_unsigned()),
            record: Record(decode::envelope(record)),
            due: decode::number(due).filter(|_| !matches!(due, Value::Null)).map(timestamp),
            parked: Envelope::unpack(decode::data(packed)).ok(),
            lane: decode::text(lane).parse().ok(),
            entry: decode::entry_id(entry),
            worker: Some(decode::text(worker)).filter(|name| !name.is_empty()),
            job_type: Some(decode::text(job_type)).filter(|name| !name.is_empty()),
            // An entry that names no time is the first of its job.
            created: decode::number(created).or(decode::entry_id(entry).map(|entry| entry.ms)).map(timestamp),
            wished: decode::number(wished).map(timestamp),
        })
    }
}

struct Found {
    now: Timestamp,
    record: Record,
    due: Option<Timestamp>,
    parked: Option<(Envelope, Lane)>,
    lane: Option<Lane>,
    entry: Option<EntryId>,
    worker: Option<String>,
    /// The type that its entry names.
    job_type: Option<String>,
    /// The time of the first entry, which its entry names.
    created: Option<Timestamp>,
    /// When somebody said that it is to be cancelled.
    wished: Option<Timestamp>,
}

/// The fields and lane of a delayed job; the entry and lane of one in a stream.
pub(super) type Place = (Option<(Envelope, Lane)>, Option<(EntryId, Lane)>);

impl Found {
    fn status(self, id: &JobId) -> Option<Status> {
        let state = self.state()?;
        let parked = |name: &str| {
            let value = self.parked.as_ref().and_then(|(fields, _)| fields.get(name.as_bytes()));
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let job_type = self.record.text("type").or_else(|| self.job_type.clone()).or_else(|| parked("type"));
        let cancelled_by = self.record.text("cancelled_by");
        let cancelled_by = cancelled_by.filter(|_| state == State::Cancelled || self.wished.is_some());
        let parked_since = || parked("created_ms")?.parse().ok().map(timestamp);
        Some(Status {
            now: self.now,
            id: id.clone(),
            state,
            job_type: job_type.unwrap_or_default(),
            lane: self
                .lane
                .or(self.record.text("lane").and_then(|lane| lane.parse().ok()))
                .unwrap_or_default(),
            created: self
                .record
                .time("created_ms")
                .or(self.created)
                .or_else(parked_since)
                .or_else(|| id.origin().map(|(entry, _)| timestamp(entry.ms))),
            due: self.due,
            entry: self.entry,
            worker: self.worker.clone(),
            error: self.record.text("error").filter(|_| state != State::Done),
            result: self.record.text("result"),
            cancelling: self.wished.filter(|_| !state.is_final()),
            cancelled_by,
            dead: self.record.text("dead_id").and_then(|dead| dead.parse().ok()),
            attempts: self.record.attempts(),
            progress: self.record.progress(),
            log: self.record.log(),
            logged: self.record.logged(),
        })
    }

    fn state(&self) -> Option<State> {
        let recorded = self.record.text("state").and_then(|state| state.parse().ok());
        if self.due.is_some() {
            return Some(recorded.filter(|state| *state == State::Retrying).unwrap_or(State::Scheduled));
        }
        match (self.entry, &self.worker) {
            // A late success may have ended the job while its retry still lies in the stream.
            (Some(_), None) if recorded == Some(State::Done) => Some(State::Done),
            (Some(_), None) => Some(State::Waiting),
            (Some(_), Some(_)) => Some(State::Running),
            // The entry a record names is the last one it saw; a promoted job has a newer one.
            (None, _) if matches!(recorded, Some(State::Scheduled | State::Retrying)) => Some(State::Waiting),
            (None, _) => recorded,
        }
    }
}

/// An instant that Redis told; one beyond the calendar is its end.
pub(super) fn timestamp(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap_or(Timestamp::MAX)
}
