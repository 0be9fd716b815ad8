//! Waiting lists of unknown types: what workers that know a type take from the waiting list of the jobs that others could not run.

use std::time::Duration;

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, EntryId, JobType, Lane, Parking, Timestamp};
use crate::{Entry, Queue, millis};

scripts! { TYPES_WITH_JOBS "types_with_jobs", TAKE "take" }

/// The most types that a worker asks about at a time.
pub const MAX_TYPES: usize = 1000;

/// The most types that one script checks.
const TYPES_PAGE: usize = 100;

/// The most jobs that one call takes, …
pub const MAX_TAKEN: usize = 50;

/// … and the most that they weigh, roughly.
const TAKEN_WEIGHT: i64 = 256 * 1024;

/// What was taken from a waiting list.
#[derive(Debug, Default)]
pub struct Taken {
    /// How many jobs left the waiting list. Some may wait in a lane, and not be among the entries.
    pub moved: u64,
    /// Whether the waiting list has more.
    pub more: bool,
    /// The entries that were delivered to the consumer.
    pub entries: Vec<Entry>,
}

/// Which jobs may be taken by a process that does not know their type, to end them.
#[derive(Debug, Clone, Copy)]
pub struct Overdue {
    /// Those that have waited for this long by the clock of Redis, …
    pub waited: Duration,
    /// … and that it did not show a later time when they came: it may have been set forward since. Nothing if `None`.
    pub until: Option<Timestamp>,
    /// Only if no worker has known the type for this long.
    pub quiet: Duration,
}

impl Queue {
    /// Returns those of these types for which jobs wait in a waiting list. Notes that this worker knows them. See `types_with_jobs.lua`.
    /// Costs almost nothing while there are no waiting lists.
    #[doc(hidden)]
    pub async fn waiting_types(&self, link: &Link, types: &[JobType]) -> Result<Vec<JobType>, Error> {
        let keys = || vec![self.keys.waitlists.clone(), self.keys.waitlists_asked.clone()];
        let mut waiting = Vec::new();
        if types.is_empty() || link.run(&TYPES_WITH_JOBS, keys(), vec![]).await?.status == 0 {
            return Ok(waiting);
        }
        for page in types.chunks(TYPES_PAGE) {
            let args = page.iter().map(|job_type| Value::from(Parking::unknown(job_type).waitlist)).collect();
            let answer = link.run(&TYPES_WITH_JOBS, keys(), args).await?;
            let nth = |nth: &Value| page.get(usize::try_from(decode::number(nth)?.checked_sub(1)?).ok()?);
            waiting.extend(answer.rest.iter().filter_map(nth).cloned());
        }
        Ok(waiting)
    }

    /// Takes up to `most` jobs, at most [`MAX_TAKEN`], from the waiting list of a type, for this consumer. See `take.lua`.
    ///
    /// After an error, jobs may be pending on the consumer that nobody has been told about.
    #[doc(hidden)]
    pub async fn take(
        &self,
        link: &Link,
        consumer: &ConsumerName,
        (job_type, most): (&JobType, usize),
        overdue: Option<Overdue>,
    ) -> Result<Taken, Error> {
        let (own, name) = (&self.keys, Parking::unknown(job_type).waitlist);
        let shared = [&own.gates, &own.waitlists, &own.waitlist_locations, &own.waitlists_asked, &own.dead];
        let mut keys = vec![own.waitlist(&name)];
        keys.extend(shared.into_iter().chain(own.streams()).cloned());
        let [waited, quiet, until] = match overdue {
            Some(Overdue { waited, quiet, until }) => {
                [millis(waited), millis(quiet), until.map_or(0, Timestamp::as_ms).to_string().into()]
            }
            None => ["", "", ""].map(Value::from),
        };
        let args = Vec::from(args![TAKE;
            name,
            consumer = consumer.as_str(),
            most = most.min(MAX_TAKEN) as i64,
            most_weight = TAKEN_WEIGHT,
            waited_ms = waited,
            quiet_ms = quiet,
            until_ms = until,
        ]);
        let answer = link.run(&TAKE, keys, args).await?;
        let [more, lane, ids @ ..] = &answer.rest[..] else { return Err(Error::contract("take", answer)) };
        let (moved, more) = (u64::try_from(answer.status).unwrap_or(0), decode::number(more) == Some(1));
        let ids: Vec<EntryId> = ids.iter().filter_map(decode::entry_id).collect();
        let entries = match (decode::text(lane).parse::<Lane>(), &ids[..]) {
            (_, []) => Vec::new(),
            (Ok(lane), _) => self.read_taken(link, lane, &ids).await?,
            (Err(_), _) => return Err(Error::contract("take", answer)),
        };
        Ok(Taken { moved, more, entries })
    }

    /// Reads the bodies of entries that a script has just delivered, and which follow each other in their lane.
    async fn read_taken(&self, link: &Link, lane: Lane, ids: &[EntryId]) -> Result<Vec<Entry>, Error> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
        let range = (first.to_string(), last.to_string());
        let mut found = link.xrange(self.keys.stream(lane), range, ids.len() as u64, lane).await?;
        let gone = ids.iter().filter(|id| found.iter().all(|entry| entry.id != **id));
        let gone: Vec<Entry> = gone.map(|id| Entry { id: *id, lane, envelope: None }).collect();
        found.retain(|entry| ids.contains(&entry.id));
        found.extend(gone);
        self.restore_delivered(link, &mut found).await?;
        Ok(found)
    }
}
