//! Jobs with ids, each accepted once, and the locks of unique keys.

use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::keys::Keys;
use crate::client::script::{args, scripts};
use crate::inspect::seek::EntrySearch;
use crate::job::{BatchId, JobId, Lane, State, Timestamp, UniqueKey};
use crate::submit::enqueue::{Due, NewJob, NotAccepted, call, optional};
use crate::{Queue, bytes, millis};

scripts! { ACCEPT "accept", SUBMIT "submit" }

/// How long a job with a unique key keeps others out; see the example of `Submission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueScope {
    /// Until its first attempt starts. Retries do not take the lock again.
    Waiting,
    /// Until it has ended, including all its retries.
    Running,
    /// For this long from its submission, even if it is done sooner; at most a year. A dead or cancelled job does not
    /// keep others out.
    Window(Duration),
}

/// What happens to a job whose unique key another job holds; see the example of `Submission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UniqueMode {
    /// The other job stays, and this one is not accepted.
    #[default]
    Reject,
    /// The other job is cancelled and this one takes its place, unless an attempt of the other is running, one of its
    /// steps has begun, or 100 batches wait for it.
    Replace,
    /// If the other job is scheduled for later, it gets this one's payload and time, and keeps everything else. If it
    /// has another type, or one of its steps has begun, it stays as it is, and this one is not accepted.
    Debounce,
}

/// A unique key with its scope and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The key.
    pub key: UniqueKey,
    /// How long the key is held.
    pub scope: UniqueScope,
    /// What becomes of a job whose key is held.
    pub mode: UniqueMode,
}

/// A job with an id, to be accepted once.
#[derive(Debug, Clone)]
pub struct JobWithId {
    /// Its id.
    pub id: JobId,
    job: NewJob,
    /// How long the id is remembered, at least.
    window: Duration,
    /// Its unique key, if it has one.
    pub unique: Option<Unique>,
    /// The batch that the job is a member of.
    pub batch: Option<BatchId>,
    /// The holder of the lock, according to an earlier answer.
    pub holder: Option<LockHolder>,
}

/// The job that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockHolder {
    /// Its id.
    pub id: JobId,
    /// Where the job waits, if that was looked up.
    pub search: Option<EntrySearch>,
    /// If it must be debounced, its packed fields as they were read, and the same with the new payload.
    pub edit: Option<[Bytes; 2]>,
}

/// The outcome of submitting a job with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmitOutcome {
    /// It was accepted.
    New,
    /// It was accepted, and this one, which held its lock, was cancelled.
    Replaced(JobId),
    /// This job, which holds its lock, got its payload and time.
    Debounced(JobId),
    /// This job already exists, in this state, and was left as it is: it has the same id, or holds the lock.
    Known(JobId, State),
    /// Nothing was done: this job holds the lock. Send again and name it, with its fields if it must be debounced.
    HeldBy(JobId),
    /// Nothing was done: this job holds the lock. It was due at this time, in this lane, and has no older entry there.
    /// Look up its entry, and send again with the result.
    Hidden(JobId, (Lane, Timestamp)),
    /// Nothing was done: much had to be followed first. Send the same again.
    Again,
    /// Nothing was done: this job already exists, in this state, and the batch cannot wait for it.
    LeftOut(JobId, State),
    /// Nothing was done: Redis refuses the keys that belong to this job alone, with this error.
    Refused(JobId, String),
}

impl Queue {
    /// Appends or schedules each job in one round trip, unless its id is known or its lock is held. Resending the same
    /// jobs is safe, and gets the same answer for [`RESEND_WITHIN`](crate::RESEND_WITHIN). See `submit.lua`, and
    /// `accept.lua` for jobs that need nothing but their ids.
    #[doc(hidden)]
    pub async fn submit(
        &self,
        jobs: &[JobWithId],
        limit: Option<u64>,
    ) -> Result<Vec<SubmitOutcome>, NotAccepted> {
        let is_plain = jobs.iter().all(JobWithId::is_plain);
        let script = if is_plain { &ACCEPT } else { &SUBMIT };
        let own = &self.keys;
        let mut keys: Vec<Key> = vec![own.control.clone(), own.delayed.clone()];
        keys.extend([own.delayed_fields.clone(), own.wake.clone()]);
        keys.extend(own.streams().clone());
        keys.push(own.receipt(&call(jobs.iter().map(|job| (job.job.generation, &job.holder)))));
        let mut args = Vec::from(args![ACCEPT, SUBMIT; most = optional(limit)]);
        for job in jobs {
            keys.push(own.record(&job.id));
            if !is_plain {
                keys.extend(job.other_keys(own));
            }
            let (light, offloaded) = self.offload_new(&job.job).await?;
            if is_plain {
                args.extend(job.accept_args(offloaded.into(), &light));
            } else {
                args.extend(job.submit_args(offloaded.into(), &light));
            }
            job.write_fields(&light, &mut args);
        }
        let answer = NotAccepted::check(script.name, self.run(script, keys, args).await?)?;
        let placed: Option<Vec<SubmitOutcome>> = answer.rest.chunks(3).map(placed).collect();
        placed
            .filter(|placed| placed.len() == jobs.len())
            .ok_or_else(|| Error::contract(script.name, answer).into())
    }
}

impl Queue {
    /// The packed fields of a job to debounce, before and after: with the payload of `by`, and all else
    /// unchanged. `None` if the job is not in the delayed set.
    #[doc(hidden)]
    pub async fn debounced_fields(
        &self,
        holder: &JobId,
        by: &JobWithId,
    ) -> Result<Option<[Bytes; 2]>, Error> {
        let is_payload = |name: &[u8]| matches!(name, b"payload" | b"encoding");
        let (Some((envelope, lane)), _) = self.location(holder).await? else { return Ok(None) };
        let fields = by.job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let payload: Vec<_> = fields.filter(|(name, _)| is_payload(name)).collect();
        let edited = self.with_fields(&envelope, is_payload, &payload).await?;
        Ok(Some([envelope, edited].map(|fields| fields.pack(lane).into())))
    }
}

impl JobWithId {
    /// Adds the fields by which the job's worker knows that it must keep the record, and which lock the job's end
    /// frees.
    pub fn new(id: JobId, mut job: NewJob, window: Duration, unique: Option<Unique>) -> Self {
        let batch = |(name, value): &(Bytes, Bytes)| {
            (name == "batch").then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
        };
        let batch = job.fields.iter().find_map(batch);
        let mut field = |name: &'static str, value: Bytes| {
            job.fields.push((Bytes::from_static(name.as_bytes()), value));
        };
        field("once", Bytes::from_static(b"1"));
        if let Some(unique) = &unique {
            // A window's lock ends only with the window.
            if !matches!(unique.scope, UniqueScope::Window(_)) {
                field("unique", Bytes::copy_from_slice(unique.key.as_str().as_bytes()));
            }
            field("unique_scope", Bytes::from_static(unique.scope.word().as_bytes()));
            // A job that can be debounced must be in the delayed set.
            if unique.mode == UniqueMode::Debounce && job.due == Due::Now {
                job.due = Due::In(Duration::ZERO);
            }
        }
        Self { id, job, window, unique, batch, holder: None }
    }

    /// Creates the same under a drawn id, remembered for as long as the job may be resent.
    pub fn with_drawn_id(job: NewJob, unique: Unique) -> Self {
        Self::new(job.drawn_id(), job, Duration::from_secs(60), Some(unique))
    }

    /// True if the id was drawn for this submission alone, so that a job with this id is always this one.
    pub fn has_drawn_id(&self) -> bool {
        self.id == self.job.drawn_id()
    }

    /// True if the job has neither a unique key nor a batch.
    fn is_plain(&self) -> bool {
        self.unique.is_none() && self.batch.is_none()
    }

    /// The keys of its lock, of the lock's holder and of its batch.
    fn other_keys(&self, own: &Keys) -> [Key; 4] {
        let held = self.holder.as_ref().map_or(&self.id, |holder| &holder.id);
        let lock = own.lock(self.unique.as_ref().map(|unique| &unique.key));
        [lock, own.record(held), own.ledger(held), own.batch(self.batch.as_ref())]
    }

    /// What `accept.lua` takes about this job before its fields. `job` is this job without its large fields.
    fn accept_args(&self, token: Value, job: &NewJob) -> [Value; 9] {
        let job_type =
            self.job.fields.iter().find(|(name, _)| name == "type").map(|(_, value)| value.clone());
        let [due, ms] = self.job.due.args(self.job.priority);
        args![ACCEPT;
            id = text(&self.id),
            generation = self.job.generation_text(),
            lane = self.job.lane.as_str(),
            job_type = Value::Bytes(job_type.unwrap_or_default()),
            due,
            ms,
            window = millis(self.window),
            token,
            count = if self.job.due == Due::Now { 4 + 2 * job.fields.len() as i64 } else { 2 },
        ]
    }

    /// What `submit.lua` takes about this job before its fields.
    fn submit_args(&self, token: Value, job: &NewJob) -> [Value; 20] {
        let [id, generation, lane, job_type, due, ms, window, token, count] = self.accept_args(token, job);
        let [key, scope, lock_ms, mode] = self.lock_args();
        let [holder, holder_lane, holder_entry, sought, read, wanted] = self.holder_args();
        args![SUBMIT;
            id, generation, lane, type = job_type, due, ms, window,
            member = if self.batch.is_some() { "1" } else { "" },
            key, scope, lock_ms, mode, holder, holder_lane, holder_entry, sought, read, wanted, token, count,
        ]
    }

    /// Writes the fields of `job`, which is this job without its large fields.
    fn write_fields(&self, job: &NewJob, args: &mut Vec<Value>) {
        if self.job.due != Due::Now {
            args.extend(job.packed(&self.id).args());
            return;
        }
        args.extend([Value::from_static_str("life"), self.job.generation_text().into()]);
        args.extend([Value::from_static_str("id"), text(&self.id)]);
        let fields = job.fields.iter();
        args.extend(fields.flat_map(|(name, value)| [name, value]).map(|part| Value::Bytes(part.clone())));
    }

    /// The unique key, how long it is locked, and what happens if it is.
    fn lock_args(&self) -> [Value; 4] {
        let Some(Unique { key, scope, mode }) = &self.unique else {
            return ["".into(), "".into(), Value::Integer(0), "".into()];
        };
        let window = if let UniqueScope::Window(window) = scope { *window } else { Duration::ZERO };
        [bytes(key.as_str().as_bytes()), scope.word().into(), millis(window), mode.word().into()]
    }

    /// The holder of the lock, where a search found it, and its packed fields before and after a debounce.
    fn holder_args(&self) -> [Value; 6] {
        let empty = || Value::from_static_str("");
        let Some(holder) = self.holder.as_ref().filter(|_| self.unique.is_some()) else {
            return std::array::from_fn(|_| empty());
        };
        let [lane, entry, sought] = match holder.search {
            Some(EntrySearch::At(lane, entry)) => [lane.as_str().into(), entry.to_string().into(), empty()],
            Some(EntrySearch::Gone) => [empty(), empty(), "gone".into()],
            Some(EntrySearch::Lost) => [empty(), empty(), "lost".into()],
            None => [empty(), empty(), empty()],
        };
        let [read, wanted] = match &holder.edit {
            Some(edit) => edit.clone().map(Value::Bytes),
            None => [empty(), empty()],
        };
        [text(&holder.id), lane, entry, sought, read, wanted]
    }
}

impl UniqueScope {
    fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Window(_) => "window",
        }
    }
}

impl UniqueMode {
    fn word(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Replace => "replace",
            Self::Debounce => "debounce",
        }
    }
}

fn text(id: &JobId) -> Value {
    bytes(id.to_string().as_bytes())
}

fn placed(item: &[Value]) -> Option<SubmitOutcome> {
    let [verdict, id, state] = item else { return None };
    let id: JobId = decode::text(id).parse().ok()?;
    match decode::data(verdict) {
        b"new" => Some(SubmitOutcome::New),
        b"known" | b"held" => decode::text(state).parse().ok().map(|state| SubmitOutcome::Known(id, state)),
        b"replaced" => Some(SubmitOutcome::Replaced(id)),
        b"debounced" => Some(SubmitOutcome::Debounced(id)),
        b"holder" => Some(SubmitOutcome::HeldBy(id)),
        b"hidden" => {
            let (lane, due) = decode::text(state)
                .split_once(' ')
                .map(|(lane, due)| (lane.parse().ok(), due.parse().ok()))?;
            Some(SubmitOutcome::Hidden(id, (lane?, timestamp(due?))))
        }
        b"left_out" => decode::text(state).parse().ok().map(|state| SubmitOutcome::LeftOut(id, state)),
        b"again" => Some(SubmitOutcome::Again),
        b"refused" => Some(SubmitOutcome::Refused(id, decode::text(state))),
        _ => None,
    }
}
