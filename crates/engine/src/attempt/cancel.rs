//! Cancelling a job wherever it is. A job that no worker runs ends at once. For a running job the request is noted, and
//! the worker that holds it checks for such requests.

use std::time::Duration;

use crate::attempt::args::text;
use crate::attempt::followup::FollowUpArgs;
use crate::attempt::taken::TakenJob;
use crate::bulk::fence::Fence;
use crate::bulk::terms::BulkTerms;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{Answer, args, scripts};
use crate::inspect::jobs::{FoundJob, Spot};
use crate::job::{End, EntryId, Envelope, GateName, Generation, JobId, JobSpec, JobType, Lane, State, cut};
use crate::{Queue, bytes, millis};

scripts! { CANCEL "cancel", CANCELS "cancels", TAKE_CANCELLED "take_cancelled", PRUNE_CANCEL_REQUESTS "prune_cancel_requests" }

/// How many entries of each lane are searched for a job that nothing points to.
const MAX_SEARCHED: u64 = 100_000;

/// How often the search is repeated for a job that keeps moving.
const TRIES: u32 = 3;

/// The most bytes of the requester's name; a longer one is cut.
const MAX_NAME_BYTES: usize = 128;

/// The most generations that one script checks.
const MAX_GENERATIONS: usize = 500;

/// The most requests that one script checks.
const REQUESTS_PAGE: i64 = 200;

/// The outcome of a request to cancel a job; see the [example](Queue).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// No worker ran it: it is cancelled.
    Done,
    /// A worker runs it: it is asked to end, and no later attempt starts.
    Requested,
    /// It had already ended, and nothing was changed. A job that was moved to another queue is cancelled only here, if its
    /// record is still kept: the error in its [`Status`](crate::admin::Status) names that queue.
    Ended(State),
    /// No such job is known.
    Unknown,
}

/// What a worker learns about the gates while it asks something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateNews {
    /// The revision of the rules; `None` if it cannot be read.
    pub revision: Option<u64>,
    /// How many jobs wait in the waiting list of the queue's own gate.
    pub waiting: u64,
}

/// A job and its last known place.
#[derive(Debug, Default)]
struct Found {
    envelope: Envelope,
    lane: Lane,
    /// Its entry, unless it is delayed.
    entry: Option<EntryId>,
    /// The waiting list that has its entry, if none of the lanes has.
    waitlist: Option<String>,
}

impl Queue {
    /// Cancels a job. One that waits or is delayed ends at once, and its record is kept for `retention`.
    ///
    /// For one that runs, the request of `by` is noted, and its worker sees it within half a second.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe.
    pub async fn cancel(&self, id: &JobId, by: &str, retention: Duration) -> Result<Cancellation, Error> {
        let terms = BulkTerms::new(by).retention(retention);
        let cancelled = self.cancel_wherever(id, &terms, &Fence::none(&self.keys)).await?;
        Ok(cancelled.map_or(Cancellation::Unknown, |cancelled| cancelled.outcome))
    }

    /// Cancels a job wherever it is, perhaps for a task; `None` if the task is not on this page any more.
    async fn cancel_wherever(
        &self,
        id: &JobId,
        terms: &BulkTerms,
        fence: &Fence,
    ) -> Result<Option<Cancelled>, Error> {
        for left in (0..TRIES).rev() {
            let found = self.find(id).await?;
            let known = found.is_some();
            let found = found.unwrap_or_default();
            let reply = CancelReply::read(self.cancel_at(id, &found, (terms, left == 0), fence).await?)?;
            match reply {
                CancelReply::Done(cancelled) => return Ok(Some(cancelled)),
                CancelReply::Passed => return Ok(None),
                CancelReply::Unknown if !known => break,
                // It moved in the meantime, or ended without a record.
                CancelReply::Unknown | CancelReply::Moved => {}
            }
        }
        Ok(Some(Cancelled::UNKNOWN))
    }

    /// Cancels a job that a search found with these fields. It is searched for again only if it has moved since.
    pub(crate) async fn cancel_found(
        &self,
        (job, fields): (&FoundJob, Option<Envelope>),
        terms: &BulkTerms,
        fence: &Fence,
    ) -> Result<Option<Cancelled>, Error> {
        // Beside another generation of its id, the delayed set has it as `<id> <generation>`.
        let (name, is_second) = job.id.split_once(' ').map_or((job.id.as_str(), false), |(id, _)| (id, true));
        // Such a text can be in the delayed set, but it is not the id of a job.
        let Ok(id) = name.parse::<JobId>() else { return Ok(Some(Cancelled::UNKNOWN)) };
        let mut envelope = fields.unwrap_or_default();
        // `<batch> batch` is no generation of the job that has the id of the batch.
        let is_its = envelope.get(b"id") == Some(name.as_bytes()) && envelope.get(b"life").is_some();
        if is_second && !is_its {
            return Ok(Some(Cancelled::UNKNOWN));
        }
        self.restore_fields(&self.link, &mut envelope).await?;
        let lane = match job.spot() {
            Spot::Lane(lane) => lane,
            Spot::Waitlist | Spot::Delayed | Spot::Ended => job.lane.unwrap_or_default(),
        };
        let entry = job.entry.filter(|_| matches!(job.spot(), Spot::Lane(_) | Spot::Waitlist));
        let found = Found { envelope, lane, entry, waitlist: job.waitlist.clone() };
        match CancelReply::read(self.cancel_at(&id, &found, (terms, false), fence).await?)? {
            CancelReply::Done(cancelled) => Ok(Some(cancelled)),
            CancelReply::Passed => Ok(None),
            // It is elsewhere by now, or ended without a record. Nobody walks through the lanes for it: it is one of many. By the id
            // of a second generation, only the other one would be found.
            CancelReply::Unknown | CancelReply::Moved => {
                if !is_second && self.is_placed(&id, &found).await? {
                    self.cancel_wherever(&id, terms, fence).await
                } else {
                    Ok(Some(Cancelled::UNKNOWN))
                }
            }
        }
    }

    /// Returns true if something points to a job with this id, unless it is another generation than the one that was found.
    async fn is_placed(&self, id: &JobId, found: &Found) -> Result<bool, Error> {
        let other = match self.location(id).await? {
            (None, None) => return Ok(false),
            (Some((envelope, lane)), _) => Found { envelope, lane, entry: None, waitlist: None },
            (None, Some((entry, lane, waitlist))) => {
                let envelope = self.whole_entry(lane, waitlist.as_deref(), entry).await?.unwrap_or_default();
                Found { envelope, lane, entry: Some(entry), waitlist }
            }
        };
        let generation = |found: &Found| found.generation(found.job().as_ref());
        Ok(generation(found).zip(generation(&other)).is_none_or(|(own, other)| own == other))
    }

    async fn cancel_at(
        &self,
        id: &JobId,
        found: &Found,
        (terms, at_last): (&BulkTerms, bool),
        fence: &Fence,
    ) -> Result<Answer, Error> {
        let job = found.job();
        let generation = found.generation(job.as_ref());
        let FollowUpArgs { keys: [lock, batch], ends } = match (&job, &generation) {
            (Some(job), _) => FollowUpArgs::of(
                &self.keys,
                TakenJob { job, envelope: &found.envelope, trace: None },
                None,
                End::Cancelled,
            ),
            (None, Some(generation)) => {
                FollowUpArgs::of_malformed(&self.keys, &found.envelope, generation, End::Cancelled)
            }
            (None, None) => FollowUpArgs::none(&self.keys),
        };
        let generation = generation.map(|generation| generation.to_string()).unwrap_or_default();
        // Its producer may know it by its entry, even if it has an id of its own.
        let id = job.as_ref().map_or(id, |job| &job.id);
        let offloaded = match &job {
            Some(job) => self.offloaded_of(TakenJob { job, envelope: &found.envelope, trace: None }),
            None => {
                let offloaded = found.envelope.offloaded();
                self.keys.offloaded(offloaded.as_ref().map_or("", |offloaded| &offloaded.token))
            }
        };
        let keys = vec![
            self.keys.delayed.clone(),
            self.keys.delayed_fields.clone(),
            self.keys.record(id),
            self.keys.cancels.clone(),
            self.keys.stream(found.lane).clone(),
            lock,
            batch,
            self.keys.ledger(id),
            self.keys.cancel_locations.clone(),
            self.keys.endings.clone(),
            offloaded,
            self.keys.location(found.lane, found.waitlist.as_deref()),
            self.keys.waitlist_locations.clone(),
            fence.task.clone(),
        ];
        let by = cut(terms.by.clone(), MAX_NAME_BYTES);
        let created = job.as_ref().map(|job| job.created.as_ms()).filter(|ms| *ms > 0);
        let args = Vec::from(args![CANCEL;
            id = id.to_string(),
            entry = found.entry.map(|entry| entry.to_string()).unwrap_or_default(),
            retention_ms = millis(terms.retention),
            who = bytes(by.as_bytes()),
            job_type = job.as_ref().map_or("", |job| job.job_type.as_str()),
            lane = found.lane.as_str(),
            created_ms = created.map(|ms| ms.to_string()).unwrap_or_default(),
            ends,
            insists = if at_last { "1" } else { "0" },
            generation,
            page = fence.page(),
        ]);
        self.run(&CANCEL, keys, args).await
    }

    /// Looks up a job: in the delayed set, at the entry that its id or its record names, or among the newest entries.
    async fn find(&self, id: &JobId) -> Result<Option<Found>, Error> {
        let (parked, entry) = self.location(id).await?;
        if let Some((mut envelope, lane)) = parked {
            self.restore_fields(&self.link, &mut envelope).await?;
            return Ok(Some(Found { envelope, lane, entry: None, waitlist: None }));
        }
        if let Some((entry, lane, waitlist)) = entry
            && let Some(envelope) = self.whole_entry(lane, waitlist.as_deref(), entry).await?
        {
            let own_lane =
                envelope.get(b"lane").and_then(|lane| std::str::from_utf8(lane).ok()?.parse().ok());
            // The jobs that follow it go to its own lane.
            let lane = if waitlist.is_some() { own_lane.unwrap_or(lane) } else { lane };
            return Ok(Some(Found { envelope, lane, entry: Some(entry), waitlist }));
        }
        for lane in Lane::ALL {
            if let Some(entry) = self.seek_entry(id, lane, MAX_SEARCHED).await?
                && let Some(envelope) = self.whole_entry(lane, None, entry).await?
            {
                return Ok(Some(Found { envelope, lane, entry: Some(entry), waitlist: None }));
            }
        }
        Ok(None)
    }

    /// Returns those of these generations that somebody has asked to cancel, and what is new about the gates. Costs almost
    /// nothing while there are no requests.
    #[doc(hidden)]
    pub async fn cancel_requests(
        &self,
        link: &Link,
        generations: &[&Generation],
    ) -> Result<(Vec<Generation>, GateNews), Error> {
        let mut unwanted = Vec::new();
        let keys =
            || vec![self.keys.cancels.clone(), self.keys.gates.clone(), self.keys.waitlist(GateName::QUEUE)];
        let answer = link.run(&CANCELS, keys(), vec![]).await?;
        let number = |at: usize| answer.rest.get(at).and_then(decode::number);
        let news = GateNews { revision: number(0), waiting: number(1).unwrap_or(0) };
        if answer.status == 0 {
            return Ok((unwanted, news));
        }
        for generations in generations.chunks(MAX_GENERATIONS) {
            let args = generations.iter().map(text).collect();
            let answer = link.run(&CANCELS, keys(), args).await?;
            let asked = answer.rest.iter().skip(2);
            unwanted
                .extend(asked.filter_map(|generation| decode::text(generation).parse::<Generation>().ok()));
        }
        Ok((unwanted, news))
    }

    /// Takes some of the jobs that were cancelled while no worker held them and that have not been reported yet: the
    /// job, its type if known, and the reason. Returns none if there are none. See `take_cancelled.lua`.
    #[doc(hidden)]
    pub async fn endings(&self) -> Result<Vec<(JobId, Option<JobType>, String)>, Error> {
        let answer = self.run(&TAKE_CANCELLED, vec![self.keys.endings.clone()], vec![]).await?;
        let ending = |text: String| {
            let mut parts = text.splitn(3, ' ');
            let (id, job_type) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok());
            Some((id, job_type, parts.next()?.to_owned()))
        };
        Ok(answer.rest.iter().map(decode::text).filter_map(ending).collect())
    }

    /// Deletes the requests that can no longer take effect from one page of them, after the first `skip`. Returns how
    /// many of the page stay, and how many exist in all. See `prune_cancel_requests.lua`.
    #[doc(hidden)]
    pub async fn forget_cancel_requests(&self, skip: u64) -> Result<(u64, u64), Error> {
        let mut keys = vec![self.keys.cancels.clone(), self.keys.cancel_locations.clone()];
        keys.extend(self.keys.streams().clone());
        let args = Vec::from(args![PRUNE_CANCEL_REQUESTS; skip = skip.cast_signed(), most = REQUESTS_PAGE]);
        let answer = self.run(&PRUNE_CANCEL_REQUESTS, keys, args).await?;
        match (u64::try_from(answer.status), answer.rest.first().and_then(decode::number)) {
            (Ok(all), Some(kept)) => Ok((kept, all)),
            _ => Err(Error::contract("prune_cancel_requests", answer)),
        }
    }
}

/// What became of a job that a task cancels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancelled {
    pub(crate) outcome: Cancellation,
    /// Whether somebody had asked its worker before.
    pub(crate) was_asked: bool,
}

impl Cancelled {
    const UNKNOWN: Self = Self { outcome: Cancellation::Unknown, was_asked: false };
}

/// What the script said.
enum CancelReply {
    Done(Cancelled),
    Unknown,
    Moved,
    /// The task is not on this page any more.
    Passed,
}

impl CancelReply {
    fn read(answer: Answer) -> Result<Self, Error> {
        let done = |outcome, was_asked| Ok(Self::Done(Cancelled { outcome, was_asked }));
        match (answer.status, answer.rest.first().map(decode::text)) {
            (0, _) => Ok(Self::Unknown),
            (1, _) => done(Cancellation::Done, false),
            (2, Some(is_new)) => done(Cancellation::Requested, is_new == "0"),
            (3, Some(state)) => {
                let state = state.parse().map_err(|()| Error::contract("cancel", state))?;
                done(Cancellation::Ended(state), false)
            }
            (4, _) => Ok(Self::Moved),
            (5, _) => Ok(Self::Passed),
            _ => Err(Error::contract("cancel", answer)),
        }
    }
}

impl Found {
    /// The job, unless its fields are broken or not known.
    fn job(&self) -> Option<JobSpec> {
        let entry = self.entry.unwrap_or(EntryId::new(0, 0));
        JobSpec::parse(&self.envelope, entry, self.lane).ok()
    }

    /// Its generation, if its entry or its fields tell, even if they do not form a `job`.
    fn generation(&self, job: Option<&JobSpec>) -> Option<Generation> {
        if self.entry.is_none() && !self.names_generation() {
            return None;
        }
        let named = || {
            self.envelope
                .get(b"life")
                .and_then(|generation| std::str::from_utf8(generation).ok()?.parse().ok())
        };
        let of_entry = || self.entry.map(|entry| Generation::of_entry(entry, self.lane));
        job.map(|job| job.generation.clone()).or_else(named).or_else(of_entry)
    }

    fn names_generation(&self) -> bool {
        [b"life".as_slice(), b"created_ms"].iter().any(|name| self.envelope.get(name).is_some())
    }
}
