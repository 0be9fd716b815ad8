//! Reads the jobs of many waiting lists at once, because many waiting lists have few jobs.

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, Envelope};
use crate::{Entry, Queue, bytes};

scripts! { WAITLIST_JOBS "waitlist_jobs" }

/// One script stops as soon as it has read this many jobs, …
const MOST: i64 = 128;

/// … or jobs that weigh this much.
const MOST_WEIGHT: i64 = 256 * 1024;

/// Jobs of some waiting lists.
pub(crate) struct WaitlistJobs {
    /// Those of each waiting list that was read; `None` for a waiting list whose key has another type.
    pub waitlists: Vec<Option<Vec<Entry>>>,
    /// Whether the last of these waiting lists may have more.
    pub has_more: bool,
}

impl Queue {
    /// Reads the next jobs of these waiting lists, of the first one those after this entry. It reads as many waiting lists as fit one
    /// script, but at least one.
    pub(crate) async fn waitlist_jobs(
        &self,
        names: &[&str],
        after: Option<EntryId>,
    ) -> Result<WaitlistJobs, Error> {
        let after = after.map_or_else(String::new, |after| after.to_string());
        let (most, most_weight) = (MOST, MOST_WEIGHT);
        let mut args = Vec::from(args![WAITLIST_JOBS; after, most, most_weight]);
        args.extend(names.iter().map(|name| bytes(name.as_bytes())));
        let answer = self.run(&WAITLIST_JOBS, vec![self.keys.waitlists.clone()], args).await?;
        let waitlists = answer.rest.iter().map(entries).collect::<Result<_, _>>()?;
        Ok(WaitlistJobs { waitlists, has_more: answer.status == 1 })
    }
}

/// Reads the jobs of one waiting list.
fn entries(waitlist: &Value) -> Result<Option<Vec<Entry>>, Error> {
    if waitlist.is_null() {
        return Ok(None);
    }
    let Value::Array(flat) = waitlist else { return Err(Error::contract("waitlist_jobs", waitlist)) };
    flat.chunks_exact(2).map(|pair| entry(&pair[0], &pair[1])).collect::<Result<_, _>>().map(Some)
}

fn entry(id: &Value, packed: &Value) -> Result<Entry, Error> {
    let broken = || Error::contract("waitlist_jobs", id);
    let (envelope, lane) = Envelope::unpack(decode::data(packed)).map_err(|_| broken())?;
    Ok(Entry { id: decode::entry_id(id).ok_or_else(broken)?, lane, envelope: Some(envelope) })
}
