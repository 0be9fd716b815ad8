//! Looking up one job: its record, its place in the delayed set, its entry. No script reads a job's fields, which may
//! have 8 MiB and would block Redis for a millisecond per MiB.

use fred::interfaces::{HashesInterface, SortedSetsInterface};
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
    pub async fn location(&self, id: &JobId) -> Result<JobLocation, Error> {
        let found = self.lookup(id, id.origin(), false).await?;
        let waitlist = found.waitlist;
        let entry = found.entry.zip(found.lane).map(|(entry, lane)| (entry, lane, waitlist));
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
            let fresh =
                answer.locations.iter().filter(|location| !gone.contains(&(location.lane, location.entry)));
            let fresh: Vec<Held> = fresh.cloned().collect();
            let entries = fresh
                .iter()
                .map(|location| self.bare_entry(location.lane, location.waitlist.as_deref(), location.entry));
            let packed = async {
                match &answer.member {
                    Some(member) => self.packed(member).await,
                    None => Ok(None),
                }
            };
            let (entries, packed) = tokio::try_join!(try_join_all(entries), packed)?;
            let found =
                fresh.iter().zip(entries).find_map(|(location, entry)| Some((location.clone(), entry?)));
            let has_moved = match &answer.member {
                Some(_) => packed.is_none(),
                None => answer.due.is_none() && found.is_none() && !fresh.is_empty() && !answer.is_final(),
            };
            if left == 0 || !has_moved {
                return self.assemble(answer, found, packed).await;
            }
            gone.extend(fresh.iter().map(|location| (location.lane, location.entry)));
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
        keys.extend([own.cancels.clone(), own.delayed_fields.clone(), own.waitlist_locations.clone()]);
        let (entry, lane) =
            origin.map_or_else(Default::default, |(entry, lane)| (entry.to_string(), lane.as_str()));
        let mut args = Vec::from(args![LOOKUP; id = id.to_string(), from_entry = entry, from_lane = lane]);
        args.extend(Record::names(with_log).map(Value::from));
        let answer = self.run(&LOOKUP, keys, args).await?;
        let [Value::Array(record), due, member, generation, cancel_requested, locations @ ..] =
            &answer.rest[..]
        else {
            return Err(Error::contract("lookup", answer));
        };
        let location = |location: &Value| {
            let Value::Array(parts) = location else { return None };
            let [lane, entry, worker, waitlist] = &parts[..] else { return None };
            let [worker, waitlist] =
                [worker, waitlist].map(|text| Some(decode::text(text)).filter(|text| !text.is_empty()));
            Some(Held {
                lane: decode::text(lane).parse().ok()?,
                entry: decode::entry_id(entry)?,
                worker,
                waitlist,
            })
        };
        Ok(LookupAnswer {
            now: timestamp(answer.status.cast_unsigned()),
            record: Record(decode::envelope(record)),
            due: decode::number(due).map(timestamp),
            member: Some(member.clone()).filter(|member| !member.is_null()),
            generation: Some(decode::text(generation)).filter(|generation| !generation.is_empty()),
            cancel_requested: decode::number(cancel_requested).map(timestamp),
            locations: locations.iter().filter_map(location).collect(),
        })
    }

    /// Returns one entry as it is in its lane or waiting list, without its offloaded fields; `None` if it no longer exists.
    pub(crate) async fn bare_entry(
        &self,
        lane: Lane,
        waitlist: Option<&str>,
        id: EntryId,
    ) -> Result<Option<Entry>, Error> {
        self.link.entry(&self.keys.location(lane, waitlist), id, lane).await
    }

    /// Returns all fields of such an entry.
    pub(crate) async fn whole_entry(
        &self,
        lane: Lane,
        waitlist: Option<&str>,
        id: EntryId,
    ) -> Result<Option<Envelope>, Error> {
        let entry = self.bare_entry(lane, waitlist, id).await?;
        let Some(mut fields) = entry.and_then(|entry| entry.envelope) else { return Ok(None) };
        self.restore_fields(&self.link, &mut fields).await?;
        Ok(Some(fields))
    }

    /// Assembles everything. If the entry's generation is not the record's, looks up the request to cancel the entry's generation.
    async fn assemble(
        &self,
        answer: LookupAnswer,
        found: Option<(Held, Entry)>,
        packed: Option<Value>,
    ) -> Result<JobView, Error> {
        let (mut cancel_requested, mut job_type, mut created) = (answer.cancel_requested, None, None);
        let (mut own_lane, mut accepted) = (None, answer.accepted());
        let mut cancelled_by = answer.record.text("cancelled_by");
        if let Some((location, entry)) = &found {
            let field = |name: &str| {
                let value = entry.envelope.as_ref()?.get(name.as_bytes())?;
                Some(String::from_utf8_lossy(value).into_owned())
            };
            let began = field("created_ms");
            accepted = field("root").and_then(|root| began_at(&root)).or(accepted);
            job_type = field("type").filter(|name| !name.is_empty());
            own_lane = field("lane").and_then(|lane| lane.parse().ok());
            // An entry that names no time is the first of its job.
            created =
                began.as_ref().and_then(|ms| ms.parse().ok()).or(Some(location.entry.ms)).map(timestamp);
            let generation = field("life").or(began);
            let generation =
                generation.unwrap_or_else(|| JobId::derived(location.entry, location.lane).to_string());
            if answer.generation.as_ref() != Some(&generation) {
                cancel_requested = self.cancel_requested_at(&generation).await?;
            }
            if cancel_requested.is_some() && cancelled_by.is_none() {
                cancelled_by = self.cancel_requested_by(&generation).await?;
            }
        }
        let location = found.map(|(location, _)| location);
        Ok(JobView {
            now: answer.now,
            generation: answer.generation,
            record: answer.record,
            due: answer.due,
            parked: packed.and_then(|packed| Envelope::unpack(decode::data(&packed)).ok()),
            lane: location.as_ref().map(|location| location.lane),
            entry: location.as_ref().map(|location| location.entry),
            waitlist: location.as_ref().and_then(|location| location.waitlist.clone()),
            own_lane,
            worker: location.and_then(|location| location.worker),
            job_type,
            accepted,
            created,
            cancel_requested,
            cancelled_by,
        })
    }

    /// Returns when the cancellation of this generation was requested.
    async fn cancel_requested_at(&self, generation: &str) -> Result<Option<Timestamp>, Error> {
        let client = self.link.client();
        let requested: Value =
            self.link.ask("zscore", client.zscore(self.keys.cancels.clone(), generation)).await?;
        Ok(decode::number(&requested).map(timestamp))
    }

    /// Returns who requested the cancellation of this generation while a worker held it. See `cancel.lua`.
    async fn cancel_requested_by(&self, generation: &str) -> Result<Option<String>, Error> {
        let client = self.link.client();
        let location: Value =
            self.link.ask("hget", client.hget(self.keys.cancel_locations.clone(), generation)).await?;
        Ok(decode::text(&location).splitn(3, ' ').nth(2).map(str::to_owned))
    }
}

/// The snapshot that the script returned.
struct LookupAnswer {
    now: Timestamp,
    record: Record,
    due: Option<Timestamp>,
    /// Its member of the delayed set.
    member: Option<Value>,
    /// The generation that the record belongs to.
    generation: Option<String>,
    /// When the cancellation of this generation was requested.
    cancel_requested: Option<Timestamp>,
    /// The places where its entry may be.
    locations: Vec<Held>,
}

/// An entry that may be the job's, and the consumer that holds it.
#[derive(Debug, Clone)]
struct Held {
    lane: Lane,
    entry: EntryId,
    worker: Option<String>,
    /// The waiting list that it waits in, if it is not in a lane.
    waitlist: Option<String>,
}

impl LookupAnswer {
    fn is_final(&self) -> bool {
        let state = self.record.text("state").and_then(|state| state.parse::<State>().ok());
        state.is_some_and(State::is_final)
    }

    /// Returns when the first generation of a replayed job began. Another generation of the id may have left what the record says about it.
    fn accepted(&self) -> Option<Timestamp> {
        let root = self.record.text("root")?;
        let (root, generation) = root.split_once(' ')?;
        began_at(root).filter(|_| self.generation.as_deref() == Some(generation))
    }
}

/// Returns when a generation began: its name begins with that time.
fn began_at(generation: &str) -> Option<Timestamp> {
    generation.split('-').next()?.parse().ok().map(timestamp)
}

struct JobView {
    now: Timestamp,
    /// The generation that the record belongs to.
    generation: Option<String>,
    record: Record,
    due: Option<Timestamp>,
    parked: Option<(Envelope, Lane)>,
    lane: Option<Lane>,
    entry: Option<EntryId>,
    /// The waiting list that its entry waits in.
    waitlist: Option<String>,
    /// The lane that its entry names as its own.
    own_lane: Option<Lane>,
    worker: Option<String>,
    /// The type that its entry names.
    job_type: Option<String>,
    /// When its first generation began, if it was replayed since.
    accepted: Option<Timestamp>,
    /// The time of the first entry of this generation, which its entry names.
    created: Option<Timestamp>,
    /// When its cancellation was requested.
    cancel_requested: Option<Timestamp>,
    /// Who cancelled it, or asked to.
    cancelled_by: Option<String>,
}

/// The fields and lane of a delayed job; the entry, lane and waiting list of one in a stream.
pub(crate) type JobLocation = (Option<(Envelope, Lane)>, Option<(EntryId, Lane, Option<String>)>);

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
            generation: self.generation.clone(),
            job_type: job_type.unwrap_or_default(),
            lane: self
                .own_lane
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
            waitlist: self.waitlist.clone(),
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
