//! Moving jobs that no worker holds to another queue of the same server. Every job is moved by one script, as a whole: its
//! entry or its place in the delayed set, its record, its lock and its large fields.
//!
//! Large fields are copied to a key of the other queue beforehand, as before every script; see `submit/offload.rs`.

use std::collections::VecDeque;

use fred::types::{Key, Value};
use futures_util::future::try_join_all;

use super::fence::{Fence, MARK};
use super::outcome::Outcome;
use super::terms::BulkTerms;
use crate::attempt::args::{flag, flatten, text};
use crate::attempt::taken::{TakenJob, identified};
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::inspect::jobs::Spot;
use crate::job::{EntryId, Envelope, Former, JobId, JobSpec, Lane, QueueName, UniqueKey, weight};
use crate::submit::offload::ScriptFields;
use crate::{FoundJob, Queue, bytes};

scripts! { MOVE_JOBS "move_jobs" }

/// The most jobs of one script …
const MAX_JOBS: usize = 30;

/// … the most that they weigh, unless a single job weighs more …
const MAX_WEIGHT: usize = 256 * 1024;

/// … and the weight of records after which it stops.
const MAX_RECORD_WEIGHT: i64 = 256 * 1024;

/// How many jobs are prepared at once.
const AT_ONCE: usize = 8;

/// The key of a job that has the copy of its large fields.
const COPY: usize = 7;

variants! {
    /// Why a job was not moved. It is where it was, and goes on there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum KeptBack {
        /// A worker has taken it.
        Running = "running",
        /// Somebody has asked to cancel it.
        Cancelling = "cancelling",
        /// It has begun some of its steps.
        Steps = "steps",
        /// It is a member of a batch, or a batch counts on it.
        Batch = "batch",
        /// A campaign replayed it, and counts how it ends.
        Campaign = "campaign",
        /// Dead letters of its id, or a success that came late, need its record, or it is the copy of a letter that a producer
        /// appended.
        Letters = "letters",
        /// Its record or its fields are too many for one script.
        Large = "large",
        /// A job of the other queue has its id or its unique key.
        Taken = "taken",
        /// The other queue has as many jobs as it accepts (`max_depth`).
        Full = "full",
        /// Its fields changed meanwhile, or another generation of its id took its place.
        Changed = "changed",
        /// Its fields are not those of a job, or some of them are gone.
        Unreadable = "unreadable",
    }
}

/// Where jobs go, for whom, and within which bounds.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) to: &'a Queue,
    pub(super) terms: &'a BulkTerms,
    /// The task that moves them; see [`MARK`].
    pub(super) mark: &'a str,
    pub(super) fence: &'a Fence,
}

/// One job, as the script takes it.
struct Parcel {
    /// Where it stands among the jobs of the call.
    nth: usize,
    keys: [Key; 9],
    args: Vec<Value>,
    weight: usize,
}

impl Queue {
    /// Returns another queue of the namespace over the same connection. It must be on the same server.
    pub(crate) fn beside(&self, name: &QueueName) -> Self {
        Self { name: name.clone(), keys: self.keys.beside(name).into(), link: self.link.clone() }
    }

    /// Moves jobs that a search found to another queue. Returns what became of each; `None` if the task is not on this page any more.
    pub(super) async fn move_jobs(
        &self,
        route: Route<'_>,
        found: &[(FoundJob, Option<Envelope>)],
    ) -> Result<Option<Vec<Outcome>>, Error> {
        let (mut outcomes, no_copy) = (vec![Outcome::Gone; found.len()], route.to.keys.offloaded(""));
        let mut waiting = VecDeque::with_capacity(found.len());
        for (at, some) in found.chunks(AT_ONCE).enumerate() {
            let first = at * AT_ONCE;
            let preparing = some
                .iter()
                .enumerate()
                .map(|(nth, (job, fields))| self.parcel(route, first + nth, (job, fields.as_ref())));
            let mut has_copies = false;
            for (nth, parcel) in try_join_all(preparing).await?.into_iter().enumerate() {
                match parcel {
                    Ok(parcel) => {
                        has_copies |= parcel.keys[COPY] != no_copy;
                        waiting.push_back(parcel);
                    }
                    Err(why) => outcomes[first + nth] = Outcome::Kept(why),
                }
            }
            // Until a job has moved, Redis has its large fields twice.
            if has_copies && !self.send_all(route, &mut waiting, &mut outcomes).await? {
                return Ok(None);
            }
        }
        let is_sent = self.send_all(route, &mut waiting, &mut outcomes).await?;
        Ok(Some(outcomes).filter(|_| is_sent))
    }

    /// Moves the jobs that are prepared, and notes what became of each. Returns false if the task is not on this page any more.
    async fn send_all(
        &self,
        route: Route<'_>,
        waiting: &mut VecDeque<Parcel>,
        outcomes: &mut [Outcome],
    ) -> Result<bool, Error> {
        while !waiting.is_empty() {
            let some = portion(waiting);
            let Some(reply) = self.send(route, &some).await? else { return Ok(false) };
            let mut later = Vec::new();
            for (parcel, reply) in some.into_iter().zip(reply) {
                match reply {
                    Some(reply) => outcomes[parcel.nth] = reply,
                    None => later.push(parcel),
                }
            }
            // They were next, and are again.
            later.into_iter().rev().for_each(|parcel| waiting.push_front(parcel));
        }
        Ok(true)
    }

    /// Runs the script. Returns what became of each job, or nothing for those that it left for another call; `None` if the task is not
    /// on this page.
    async fn send(
        &self,
        Route { to, terms, mark, fence }: Route<'_>,
        some: &[Parcel],
    ) -> Result<Option<Vec<Option<Outcome>>>, Error> {
        let (own, other, receipt) = (&self.keys, &to.keys, self.new_receipt());
        let mut keys = vec![own.delayed.clone(), own.delayed_fields.clone(), own.waitlist_locations.clone()];
        keys.extend([own.cancels.clone(), receipt.clone()]);
        keys.extend([other.delayed.clone(), other.delayed_fields.clone(), other.waitlist_locations.clone()]);
        keys.push(other.wake.clone());
        keys.extend(other.streams().clone());
        keys.extend([other.control.clone(), own.counts.clone(), other.counts.clone(), fence.task.clone()]);
        keys.extend(some.iter().flat_map(|parcel| parcel.keys.clone()));
        let mut args = Vec::from(args![MOVE_JOBS;
            by = bytes(terms.by.as_bytes()),
            target = text(to.name()),
            most_weight = MAX_RECORD_WEIGHT,
            max_depth = terms.max_depth.map_or_else(String::new, |jobs| jobs.to_string()),
            mark,
            page = fence.page(),
        ]);
        args.extend(some.iter().flat_map(|parcel| parcel.args.clone()));
        let answer = self.run_once(&MOVE_JOBS, receipt, (keys, args)).await?;
        if answer.status == 0 {
            return Ok(None);
        }
        let is_whole = answer.rest.len() == some.len();
        let is_stuck = answer.rest.first().is_some_and(|reply| decode::text(reply) == "later");
        if !is_whole || is_stuck {
            return Err(Error::contract("move_jobs", answer));
        }
        Ok(Some(answer.rest.iter().map(|reply| Outcome::read(&decode::text(reply))).collect()))
    }

    /// Prepares a job for the script, or says why it stays.
    async fn parcel(
        &self,
        Route { to, mark, .. }: Route<'_>,
        nth: usize,
        (job, fields): (&FoundJob, Option<&Envelope>),
    ) -> Result<Result<Parcel, KeptBack>, Error> {
        let Some(bare) = fields else { return Ok(Err(KeptBack::Unreadable)) };
        let mut whole = bare.clone();
        self.restore_fields(&self.link, &mut whole).await?;
        let (lane, waitlist, is_delayed) = match job.spot() {
            Spot::Lane(lane) => (lane, None, false),
            Spot::Waitlist => (Lane::Normal, job.waitlist.as_deref(), false),
            Spot::Delayed => (job.lane.unwrap_or_default(), None, true),
            Spot::Ended => return Ok(Err(KeptBack::Unreadable)),
        };
        let entry = job.entry.filter(|_| !is_delayed);
        let spec = JobSpec::parse(&whole, entry.unwrap_or(EntryId::new(0, 0)), lane).ok();
        let Some(spec) = spec.filter(|_| whole.is_whole()) else { return Ok(Err(KeptBack::Unreadable)) };
        let ties = spec.follow_ups.as_deref();
        if ties.is_some_and(|ties| ties.batch.is_some()) {
            return Ok(Err(KeptBack::Batch));
        }
        if ties.is_some_and(|ties| ties.campaign.is_some()) {
            return Ok(Err(KeptBack::Campaign));
        }
        // Its letter is moved when it first begins, which a worker of the other queue cannot do.
        if spec.attempt == 0 && spec.former.as_deref().is_some_and(Former::names_letter) {
            return Ok(Err(KeptBack::Letters));
        }
        let taken = TakenJob { job: &spec, envelope: &whole, trace: None };
        let (read, values, kept) = if is_delayed {
            packed(to, lane, (bare, &whole), (&spec, mark)).await?
        } else {
            flat(to, taken, mark).await?
        };
        let names = |name: &&[u8]| bare.get(name).is_some();
        let names_generation = entry.is_some() || [b"life".as_slice(), b"created_ms"].iter().any(names);
        let generation = if names_generation { spec.generation.to_string() } else { String::new() };
        // Nobody else's record has the name of no generation.
        let named = generation.parse::<JobId>().unwrap_or_else(|_| spec.id.clone());
        let is_there = to.has_entry_of(&named, &generation).await?;
        let lock = |key: Option<&UniqueKey>, queue: &Self| queue.keys.lock(key);
        let unique = ties.and_then(|ties| ties.unique.as_ref());
        let keys = [
            if is_delayed { self.keys.delayed.clone() } else { self.keys.location(lane, waitlist) },
            self.keys.record(&spec.id),
            self.keys.ledger(&spec.id),
            lock(unique, self),
            self.offloaded_of(taken),
            to.keys.record(&spec.id),
            lock(unique, to),
            kept,
            to.keys.record(&named),
        ];
        // Without room for a copy of large fields, the script carries them.
        let carried: usize = values.iter().map(|value| value.as_bytes().map_or(0, <[u8]>::len)).sum();
        let size = bare.size().max(carried) + read.len();
        let mut args = Vec::from(args![MOVE_JOBS;
            id = text(&spec.id),
            generation,
            lane = spec.own_lane.as_str(),
            member = bytes(if is_delayed { job.id.as_bytes() } else { b"" }),
            entry = entry.map(|entry| entry.to_string()).unwrap_or_default(),
            read = Value::Bytes(read.into()),
            is_there = flag(is_there),
            count = i64::try_from(values.len()).unwrap_or(i64::MAX),
        ]);
        args.extend(values);
        Ok(Ok(Parcel { nth, keys, args, weight: weight(size, bare.len()) }))
    }
}

impl Queue {
    /// Returns true if the entry that this generation is named for is in a lane. One that names another generation only happens to have
    /// this number. A generation that begins later gets another number.
    async fn has_entry_of(&self, named: &JobId, generation: &str) -> Result<bool, Error> {
        let Some((entry, lane)) = named.origin().filter(|_| !generation.is_empty()) else { return Ok(false) };
        let found = self.bare_entry(lane, None, entry).await?.and_then(|entry| entry.envelope);
        Ok(found.is_some_and(|fields| fields.get(b"life").is_none_or(|own| own == generation.as_bytes())))
    }
}

/// The packed fields that were read if others take their place, the values for the script, and the key of the large fields.
type Contents = (Vec<u8>, Vec<Value>, Key);

/// A job of a stream: its fields, with the identity that its first entry gave it and the mark, and without what a waiting list added.
async fn flat(to: &Queue, taken: TakenJob<'_>, mark: &str) -> Result<Contents, Error> {
    let is_extra =
        |name: &[u8]| matches!(name, b"offloaded" | b"lane" | b"room_gates" | b"room_moves" | MARK);
    let fields = identified(taken, None).edited(is_extra, &[(MARK, mark.as_bytes())]);
    let ScriptFields { envelope, offloaded } = to.offload_large(fields, &taken.job.generation).await?;
    let mut values = Vec::with_capacity(2 * envelope.len());
    flatten(&envelope, &mut values);
    Ok((Vec::new(), values, offloaded))
}

/// A delayed job. Its packed fields stay as they are, but for the mark, unless they name a key of this queue.
async fn packed(
    to: &Queue,
    lane: Lane,
    (bare, whole): (&Envelope, &Envelope),
    (spec, mark): (&JobSpec, &str),
) -> Result<Contents, Error> {
    if bare.offloaded().is_none() {
        return Ok((Vec::new(), Vec::new(), to.keys.offloaded("")));
    }
    let is_replaced = |name: &[u8]| matches!(name, b"offloaded" | MARK);
    let fields = whole.edited(is_replaced, &[(MARK, mark.as_bytes())]);
    let ScriptFields { envelope, offloaded } = to.offload_large(fields, &spec.generation).await?;
    Ok((bare.pack(lane), vec![Value::Bytes(envelope.pack(lane).into())], offloaded))
}

/// Takes the jobs of the next script.
fn portion(waiting: &mut VecDeque<Parcel>) -> Vec<Parcel> {
    let (mut some, mut sum) = (Vec::new(), 0);
    while let Some(parcel) = waiting.pop_front() {
        sum += parcel.weight;
        if !some.is_empty() && (some.len() >= MAX_JOBS || sum > MAX_WEIGHT) {
            waiting.push_front(parcel);
            break;
        }
        some.push(parcel);
    }
    some
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parcel(nth: usize, weight: usize) -> Parcel {
        let keys = std::array::from_fn(|_| Key::from("k".to_owned()));
        Parcel { nth, keys, args: Vec::new(), weight }
    }

    proptest! {
        #[test]
        fn every_job_is_sent_once_in_its_order_and_in_bounded_portions(weights in proptest::collection::vec(0..400_000_usize, 0..200)) {
            let mut waiting: VecDeque<_> = weights.iter().enumerate().map(|(nth, weight)| parcel(nth, *weight)).collect();
            let mut sent = Vec::new();
            while !waiting.is_empty() {
                let some = portion(&mut waiting);
                let sum: usize = some.iter().map(|parcel| parcel.weight).sum();
                prop_assert!(!some.is_empty() && some.len() <= MAX_JOBS);
                prop_assert!(some.len() == 1 || sum <= MAX_WEIGHT);
                sent.extend(some.iter().map(|parcel| parcel.nth));
            }
            prop_assert_eq!(sent, (0..weights.len()).collect::<Vec<_>>());
        }
    }
}
