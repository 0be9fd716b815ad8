//! The election of the leader, and the calls to workers on standby.

use std::time::Duration;

use crate::client::decode::{self, timestamp};
use crate::client::error::Error;
use crate::client::link::Link;
use crate::client::script::{args, scripts};
use crate::job::{ConsumerName, Lane, Timestamp};
use crate::{Queue, millis};

scripts! { WAKE_STANDBY "wake_standby", LEAD "lead" }

/// The most workers that one script calls.
const MAX_CALLS: u8 = 64;

/// What `lead` answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadAnswer {
    /// Whether this process leads.
    pub leading: bool,
    /// How many consumers the group has.
    pub consumers: u64,
    /// Grows with every change of the recurring jobs.
    pub revision: u64,
    /// The time of the server's clock.
    pub now: Timestamp,
}

impl Queue {
    /// Waits on standby for a call, at most `longest`. True if one came. The future may be dropped: the leader repeats a
    /// call that is lost with it, as long as jobs wait.
    #[doc(hidden)]
    pub async fn await_call(&self, link: &Link, longest: Duration) -> Result<bool, Error> {
        link.pop(self.keys.calls.clone(), longest).await
    }

    /// Calls workers on standby: as many as there are waiting jobs, but no fewer than `least`. See `wake_standby.lua`.
    #[doc(hidden)]
    pub async fn call(&self, least: u8) -> Result<(), Error> {
        let mut keys = vec![self.keys.calls.clone()];
        keys.extend(self.keys.streams().clone());
        let (least, most) = (i64::from(least), i64::from(MAX_CALLS));
        self.run(&WAKE_STANDBY, keys, args![WAKE_STANDBY; least, most].into()).await.map(drop)
    }

    /// Takes or renews the leader's lease. See `lead.lua`.
    #[doc(hidden)]
    pub async fn lead(&self, consumer: &ConsumerName, lease: Duration) -> Result<LeadAnswer, Error> {
        let keys = vec![
            self.keys.leader.clone(),
            self.keys.stream(Lane::Normal).clone(),
            self.keys.cron_ticks.clone(),
        ];
        let args = args![LEAD; consumer = consumer.as_str(), lease_ms = millis(lease)];
        let answer = self.run(&LEAD, keys, args.into()).await?;
        let number = |at: usize| answer.rest.get(at).and_then(decode::number).unwrap_or(0);
        let now = timestamp(number(2));
        Ok(LeadAnswer { leading: answer.status == 1, consumers: number(0), revision: number(1), now })
    }
}
