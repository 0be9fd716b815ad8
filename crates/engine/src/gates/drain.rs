//! Giving back what attempts held of their gates, and letting waiting jobs out of waiting lists.

use std::time::Duration;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::job::{EntryId, GateName, Lane, Limits, Rules};
use crate::{Queue, bytes};

scripts! { DRAIN "drain" }

/// The most jobs that leave waiting lists in one script …
const MAX_LEAVING: i64 = 50;

/// … and the most that they weigh, roughly.
const MAX_WEIGHT: i64 = 256 * 1024;

/// The most places that one script gives back.
pub const MAX_GIVEN_BACK: usize = 100;

/// The most waiting lists that one script looks at.
pub const MAX_WAITLISTS: usize = 20;

/// A place in a gate that an attempt held until it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPlace {
    /// The gate.
    pub gate: GateName,
    /// The entry of the attempt.
    pub entry: (Lane, EntryId),
    /// How the attempt ended, for the gate's breaker and rate; `None` if that does not matter to them.
    pub ended: Option<AttemptEnd>,
}

variants! {
    /// What an attempt's end says to a breaker.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AttemptEnd {
        /// The attempt succeeded.
        Succeeded = "ok",
        /// The attempt failed.
        Failed = "failed",
        /// It says nothing about whether the next one would succeed.
        Other = "other",
        /// It never started: this process did not ask whether its job may, or Redis refused to let it begin. Its start is given
        /// back.
        Unstarted = "unstarted",
    }
}

/// The result of one `drain`.
#[derive(Debug, Clone)]
pub struct Drained {
    /// How many jobs left their waiting lists.
    pub left: u64,
    /// After how long a gate may let the next one pass, if that depends on time alone.
    pub next_in: Option<Duration>,
    /// Whether more may leave at once.
    pub more: bool,
    /// Why some of it was not done: a key of another type.
    pub failed: Option<Error>,
}

impl HeldPlace {
    /// Creates the place of an attempt that ended like this. The rules say whether its end matters.
    pub fn new(gate: GateName, entry: (Lane, EntryId), end: AttemptEnd, rules: &Rules) -> Self {
        let Limits { rate, breaker, .. } = rules.limits_of(&gate);
        let matters = breaker.is_some() || rate.is_some() && end == AttemptEnd::Unstarted;
        Self { gate, entry, ended: matters.then_some(end) }
    }
}

impl Queue {
    /// Gives back places, at most [`MAX_GIVEN_BACK`], and lets jobs out of these waiting lists, at most [`MAX_WAITLISTS`], while their
    /// gates let them pass. See `drain.lua`.
    #[doc(hidden)]
    pub async fn drain(&self, given_back: &[HeldPlace], waitlists: &[String]) -> Result<Drained, Error> {
        let own = &self.keys;
        let mut keys =
            vec![own.gates.clone(), own.waitlists.clone(), own.waitlist_locations.clone(), own.dead.clone()];
        keys.extend(own.streams().clone());
        let ends = i64::try_from(given_back.len()).unwrap_or(i64::MAX);
        let mut args = Vec::from(args![DRAIN; most_jobs = MAX_LEAVING, most_weight = MAX_WEIGHT, ends]);
        for HeldPlace { gate, entry: (lane, entry), ended } in given_back {
            let (name, member) = (bytes(gate.as_str().as_bytes()), format!("{lane} {entry}"));
            args.extend(args![DRAIN; name, member, how = ended.map_or("", AttemptEnd::as_str)]);
        }
        args.extend(waitlists.iter().map(|waitlist| bytes(waitlist.as_bytes())));
        let answer = self.run(&DRAIN, keys, args).await?;
        let (Ok(left), [next, more, failed]) = (u64::try_from(answer.status), &answer.rest[..]) else {
            return Err(Error::contract("drain", answer));
        };
        let failed = Some(decode::text(failed)).filter(|failed| !failed.is_empty());
        Ok(Drained {
            left,
            next_in: decode::number(next).map(Duration::from_millis),
            more: decode::number(more) == Some(1),
            failed: failed.map(|failed| self.name_keys(Error::refused("drain", failed))),
        })
    }
}
