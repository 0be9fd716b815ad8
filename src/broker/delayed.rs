//! Looking at the delayed set, page by page. What moves its jobs is in `upkeep`.

use fred::types::Value;

use super::error::Error;
use super::inspect::timestamp;
use super::{Queue, decode, script};
use crate::job::{Envelope, Lane, Timestamp};

/// One script reads at most so many jobs …
const PORTION: u64 = 200;

/// … and so many bytes, unless a job alone has more …
const PORTION_BYTES: i64 = 1024 * 1024;

/// … and one page has not many more than these.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// A job in the delayed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcoming {
    /// Its id.
    pub id: String,
    /// When it is due.
    pub due: Timestamp,
    /// Its lane and fields; `None` where they cannot be read.
    pub fields: Option<(Lane, Envelope)>,
}

impl Queue {
    /// A page of the delayed set, the next due first: `count` of them, or fewer where they are large. An empty page is the
    /// end.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn upcoming(&self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while (page.len() as u64) < count && bytes < PAGE_BYTES {
            let done = page.len() as u64;
            let some = self.some_upcoming(skip + done, (count - done).min(PORTION)).await?;
            if some.is_empty() {
                break;
            }
            for mut job in some {
                if let Some((_, envelope)) = &mut job.fields {
                    self.restore_fields(&self.link, envelope).await?;
                    bytes += envelope.size();
                }
                page.push(job);
                if bytes >= PAGE_BYTES {
                    break;
                }
            }
        }
        Ok(page)
    }

    async fn some_upcoming(&self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        let keys = vec![self.keys.delayed.clone(), self.keys.delayed_fields.clone()];
        let args = [skip.cast_signed(), count.cast_signed(), PORTION_BYTES].map(Value::Integer).to_vec();
        let answer = self.run(&script::UPCOMING, keys, args).await?;
        let upcoming = |item: &[Value]| Upcoming {
            id: decode::text(&item[0]),
            due: timestamp(decode::number(&item[1]).unwrap_or(0)),
            fields: Envelope::unpack(decode::data(&item[2])).ok().map(|(envelope, lane)| (lane, envelope)),
        };
        Ok(answer.rest.chunks_exact(3).map(upcoming).collect())
    }
}
