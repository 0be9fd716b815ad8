//! Jobs with ids, each accepted once, and the locks of unique keys.

use crate::broker::client::script::scripts;
use std::time::Duration;

use bytes::Bytes;
use fred::types::{Key, Value};

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::inspect::depths::timestamp;
use crate::broker::inspect::seek::Sought;
use crate::broker::submit::enqueue::{Due, NewJob, Untaken, call, optional};
use crate::broker::{Queue, bytes, millis};
use crate::job::{BatchId, JobId, Lane, State, Timestamp, UniqueKey};

scripts! { SUBMIT "submit" }

/// How long a job with a unique key keeps others out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueScope {
    /// Until its first attempt starts. Retries do not take the lock again.
    Waiting,
    /// Until it has ended, all its retries included.
    Running,
    /// For so long from its submission, also when it is done sooner; at most a year. A dead or cancelled job keeps nobody out.
    Window(Duration),
}

/// What becomes of a job whose unique key another job holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UniqueMode {
    /// The other one stays, this one is not accepted.
    #[default]
    Reject,
    /// The other one is cancelled if no attempt of it is under way and no step of it has begun, and this one takes its place.
    Replace,
    /// If the other one is scheduled for later, it gets this one's payload and time, and keeps all else. One of another type, or
    /// of which a step has begun, stays as it is, and this one is not accepted.
    Debounce,
}

/// A unique key, and how it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unique {
    pub(crate) key: UniqueKey,
    pub(crate) scope: UniqueScope,
    pub(crate) mode: UniqueMode,
}

/// A job with an id, to be accepted once.
#[derive(Debug, Clone)]
pub(crate) struct Identified {
    pub(crate) id: JobId,
    job: NewJob,
    /// For how long, at the least, the id is remembered.
    window: Duration,
    pub(crate) unique: Option<Unique>,
    /// The batch of which it is a member.
    pub(crate) batch: Option<BatchId>,
    /// Who holds the lock, as an earlier answer said.
    pub(crate) holder: Option<Holder>,
    /// True where the id was drawn for this one submission, so that whoever has it is this job.
    pub(crate) drawn: bool,
}

/// The job that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) id: JobId,
    /// Where it waits, where that was sought.
    pub(crate) sought: Option<Sought>,
    /// Its packed fields as they were read, and with another payload, where it shall be put off.
    pub(crate) edit: Option<[Bytes; 2]>,
}

/// What became of a job that was submitted with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It was accepted.
    New,
    /// It was accepted, and this one, which held its lock, was cancelled.
    Replaced(JobId),
    /// This one, which holds its lock, got its payload and time.
    Debounced(JobId),
    /// This job is there, in this state, and was left as it is: it has the same id, or holds the lock.
    Known(JobId, State),
    /// Nothing was done: this one holds the lock. Say so, with its fields where it shall be put off, and send again.
    HeldBy(JobId),
    /// Nothing was done: this one holds the lock and was due at this time, to this lane, where it has no older entry. Seek it,
    /// say where it is, and send again.
    Hidden(JobId, (Lane, Timestamp)),
    /// Nothing was done: this job is there, in this state, and the batch cannot wait for it.
    LeftOut(JobId, State),
    /// Nothing was done: what Redis says of the keys that are this job's alone.
    Refused(JobId, String),
}

impl Queue {
    /// Appends or schedules each job unless its id is known or its lock is held, in one round trip. Sending these again is
    /// safe, and has the same answer for as long as [`RECEIPTS`](crate::broker::RECEIPTS) last. See `submit.lua`.
    pub(crate) async fn submit(
        &self,
        jobs: &[Identified],
        limit: Option<u64>,
    ) -> Result<Vec<Placed>, Untaken> {
        let own = &self.keys;
        let mut keys: Vec<Key> = vec![own.control.clone(), own.delayed.clone()];
        keys.extend([own.delayed_fields.clone(), own.wake.clone()]);
        keys.extend(own.streams().clone());
        keys.push(own.receipt(&call(jobs.iter().map(|job| (job.job.life, &job.holder)))));
        let mut args = vec![optional(limit)];
        for job in jobs {
            let held = job.holder.as_ref().map_or(&job.id, |holder| &holder.id);
            keys.extend([own.record(&job.id), own.lock(job.unique.as_ref().map(|unique| &unique.key))]);
            keys.extend([own.record(held), own.ledger(held), own.batch(job.batch.as_ref())]);
            let (own, offloaded) = self.lighten_new(&job.job).await?;
            job.write(&own, offloaded, &mut args);
        }
        let answer = Untaken::unless("submit", self.run(&SUBMIT, keys, args).await?)?;
        let placed: Option<Vec<Placed>> = answer.rest.chunks(3).map(placed).collect();
        placed
            .filter(|placed| placed.len() == jobs.len())
            .ok_or_else(|| Error::contract("submit", answer).into())
    }
}

impl Queue {
    /// The packed fields of a job that shall be put off, as they are and as they shall be: with this one's payload, and
    /// all else as it is. `None` where it is not in the delayed set.
    pub(crate) async fn put_off(&self, holder: &JobId, by: &Identified) -> Result<Option<[Bytes; 2]>, Error> {
        let is_payload = |name: &[u8]| matches!(name, b"payload" | b"encoding");
        let (Some((envelope, lane)), _) = self.place(holder).await? else { return Ok(None) };
        let fields = by.job.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let payload: Vec<_> = fields.filter(|(name, _)| is_payload(name)).collect();
        let edited = self.with_fields(&envelope, is_payload, &payload).await?;
        Ok(Some([envelope, edited].map(|fields| fields.pack(lane).into())))
    }
}

impl Identified {
    /// The job's entries say that its id is noted, so that its worker keeps the record, and which lock its end frees.
    pub(crate) fn new(id: JobId, mut job: NewJob, window: Duration, unique: Option<Unique>) -> Self {
        let batch = |(name, value): &(Bytes, Bytes)| {
            (name == "batch").then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
        };
        let batch = job.fields.iter().find_map(batch);
        let mut field = |name: &'static str, value: Bytes| {
            job.fields.push((Bytes::from_static(name.as_bytes()), value));
        };
        field("once", Bytes::from_static(b"1"));
        if let Some(unique) = &unique {
            // A window's lock ends by its time alone.
            if !matches!(unique.scope, UniqueScope::Window(_)) {
                field("unique", Bytes::copy_from_slice(unique.key.as_str().as_bytes()));
            }
            field("unique_scope", Bytes::from_static(unique.scope.word().as_bytes()));
            // What may be put off must be where that is possible.
            if unique.mode == UniqueMode::Debounce && job.due == Due::Now {
                job.due = Due::In(Duration::ZERO);
            }
        }
        Self { id, job, window, unique, batch, holder: None, drawn: false }
    }

    /// The same under an id that nobody else has, remembered for as long as it may be sent again.
    pub(crate) fn drawn(id: JobId, job: NewJob, unique: Unique) -> Self {
        Self { drawn: true, ..Self::new(id, job, Duration::from_secs(60), Some(unique)) }
    }

    /// Writes its arguments: with these fields, without the large ones that this token names.
    fn write(&self, job: &NewJob, offloaded: String, args: &mut Vec<Value>) {
        let job_type = job.fields.iter().find(|(name, _)| name == "type").map(|(_, value)| value.clone());
        args.extend([text(&self.id), self.job.life_text().into(), self.job.lane.as_str().into()]);
        args.push(Value::Bytes(job_type.unwrap_or_default()));
        args.extend(self.job.due.args());
        args.extend([millis(self.window), if self.batch.is_some() { "1" } else { "" }.into()]);
        self.write_lock(args);
        args.push(offloaded.into());
        if self.job.due != Due::Now {
            args.push(Value::Integer(2));
            args.extend(job.packed(&self.id).args());
            return;
        }
        args.push(Value::Integer(4 + 2 * job.fields.len() as i64));
        args.extend([Value::from_static_str("life"), self.job.life_text().into()]);
        args.extend([Value::from_static_str("id"), text(&self.id)]);
        let fields = job.fields.iter();
        args.extend(fields.flat_map(|(name, value)| [name, value]).map(|part| Value::Bytes(part.clone())));
    }

    fn write_lock(&self, args: &mut Vec<Value>) {
        let empty = || Value::from_static_str("");
        let Some(Unique { key, scope, mode }) = &self.unique else {
            args.extend([empty(), empty(), Value::Integer(0), empty(), empty()]);
            args.extend([empty(), empty(), empty(), empty(), empty()]);
            return;
        };
        let window = if let UniqueScope::Window(window) = scope { *window } else { Duration::ZERO };
        args.extend([
            bytes(key.as_str().as_bytes()),
            scope.word().into(),
            millis(window),
            mode.word().into(),
        ]);
        let Some(holder) = &self.holder else {
            args.extend([empty(), empty(), empty()]);
            args.extend([empty(), empty(), empty()]);
            return;
        };
        args.push(text(&holder.id));
        args.extend(match holder.sought {
            Some(Sought::At(lane, entry)) => [lane.as_str().into(), entry.to_string().into(), empty()],
            Some(Sought::Gone) => [empty(), empty(), "gone".into()],
            Some(Sought::Lost) => [empty(), empty(), "lost".into()],
            None => [empty(), empty(), empty()],
        });
        match &holder.edit {
            Some(edit) => args.extend(edit.clone().map(Value::Bytes)),
            None => args.extend([empty(), empty()]),
        }
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

fn placed(item: &[Value]) -> Option<Placed> {
    let [verdict, id, state] = item else { return None };
    let id: JobId = decode::text(id).parse().ok()?;
    match decode::data(verdict) {
        b"new" => Some(Placed::New),
        b"known" | b"held" => decode::text(state).parse().ok().map(|state| Placed::Known(id, state)),
        b"replaced" => Some(Placed::Replaced(id)),
        b"debounced" => Some(Placed::Debounced(id)),
        b"holder" => Some(Placed::HeldBy(id)),
        b"hidden" => {
            let (lane, due) = decode::text(state)
                .split_once(' ')
                .map(|(lane, due)| (lane.parse().ok(), due.parse().ok()))?;
            Some(Placed::Hidden(id, (lane?, timestamp(due?))))
        }
        b"left_out" => decode::text(state).parse().ok().map(|state| Placed::LeftOut(id, state)),
        b"refused" => Some(Placed::Refused(id, decode::text(state))),
        _ => None,
    }
}
