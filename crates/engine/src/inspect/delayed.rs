//! Reading the delayed set page by page. The scripts in `maintenance` move its jobs.

use fred::interfaces::HashesInterface;
use fred::types::{Key, Value};
use futures_util::future::try_join_all;

use crate::Queue;
use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{Envelope, JobId, Lane, Timestamp};
use crate::submit::amend::DelayedJob;

scripts! { UPCOMING "upcoming" }

/// The most jobs that one script reads …
const PORTION: u64 = 200;

/// … and the most bytes, unless a single job has more …
const PORTION_BYTES: i64 = 1024 * 1024;

/// … without the fields of a job that has more than this, which a separate command reads …
const LARGE_BYTES: i64 = 64 * 1024;

/// … and the most bytes of one page, roughly.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// How many scripts read at once, as long as jobs are small.
const AT_ONCE: u64 = 4;

/// What a page has of fields that are kept outside of the delayed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Large {
    Restored,
    Elsewhere,
}

/// A job in the delayed set; see the [example](Delayed).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// Its id.
    pub id: String,
    /// When it is due.
    pub due: Timestamp,
    /// Its lane and fields; `None` if they cannot be read, or the job became due in the meantime.
    pub fields: Option<(Lane, Envelope)>,
}

/// The jobs of a queue that are due later. [`Queue::delayed`] returns it.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// let now = queue.clock().await?;
/// for job in queue.delayed().page(0, 20).await? {
///     println!("{} is due in {:?}", job.id, job.due.since(now));
/// }
/// # Ok(()) }
/// ```
///
/// `Producer::reschedule` and its neighbors change these jobs.
#[derive(Clone, Copy)]
pub struct Delayed<'a> {
    queue: &'a Queue,
}

impl Queue {
    /// Gives access to the jobs that are due later.
    pub fn delayed(&self) -> Delayed<'_> {
        Delayed { queue: self }
    }

    /// Returns the packed fields of a member of the delayed set; `None` if it has none, or is gone.
    #[doc(hidden)]
    pub async fn packed(&self, member: &Value) -> Result<Option<Value>, Error> {
        let (client, key) = (self.link.client(), self.keys.delayed_fields.clone());
        let member = Key::from(decode::data(member));
        let packed: Value = self.link.ask("hget", client.hget(key, member)).await?;
        Ok(Some(packed).filter(|packed| !packed.is_null()))
    }
}

impl Delayed<'_> {
    /// Returns a page of the delayed set, the next due first.
    ///
    /// A page has `count` jobs, or fewer if they are large. An empty page is the end.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn page(self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        self.read(skip, count, Large::Restored).await
    }

    /// Returns one job of the delayed set, as `Producer::amend` needs it; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn get(self, id: &JobId) -> Result<Option<DelayedJob>, Error> {
        let Some((due, lane, bare)) = self.queue.parked(id).await? else { return Ok(None) };
        let mut fields = bare.clone();
        self.queue.restore_fields(&self.queue.link, &mut fields).await?;
        Ok(Some(DelayedJob { id: id.clone(), due, lane, fields, bare }))
    }

    /// Returns a page, but leaves large fields where they are kept.
    pub(super) async fn bare_page(self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        self.read(skip, count, Large::Elsewhere).await
    }

    async fn read(self, skip: u64, count: u64, large: Large) -> Result<Vec<Upcoming>, Error> {
        let (mut page, mut bytes, mut at_once) = (Vec::new(), 0, 1);
        while (page.len() as u64) < count && bytes < PAGE_BYTES {
            let done = page.len() as u64;
            let mut is_short = false;
            for some in self.portions(skip + done, count - done, at_once).await? {
                // What follows a short portion is read again, because it does not follow without a gap.
                is_short = (some.len() as u64) < PORTION;
                for mut job in some {
                    if let Some((_, envelope)) = &mut job.fields {
                        if large == Large::Restored {
                            self.queue.restore_fields(&self.queue.link, envelope).await?;
                        }
                        bytes += envelope.size();
                    }
                    page.push(job);
                    if bytes >= PAGE_BYTES {
                        break;
                    }
                }
                if is_short || bytes >= PAGE_BYTES {
                    break;
                }
            }
            if page.len() as u64 == done {
                break;
            }
            at_once = if is_short { 1 } else { AT_ONCE };
        }
        Ok(page)
    }

    /// Reads the next portions, at most `at_once` of them.
    async fn portions(self, skip: u64, count: u64, at_once: u64) -> Result<Vec<Vec<Upcoming>>, Error> {
        let starts = (0..at_once).map(|nth| nth * PORTION).take_while(|start| *start < count);
        try_join_all(starts.map(|start| self.some(skip + start, (count - start).min(PORTION)))).await
    }

    async fn some(self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        let keys = vec![self.queue.keys.delayed.clone(), self.queue.keys.delayed_fields.clone()];
        let args = args![UPCOMING;
            skip = skip.cast_signed(),
            most = count.cast_signed(),
            most_bytes = PORTION_BYTES,
            most_each = LARGE_BYTES,
        ];
        let answer = self.queue.run(&UPCOMING, keys, args.into()).await?;
        let upcoming = async |item: &[Value]| {
            let fields = &item[2];
            let packed =
                if fields.is_null() { self.queue.packed(&item[0]).await? } else { Some(fields.clone()) };
            let packed = packed.unwrap_or(Value::Null);
            Ok(Upcoming {
                id: decode::text(&item[0]),
                due: timestamp(decode::number(&item[1]).unwrap_or(0)),
                fields: Envelope::unpack(decode::data(&packed)).ok().map(|(envelope, lane)| (lane, envelope)),
            })
        };
        try_join_all(answer.rest.chunks_exact(3).map(upcoming)).await
    }
}
