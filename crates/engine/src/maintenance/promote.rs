//! Moving due jobs from the delayed set to their lanes.

use std::time::Duration;

use crate::Queue;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{args, scripts};

scripts! { PROMOTE "promote" }

/// The result of one `promote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promoted {
    /// How many jobs were moved.
    pub moved: u64,
    /// The time until the next job is due; `None` if nothing is delayed.
    pub next_in: Option<Duration>,
    /// How late the first job was.
    pub late: Duration,
    /// True if more jobs are due than were moved.
    pub more: bool,
}

/// The most that the jobs of one script weigh, unless a single job weighs more. Lua reads and hashes each byte twice on the
/// way, which costs Redis about a millisecond.
const PROMOTED_WEIGHT: i64 = 512 * 1024;

impl Queue {
    /// Moves up to `limit` due jobs to their lanes, fewer if they are heavy. See `promote.lua`.
    #[doc(hidden)]
    pub async fn promote(&self, limit: u32) -> Result<Promoted, Error> {
        let mut keys =
            vec![self.keys.delayed.clone(), self.keys.delayed_fields.clone(), self.keys.dead.clone()];
        keys.extend(self.keys.streams().clone());
        let args = Vec::from(args![PROMOTE; most = i64::from(limit), most_weight = PROMOTED_WEIGHT]);
        let answer = self.run(&PROMOTE, keys, args).await?;
        let (Ok(moved), [next, late, more]) = (u64::try_from(answer.status), &answer.rest[..]) else {
            return Err(Error::contract("promote", answer));
        };
        Ok(Promoted {
            moved,
            next_in: decode::number(next).map(Duration::from_millis),
            late: Duration::from_millis(decode::number(late).unwrap_or(0)),
            more: decode::number(more) == Some(1),
        })
    }

    /// Waits until the head of the delayed set changes, at most `longest`. True if it changed.
    #[doc(hidden)]
    pub async fn await_nudge(&self, link: &Link, longest: Duration) -> Result<bool, Error> {
        link.pop(self.keys.wake.clone(), longest).await
    }
}
