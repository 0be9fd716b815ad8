//! Adds new jobs to the streams and the delayed set.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope, JobId, Lane, Priority, Timestamp};
use crate::{Answer, Queue, bytes};

scripts! { ENQUEUE "enqueue", SCHEDULE "schedule" }

/// How long a producer may resend one call. Redis keeps the answer for longer, to cover calls that are still in flight.
pub const RESEND_WITHIN: Duration = Duration::from_secs(25);

/// When a job is due; see the example of `Producer::reschedule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// As soon as a worker is free.
    Now,
    /// After this long, by the server's clock.
    In(Duration),
    /// At this instant of the server's clock.
    At(Timestamp),
}

impl Due {
    /// The form that scripts take: the kind of time, and its milliseconds. A priority adds a fraction of a millisecond:
    /// it orders jobs that are due at the same time, and delays none.
    #[doc(hidden)]
    pub fn args(self, priority: Option<Priority>) -> [Value; 2] {
        let (kind, ms) = match self {
            Self::Now => ("now", 0),
            Self::In(delay) => ("in", i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
            Self::At(time) => ("at", time.as_ms().cast_signed()),
        };
        let ms = match priority.map(Priority::rank) {
            None | Some(0) => ms.into(),
            // Sixteenths, which floating-point numbers have exactly.
            Some(rank) => format!("{ms}.{:04}", 625 * u32::from(rank)).into(),
        };
        [kind.into(), ms]
    }
}

/// A job to be appended or scheduled: its fields as in the wire contract, without its id.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The lane.
    pub lane: Lane,
    /// Its place among the jobs of its lane that are due at the same time.
    pub priority: Option<Priority>,
    /// When it is due.
    pub due: Due,
    /// The fields.
    pub fields: Vec<(Bytes, Bytes)>,
    /// The token of its generation: drawn once, however often the job is sent.
    pub generation: u128,
}

/// A job's packed fields, split where the time of its acceptance belongs. The script inserts the time between the two
/// parts: it has the clock, and need not unpack anything.
#[derive(Debug, PartialEq, Eq)]
pub struct Packed {
    head: Bytes,
    tail: Bytes,
}

/// Why jobs were not accepted.
#[derive(Debug)]
pub enum NotAccepted {
    /// The jobs would exceed the queue's depth limit. None was accepted.
    Full {
        /// How many jobs the queue has.
        depth: u64,
        /// How many it may have.
        limit: u64,
    },
    /// Redis refused, or did not answer.
    Broker(Error),
}

impl From<Error> for NotAccepted {
    fn from(error: Error) -> Self {
        Self::Broker(error)
    }
}

impl From<NotAccepted> for Error {
    fn from(error: NotAccepted) -> Self {
        match error {
            NotAccepted::Broker(error) => error,
            NotAccepted::Full { depth, limit } => {
                let detail = format!("the queue is full: it has {depth} of at most {limit} jobs");
                Self::Refused { command: "enqueue", class: Class::Busy, detail }
            }
        }
    }
}

impl NotAccepted {
    /// Reads an answer that may be a refusal for lack of waiting list.
    pub fn check(name: &'static str, answer: Answer) -> Result<Answer, Self> {
        if answer.status >= 0 {
            return Ok(answer);
        }
        match answer.rest.iter().map(decode::number).collect::<Option<Vec<_>>>().as_deref() {
            Some([depth, limit]) => Err(Self::Full { depth: *depth, limit: *limit }),
            _ => Err(Error::contract(name, answer).into()),
        }
    }
}

impl Queue {
    /// Appends jobs to their lanes in one round trip, and returns the ids of their entries in the same order. `limit`
    /// is the depth that the producer allows the queue to reach, if it sets one. With a `turn`, they are accepted only after
    /// those of the turn before.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if the answer was lost: the jobs may have been accepted. After any other error nothing was
    /// accepted.
    #[doc(hidden)]
    pub async fn append(
        &self,
        jobs: &[NewJob],
        limit: Option<u64>,
        turn: Option<&Turn>,
    ) -> Result<Vec<EntryId>, NotAccepted> {
        if let Some(job) = large_one(jobs) {
            return self.append_large(job, limit).await;
        }
        let mut keys = self.enqueue_keys();
        keys.extend(turn.map(|turn| self.keys.receipt(&turn.row)));
        let since = Instant::now();
        let answer = loop {
            let answer = self.run(&ENQUEUE, keys.clone(), enqueue_args(jobs, limit, turn)).await?;
            match turn.filter(|_| answer.status == OUT_OF_TURN) {
                Some(turn) => turn.wait(since).await?,
                None => break NotAccepted::check("enqueue", answer)?,
            }
        };
        turn.inspect(|turn| turn.succeed());
        let ids: Vec<EntryId> = answer.rest.iter().filter_map(decode::entry_id).collect();
        if ids.len() != jobs.len() {
            return Err(Error::contract("enqueue", answer).into());
        }
        Ok(ids)
    }

    /// Appends a job that is too large for a script. The depth is checked in a separate step, so jobs sent concurrently
    /// may each exceed it by one.
    async fn append_large(&self, job: &NewJob, limit: Option<u64>) -> Result<Vec<EntryId>, NotAccepted> {
        let look = self.run(&ENQUEUE, self.enqueue_keys(), enqueue_head(limit, 1, None)).await?;
        NotAccepted::check("enqueue", look)?;
        let key = self.keys.stream(job.lane).clone();
        let slot = ClusterHash::Custom(key.cluster_hash());
        let mut args: Vec<Value> = vec![key.into(), "*".into()];
        args.extend(job.fields.iter().flat_map(|(name, value)| [name, value]).cloned().map(Value::Bytes));
        let client = self.link.client();
        let command = CustomCommand::new_static("XADD", slot, false);
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        let reply = self.link.ask("enqueue", reply).await?;
        let id = decode::entry_id(&reply).ok_or_else(|| Error::contract("enqueue", reply))?;
        Ok(vec![id])
    }

    pub(crate) fn enqueue_keys(&self) -> Vec<Key> {
        let mut keys = vec![self.keys.control.clone(), self.keys.delayed.clone()];
        keys.extend(self.keys.streams().clone());
        keys
    }

    /// Puts jobs with ids into the delayed set in one round trip. Resending them is safe for [`RESEND_WITHIN`].
    #[doc(hidden)]
    pub async fn schedule(&self, jobs: &[(JobId, NewJob)], limit: Option<u64>) -> Result<(), NotAccepted> {
        let mut args: Vec<Value> = Vec::with_capacity(1 + 6 * jobs.len());
        args.extend(args![SCHEDULE; most = optional(limit)]);
        for (id, job) in jobs {
            let (job, offloaded) = self.offload_new(job).await?;
            let due = if job.due == Due::Now { Due::In(Duration::ZERO) } else { job.due };
            let ([when, ms], [head, tail]) = (due.args(job.priority), job.packed(id).args());
            let id = bytes(id.to_string().as_bytes());
            args.extend(args![SCHEDULE; id, when, ms, head, tail, token = offloaded]);
        }
        let keys = [&self.keys.delayed, &self.keys.delayed_fields, &self.keys.wake, &self.keys.control];
        let mut keys: Vec<Key> = keys.into_iter().cloned().collect();
        keys.extend(self.keys.streams().clone());
        keys.push(self.keys.receipt(&call(jobs.iter().map(|(_, job)| job.generation))));
        NotAccepted::check("schedule", self.run(&SCHEDULE, keys, args).await?).map(drop)
    }
}

/// The answer of `enqueue.lua` to a call that comes before its turn.
const OUT_OF_TURN: i64 = -2;

/// Calls that a producer sends without waiting for their answers. One that is not accepted stops those behind it.
#[derive(Debug)]
pub struct Row {
    last: Turn,
}

/// The place of one call in its row.
#[derive(Debug, Clone)]
pub struct Turn {
    row: Arc<str>,
    nth: u64,
    /// The last turn that is known to be accepted.
    accepted: Arc<AtomicU64>,
    has_failed: Arc<AtomicBool>,
}

impl Default for Row {
    /// Begins a row whose first turn nothing precedes.
    fn default() -> Self {
        let (accepted, has_failed) = (Arc::default(), Arc::default());
        Self { last: Turn { row: drawn_call().into(), nth: 0, accepted, has_failed } }
    }
}

impl Row {
    /// Gives the next call its turn.
    pub fn next_turn(&mut self) -> Turn {
        self.last.nth += 1;
        self.last.clone()
    }
}

impl Turn {
    /// Notes that this call is accepted.
    fn succeed(&self) {
        self.accepted.fetch_max(self.nth, Ordering::Relaxed);
    }

    /// Notes that this call is not accepted, or not known to be.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Waits before the call is sent again: Redis may have got it before an earlier one, which was sent again because the
    /// server did not know the script.
    async fn wait(&self, since: Instant) -> Result<(), Error> {
        if self.has_failed.load(Ordering::Relaxed) || since.elapsed() > RESEND_WITHIN {
            return Err(Error::contract("enqueue", "the jobs before these were not accepted"));
        }
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
        Ok(())
    }
}

/// How long a call waits that came before its turn.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Returns the job if it is alone and too large for a script.
fn large_one(jobs: &[NewJob]) -> Option<&NewJob> {
    let [job] = jobs else { return None };
    (job.size() > Envelope::LARGE_BYTES).then_some(job)
}

/// The first arguments of `enqueue.lua`, for this many jobs.
pub(crate) fn enqueue_head(limit: Option<u64>, jobs: usize, turn: Option<&Turn>) -> Vec<Value> {
    let known = optional(turn.map(|turn| turn.accepted.load(Ordering::Relaxed)));
    let (most, turn) = (optional(limit), optional(turn.map(|turn| turn.nth)));
    args![ENQUEUE; most, more = jobs as i64, turn, known].into()
}

/// The arguments of `enqueue.lua`. Redis takes fewer of them if jobs that are alike share a head.
fn enqueue_args(jobs: &[NewJob], limit: Option<u64>, turn: Option<&Turn>) -> Vec<Value> {
    let runs = jobs.chunk_by(|one, next| one.lane == next.lane && one.fields.len() == next.fields.len());
    let mut args = enqueue_head(limit, jobs.len(), turn);
    args.reserve(jobs.iter().map(|job| 3 + 2 * job.fields.len()).sum());
    for run in runs {
        let values = 2 * run[0].fields.len();
        let (lane, jobs) = (run[0].lane.as_str(), run.len() as i64);
        args.extend(args![ENQUEUE; lane, jobs, values = values as i64]);
        for (name, value) in run.iter().flat_map(|job| &job.fields) {
            args.extend([name, value].map(|text| Value::Bytes(text.clone())));
        }
    }
    args
}

impl NewJob {
    /// Returns the bytes of its names and values.
    pub fn size(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// Packs the fields as the delayed set keeps them. Scripts read the generation from the beginning.
    pub fn packed(&self, id: &JobId) -> Packed {
        const CREATED: &[u8] = b"created_ms";
        const NO_TIME: &[u8] = b"0000000000000";
        let (generation, id) = (self.generation_text(), id.to_string());
        let fields = self.fields.iter().map(|(name, value)| (&name[..], &value[..]));
        let own = [(b"life".as_slice(), generation.as_bytes()), (CREATED, NO_TIME), (b"id", id.as_bytes())];
        let packed = Bytes::from(Envelope::new(own.into_iter().chain(fields)).pack(self.lane));
        // The name precedes everything that a producer wrote; its value has one byte of length.
        let name =
            packed.windows(CREATED.len()).position(|part| part == CREATED).expect("it was just written");
        let at = name + CREATED.len() + 1;
        Packed { head: packed.slice(..at), tail: packed.slice(at + NO_TIME.len()..) }
    }

    /// The value of its field `life`.
    pub(crate) fn generation_text(&self) -> String {
        format!("{:032x}", self.generation)
    }

    /// The id of a job that needs one before it has an entry, if its producer chose none: the token of its generation. So workers
    /// know that nobody asked for this id.
    pub fn drawn_id(&self) -> JobId {
        self.generation_text().parse().expect("hexadecimal digits form a valid id")
    }
}

impl Packed {
    pub fn args(self) -> [Value; 2] {
        [Value::Bytes(self.head), Value::Bytes(self.tail)]
    }
}

/// The name of one call about these items: the same when the call is resent, and different for every other call.
pub(crate) fn call(about: impl Iterator<Item = impl Hash>) -> String {
    let mut hasher = DefaultHasher::new();
    about.for_each(|part| part.hash(&mut hasher));
    format!("{:016x}", hasher.finish())
}

/// Converts a number to an argument; '' if there is none.
pub(crate) fn optional(number: Option<u64>) -> Value {
    number.map_or_else(|| Value::from(""), |number| Value::Integer(number.cast_signed()))
}

/// Draws the name of a call. Only the same call, sent again, has the same name.
pub fn drawn_call() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_adds_less_than_a_millisecond_to_the_due_time() {
        let ms = |number| Due::In(Duration::from_secs(1)).args(Priority::new(number))[1].clone();
        assert_eq!([10, 9, 8].map(ms), [Value::Integer(1000), "1000.0625".into(), "1000.1250".into()]);
        assert_eq!([7, 4].map(ms), [Value::Integer(1000), "1000.1875".into()]);
    }

    #[test]
    fn a_time_between_the_parts_of_packed_fields_makes_them_whole() {
        for count in [0, 3, 20, 70_000] {
            let field = (Bytes::from_static(b"created_ms"), Bytes::from_static(b"x"));
            let (lane, fields) = (Lane::Low, vec![field; count]);
            let job = NewJob { lane, priority: None, due: Due::Now, fields, generation: 0xfeed_beef };
            let Packed { head, tail } = job.packed(&"order-7".parse().unwrap());
            let whole = [&head[..], b"1700000000000", &tail[..]].concat();
            let (envelope, lane) = Envelope::unpack(&whole).unwrap();
            assert_eq!((lane, envelope.len()), (Lane::Low, 3 + count));
            let mut fields = envelope.fields();
            let generation = format!("{:032x}", 0xfeed_beef_u128);
            assert_eq!(fields.next().unwrap(), (b"life".as_slice(), generation.as_bytes()));
            assert_eq!(fields.next().unwrap(), (b"created_ms".as_slice(), b"1700000000000".as_slice()));
            assert_eq!(fields.next().unwrap(), (b"id".as_slice(), b"order-7".as_slice()));
        }
    }
}
