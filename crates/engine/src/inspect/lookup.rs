//! Looking up one job: its record, its place in the delayed set, its entry. No script reads a job's fields, which may
//! have 8 MiB and would block Redis for a millisecond per MiB.

use fred::interfaces::{HashesInterface, SortedSetsInterface, StreamsInterface};
use fred::types::Value;
use futures_util::future::try_join_all;

use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::history::Record;
use crate::inspect::status::Status;
use crate::job::{EntryId, Envelope, JobId, Lane, State, Timestamp};
use crate::{Entry, Queue};

scripts! { LOOKUP "lookup" }

/// How often a job that keeps moving is looked up again.
const TRIES: u32 = 16;

impl Queue {
    /// Returns what is known about a job: from its record, the delayed set, its entry, or the dead stream's record of
    /// it. `None` if the job is unknown here, or succeeded without leaving a record.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use streamfleet::job::JobId;
    ///
    /// let id: JobId = "invoice-17".parse()?;
    /// let Some(status) = queue.status(&id).await? else { return Ok(()) };
    /// println!("{id} is {}", status.state);
    /// for attempt in &status.attempts {
    ///     println!("{} after {:?}: {}", attempt.outcome, attempt.duration(), attempt.error);
    /// }
    /// if let Some(progress) = &status.progress {
    ///     println!("{} %: {}", progress.percent, progress.note);
    /// }
    /// for line in &status.log {
    ///     println!("{}", line.text);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn status(&self, id: &JobId) -> Result<Option<Status>, Error> {
        self.status_at(id, id.origin(), true).await
    }

    /// Returns the status without the log lines, for callers that poll.
    #[doc(hidden)]
    pub async fn status_without_log(&self, id: &JobId) -> Result<Option<Status>, Error> {
        self.status_at(id, id.origin(), false).await
    }

    /// Returns the status of a job of which one entry is known.
    pub(crate) async fn status_at(
        &self,
        id: &JobId,
        origin: Option<(EntryId, Lane)>,
        with_log: bool,
    ) -> Result<Option<Status>, Error> {
        Ok(self.lookup(id, origin, with_log).await?.status(id))
    }

    /// Returns the fields of a job in the delayed set, or the entry of a job in a stream.
    #[doc(hidden)]
    pub async fn place(&self, id: &JobId) -> Result<Place, Error> {
        let found = self.lookup(id, id.origin(), false).await?;
        let room = found.room;
        let entry = found.entry.zip(found.lane).map(|(entry, lane)| (entry, lane, room));
        Ok((found.parked.filter(|_| found.due.is_some()), entry))
    }

    /// Returns when a job of the delayed set is due, its lane, and its fields without those that are kept elsewhere.
    #[doc(hidden)]
    pub async fn parked(&self, id: &JobId) -> Result<Option<(Timestamp, Lane, Envelope)>, Error> {
        let found = self.lookup(id, id.origin(), false).await?;
        Ok(found.due.zip(found.parked).map(|(due, (fields, lane))| (due, lane, fields)))
    }

    /// The result of one run of the script is a snapshot, and an entry that is found afterwards existed at that time
    /// too. Only if nothing is found may the job have moved in between; then it is looked up again.
    async fn lookup(
        &self,
        id: &JobId,
        origin: Option<(EntryId, Lane)>,
        with_log: bool,
    ) -> Result<JobView, Error> {
        let mut gone: Vec<(Lane, EntryId)> = Vec::new();
        let mut left = TRIES;
        loop {
            left -= 1;
            let answer = self.run_lookup(id, origin, with_log).await?;
            let fresh = answer.places.iter().filter(|place| !gone.contains(&(place.lane, place.entry)));
            let fresh: Vec<Held> = fresh.cloned().collect();
            let entries =
                fresh.iter().map(|place| self.bare_entry(place.lane, place.room.as_deref(), place.entry));
            let packed = async {
                match &answer.member {
                    Some(member) => self.packed(member).await,
                    None => Ok(None),
                }
            };
            let (entries, packed) = tokio::try_join!(try_join_all(entries), packed)?;
            let found = fresh.iter().zip(entries).find_map(|(place, entry)| Some((place.clone(), entry?)));
            let has_moved = match &answer.member {
                Some(_) => packed.is_none(),
                None => answer.due.is_none() && found.is_none() && !fresh.is_empty() && !answer.is_final(),
            };
            if left == 0 || !has_moved {
                return self.assemble(answer, found, packed).await;
            }
            gone.extend(fresh.iter().map(|place| (place.lane, place.entry)));
        }
    }

    /// Runs the script once.
    async fn run_lookup(
        &self,
        id: &JobId,
        origin: Option<(EntryId, Lane)>,
        with_log: bool,
    ) -> Result<LookupAnswer, Error> {
        let mut keys = vec![self.keys.record(id), self.keys.delayed.clone()];
        keys.extend(self.keys.streams().clone());
        let own = &self.keys;
        keys.extend([own.cancels.clone(), own.delayed_fields.clone(), own.room_places.clone()]);
        let (entry, lane) =
            origin.map_or_else(Default::default, |(entry, lane)| (entry.to_string(), lane.as_str()));
        let mut args = Vec::from(args![LOOKUP; id = id.to_string(), from_entry = entry, from_lane = lane]);
        args.extend(Record::names(with_log).map(Value::from));
        let answer = self.run(&LOOKUP, keys, args).await?;
        let [Value::Array(record), due, member, life, cancel_requested, places @ ..] = &answer.rest[..]
        else {
            return Err(Error::contract("lookup", answer));
        };
        let place = |place: &Value| {
            let Value::Array(parts) = place else { return None };
            let [lane, entry, worker, room] = &parts[..] else { return None };
            let [worker, room] =
                [worker, room].map(|text| Some(decode::text(text)).filter(|text| !text.is_empty()));
            Some(Held {
                lane: decode::text(lane).parse().ok()?,
                entry: decode::entry_id(entry)?,
                worker,
                room,
            })
        };
        Ok(LookupAnswer {
            now: timestamp(answer.status.cast_unsigned()),
            record: Record(decode::envelope(record)),
            due: decode::number(due).map(timestamp),
            member: Some(member.clone()).filter(|member| !member.is_null()),
            life: Some(decode::text(life)).filter(|life| !life.is_empty()),
            cancel_requested: decode::number(cancel_requested).map(timestamp),
            places: places.iter().filter_map(place).collect(),
        })
    }

    /// Returns one entry as it is in its lane or room, without its offloaded fields; `None` if it no longer exists.
    pub(crate) async fn bare_entry(
        &self,
        lane: Lane,
        room: Option<&str>,
        id: EntryId,
    ) -> Result<Option<Entry>, Error> {
        let (client, text) = (self.link.client(), id.to_string());
        let reply = client.xrange(self.keys.place(lane, room), text.clone(), text, Some(1));
        let reply: Value = self.link.ask("xrange", reply).await?;
        Ok(decode::entries("xrange", &reply, lane)?.pop())
    }

    /// Assembles everything. If the entry's life is not the record's, looks up the request to cancel the entry's life.
    async fn assemble(
        &self,
        answer: LookupAnswer,
        found: Option<(Held, Entry)>,
        packed: Option<Value>,
    ) -> Result<JobView, Error> {
        let (mut cancel_requested, mut job_type, mut created) = (answer.cancel_requested, None, None);
        let (mut home, mut accepted) = (None, answer.accepted());
        let mut cancelled_by = answer.record.text("cancelled_by");
        if let Some((place, entry)) = &found {
            let field = |name: &str| {
                let value = entry.envelope.as_ref()?.get(name.as_bytes())?;
                Some(String::from_utf8_lossy(value).into_owned())
            };
            let began = field("created_ms");
            accepted = field("root").and_then(|root| began_at(&root)).or(accepted);
            job_type = field("type").filter(|name| !name.is_empty());
            home = field("lane").and_then(|lane| lane.parse().ok());
            // An entry that names no time is the first of its job.
            created = began.as_ref().and_then(|ms| ms.parse().ok()).or(Some(place.entry.ms)).map(timestamp);
            let life = field("life").or(began);
            let life = life.unwrap_or_else(|| JobId::derived(place.entry, place.lane).to_string());
            if answer.life.as_ref() != Some(&life) {
                cancel_requested = self.cancel_requested_at(&life).await?;
            }
            if cancel_requested.is_some() && cancelled_by.is_none() {
                cancelled_by = self.cancel_requested_by(&life).await?;
            }
        }
        let place = found.map(|(place, _)| place);
        Ok(JobView {
            now: answer.now,
            record: answer.record,
            due: answer.due,
            parked: packed.and_then(|packed| Envelope::unpack(decode::data(&packed)).ok()),
            lane: place.as_ref().map(|place| place.lane),
            entry: place.as_ref().map(|place| place.entry),
            room: place.as_ref().and_then(|place| place.room.clone()),
            home,
            worker: place.and_then(|place| place.worker),
            job_type,
            accepted,
            created,
            cancel_requested,
            cancelled_by,
        })
    }

    /// Returns when the cancellation of this life was requested.
    async fn cancel_requested_at(&self, life: &str) -> Result<Option<Timestamp>, Error> {
        let client = self.link.client();
        let requested: Value =
            self.link.ask("zscore", client.zscore(self.keys.cancels.clone(), life)).await?;
        Ok(decode::number(&requested).map(timestamp))
    }

    /// Returns who requested the cancellation of this life while a worker held it. See `cancel.lua`.
    async fn cancel_requested_by(&self, life: &str) -> Result<Option<String>, Error> {
        let client = self.link.client();
        let place: Value = self.link.ask("hget", client.hget(self.keys.cancel_places.clone(), life)).await?;
        Ok(decode::text(&place).splitn(3, ' ').nth(2).map(str::to_owned))
    }
}

/// The snapshot that the script returned.
struct LookupAnswer {
    now: Timestamp,
    record: Record,
    due: Option<Timestamp>,
    /// Its member of the delayed set.
    member: Option<Value>,
    /// The life that the record belongs to.
    life: Option<String>,
    /// When the cancellation of this life was requested.
    cancel_requested: Option<Timestamp>,
    /// The places where its entry may be.
    places: Vec<Held>,
}

/// An entry that may be the job's, and the consumer that holds it.
#[derive(Debug, Clone)]
struct Held {
    lane: Lane,
    entry: EntryId,
    worker: Option<String>,
    /// The room that it waits in, if it is not in a lane.
    room: Option<String>,
}

impl LookupAnswer {
    fn is_final(&self) -> bool {
        let state = self.record.text("state").and_then(|state| state.parse::<State>().ok());
        state.is_some_and(State::is_final)
    }

    /// Returns when the first life of a replayed job began. Another life of the id may have left what the record says about it.
    fn accepted(&self) -> Option<Timestamp> {
        let root = self.record.text("root")?;
        let (root, life) = root.split_once(' ')?;
        began_at(root).filter(|_| self.life.as_deref() == Some(life))
    }
}

/// Returns when a life began: its name begins with that time.
fn began_at(life: &str) -> Option<Timestamp> {
    life.split('-').next()?.parse().ok().map(timestamp)
}

struct JobView {
    now: Timestamp,
    record: Record,
    due: Option<Timestamp>,
    parked: Option<(Envelope, Lane)>,
    lane: Option<Lane>,
    entry: Option<EntryId>,
    /// The room that its entry waits in.
    room: Option<String>,
    /// The lane that its entry names as its own.
    home: Option<Lane>,
    worker: Option<String>,
    /// The type that its entry names.
    job_type: Option<String>,
    /// When its first life began, if it was replayed since.
    accepted: Option<Timestamp>,
    /// The time of the first entry of this life, which its entry names.
    created: Option<Timestamp>,
    /// When its cancellation was requested.
    cancel_requested: Option<Timestamp>,
    /// Who cancelled it, or asked to.
    cancelled_by: Option<String>,
}

/// The fields and lane of a delayed job; the entry, lane and room of one in a stream.
pub(crate) type Place = (Option<(Envelope, Lane)>, Option<(EntryId, Lane, Option<String>)>);

impl JobView {
    fn status(self, id: &JobId) -> Option<Status> {
        let state = self.state()?;
        let parked = |name: &str| {
            let value = self.parked.as_ref().and_then(|(fields, _)| fields.get(name.as_bytes()));
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let job_type = self.record.text("type").or_else(|| self.job_type.clone()).or_else(|| parked("type"));
        let was_asked = state == State::Cancelled || self.cancel_requested.is_some();
        let cancelled_by = self.cancelled_by.clone().filter(|_| was_asked);
        let parked_since = || parked("created_ms")?.parse().ok().map(timestamp);
        Some(Status {
            now: self.now,
            id: id.clone(),
            state,
            job_type: job_type.unwrap_or_default(),
            lane: self
                .home
                .or(self.lane)
                .or(self.record.text("lane").and_then(|lane| lane.parse().ok()))
                .unwrap_or_default(),
            created: self
                .accepted
                .or_else(|| self.record.time("created_ms"))
                .or(self.created)
                .or_else(parked_since)
                .or_else(|| id.origin().map(|(entry, _)| timestamp(entry.ms))),
            due: self.due,
            entry: self.entry,
            stream: self.lane.unwrap_or_default(),
            room: self.room.clone(),
            worker: self.worker.clone(),
            error: self.record.text("error").filter(|_| state != State::Done),
            result: self.record.text("result"),
            cancelling: self.cancel_requested.filter(|_| !state.is_final()),
            cancelled_by,
            dead: self.record.text("dead_id").and_then(|dead| dead.parse().ok()),
            children: self.record.children(),
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
            // A late success may have ended the job while its retry is still in the stream.
            (Some(_), None) if recorded == Some(State::Done) => Some(State::Done),
            (Some(_), None) => Some(State::Waiting),
            (Some(_), Some(_)) => Some(State::Running),
            // The entry that a record names is the last one noted there; a promoted job has a newer one.
            (None, _) if matches!(recorded, Some(State::Scheduled | State::Retrying)) => Some(State::Waiting),
            (None, _) => recorded,
        }
    }
}
