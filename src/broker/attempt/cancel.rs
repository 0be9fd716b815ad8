//! Cancelling a job wherever it is. One that nobody runs ends at once; that another one is to end is noted, and whoever
//! holds it looks for such notes.

use crate::broker::client::script::{Answer, scripts};
use std::time::Duration;

use fred::interfaces::StreamsInterface;
use fred::types::Value;

use crate::broker::attempt::followup::FollowUpArgs;
use crate::broker::attempt::settle::{Taken, text};
use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::link::Link;
use crate::broker::{Queue, bytes, millis};
use crate::job::{End, EntryId, Envelope, Job, JobId, JobType, Lane, Life, State, cut};

scripts! { CANCEL "cancel", CANCELS "cancels", ENDINGS "endings", WISHES "wishes" }

/// So many entries of each lane are searched for a job that nothing points to.
const SOUGHT: u64 = 100_000;

/// How often a job is looked for that moves meanwhile.
const TRIES: u32 = 3;

/// A longer name of who wants it is cut.
const MAX_NAME_BYTES: usize = 128;

/// One script looks for so many lives.
const ASKED: usize = 500;

/// One script looks whether so many wishes can still be met.
const WISHES_PAGE: i64 = 200;

/// What became of the wish that a job be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancellation {
    /// Nobody ran it: it is cancelled.
    Done,
    /// Somebody runs it: it is told to end, and no later attempt starts.
    Wanted,
    /// It has ended before, and nothing was changed.
    Ended(State),
    /// No such job is known.
    Unknown,
}

/// A job where it was last seen.
#[derive(Debug, Default)]
struct Found {
    envelope: Envelope,
    lane: Lane,
    /// Its entry, unless it is delayed.
    entry: Option<EntryId>,
}

impl Queue {
    /// Cancels a job. One that waits or is delayed ends at once, and its record says so for `retention`; of one that runs
    /// it is noted that `by` wants it to end: its worker sees that within half a second.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe.
    pub async fn cancel(&self, id: &JobId, by: &str, retention: Duration) -> Result<Cancellation, Error> {
        let by = cut(by.to_owned(), MAX_NAME_BYTES);
        for left in (0..TRIES).rev() {
            let found = self.find(id).await?;
            let known = found.is_some();
            let found = found.unwrap_or_default();
            let answer = self.cancel_at(id, &found, (&by, left == 0), retention).await?;
            match (answer.status, answer.rest.first().map(decode::text)) {
                (1, _) => return Ok(Cancellation::Done),
                (2, _) => return Ok(Cancellation::Wanted),
                (3, Some(state)) => {
                    let state = state.parse().map_err(|()| Error::contract("cancel", state))?;
                    return Ok(Cancellation::Ended(state));
                }
                (0, _) if !known => return Ok(Cancellation::Unknown),
                // It has moved meanwhile, or has ended and left nothing.
                (0 | 4, _) => {}
                _ => return Err(Error::contract("cancel", answer)),
            }
        }
        Ok(Cancellation::Unknown)
    }

    async fn cancel_at(
        &self,
        id: &JobId,
        found: &Found,
        (by, at_last): (&str, bool),
        retention: Duration,
    ) -> Result<Answer, Error> {
        let entry = found.entry.unwrap_or(EntryId::new(0, 0));
        let job = Job::parse(&found.envelope, entry, found.lane).ok();
        let FollowUpArgs { keys: [lock, batch], ends } = match &job {
            Some(job) => FollowUpArgs::of(
                &self.keys,
                Taken { job, envelope: &found.envelope, trace: None },
                End::Cancelled,
            ),
            None => FollowUpArgs::none(&self.keys),
        };
        // Without an entry, only the fields themselves can name the life.
        let life = job.as_ref().filter(|_| found.entry.is_some() || found.names_life());
        let life = life.map(|job| job.life.to_string()).unwrap_or_default();
        // Who submitted it may know it by its entry, whatever id it has of its own.
        let id = job.as_ref().map_or(id, |job| &job.id);
        let keys = vec![
            self.keys.delayed.clone(),
            self.keys.delayed_fields.clone(),
            self.keys.record(id),
            self.keys.cancels.clone(),
            self.keys.stream(found.lane).clone(),
            lock,
            batch,
            self.keys.ledger(id),
            self.keys.cancel_places.clone(),
            self.keys.endings.clone(),
            job.as_ref().map_or_else(
                || self.keys.offloaded(""),
                |job| self.offloaded_of(Taken { job, envelope: &found.envelope, trace: None }),
            ),
        ];
        let created = job.as_ref().map(|job| job.created.as_ms()).filter(|ms| *ms > 0);
        let args = vec![
            id.to_string().into(),
            found.entry.map(|entry| entry.to_string()).unwrap_or_default().into(),
            millis(retention),
            bytes(by.as_bytes()),
            job.as_ref().map_or("", |job| job.job_type.as_str()).into(),
            found.lane.as_str().into(),
            created.map(|ms| ms.to_string()).unwrap_or_default().into(),
            ends,
            if at_last { "1" } else { "0" }.into(),
            life.into(),
        ];
        self.run(&CANCEL, keys, args).await
    }

    /// Where a job is: in the delayed set, at the entry its id or its record names, or among the newest entries.
    async fn find(&self, id: &JobId) -> Result<Option<Found>, Error> {
        let (parked, entry) = self.place(id).await?;
        if let Some((mut envelope, lane)) = parked {
            self.restore_fields(&self.link, &mut envelope).await?;
            return Ok(Some(Found { envelope, lane, entry: None }));
        }
        if let Some((entry, lane)) = entry
            && let Some(envelope) = self.entry(entry, lane).await?
        {
            return Ok(Some(Found { envelope, lane, entry: Some(entry) }));
        }
        for lane in Lane::ALL {
            if let Some(entry) = self.seek_entry(id, lane, SOUGHT).await?
                && let Some(envelope) = self.entry(entry, lane).await?
            {
                return Ok(Some(Found { envelope, lane, entry: Some(entry) }));
            }
        }
        Ok(None)
    }

    async fn entry(&self, entry: EntryId, lane: Lane) -> Result<Option<Envelope>, Error> {
        let client = self.link.client();
        let reply =
            client.xrange(self.keys.stream(lane).clone(), entry.to_string(), entry.to_string(), Some(1));
        let reply: Value = self.link.ask("xrange", reply).await?;
        let mut entries = decode::entries("xrange", &reply, lane)?;
        self.restore(&self.link, &mut entries).await?;
        Ok(entries.pop().and_then(|entry| entry.envelope))
    }

    /// Which of these lives somebody wants cancelled. Costs next to nothing while nobody wants anything.
    pub(crate) async fn cancels(&self, link: &Link, lives: &[&Life]) -> Result<Vec<Life>, Error> {
        let mut unwanted = Vec::new();
        let keys = || vec![self.keys.cancels.clone()];
        if link.run(&CANCELS, keys(), vec![]).await?.status == 0 {
            return Ok(unwanted);
        }
        for lives in lives.chunks(ASKED) {
            let args = lives.iter().map(text).collect();
            let answer = link.run(&CANCELS, keys(), args).await?;
            unwanted.extend(answer.rest.iter().filter_map(|life| decode::text(life).parse::<Life>().ok()));
        }
        Ok(unwanted)
    }

    /// Takes some of the jobs that were cancelled while no worker held them, and that nobody has told yet: the job, its type
    /// where it is known, and why. None is left where there are none here. See `endings.lua`.
    pub(crate) async fn endings(&self) -> Result<Vec<(JobId, Option<JobType>, String)>, Error> {
        let answer = self.run(&ENDINGS, vec![self.keys.endings.clone()], vec![]).await?;
        let ending = |text: String| {
            let mut parts = text.splitn(3, ' ');
            let (id, job_type) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok());
            Some((id, job_type, parts.next()?.to_owned()))
        };
        Ok(answer.rest.iter().map(decode::text).filter_map(ending).collect())
    }

    /// Forgets the wishes that nothing can meet any more, of a page of them behind the first `skip`. How many of the page
    /// stay, and how many there are in all. See `wishes.lua`.
    pub(crate) async fn forget_wishes(&self, skip: u64) -> Result<(u64, u64), Error> {
        let mut keys = vec![self.keys.cancels.clone(), self.keys.cancel_places.clone()];
        keys.extend(self.keys.streams().clone());
        let args = vec![Value::Integer(skip.cast_signed()), Value::Integer(WISHES_PAGE)];
        let answer = self.run(&WISHES, keys, args).await?;
        match (u64::try_from(answer.status), answer.rest.first().and_then(decode::number)) {
            (Ok(all), Some(kept)) => Ok((kept, all)),
            _ => Err(Error::contract("wishes", answer)),
        }
    }
}

impl Found {
    fn names_life(&self) -> bool {
        [b"life".as_slice(), b"created_ms"].iter().any(|name| self.envelope.get(name).is_some())
    }
}
