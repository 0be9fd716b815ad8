//! What chores and admins do to a queue: promote, call, lead, replay, drop.

use std::time::Duration;

use fred::interfaces::ListInterface;
use fred::types::{Key, Value};

use super::dead::{Evicted, LetterLimits};
use super::error::Error;
use super::inspect::timestamp;
use super::link::Link;
use super::{Queue, decode, millis, script};
use crate::job::{ConsumerName, EntryId, JobId, Lane, State, Timestamp};

/// What one `promote` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) moved: u64,
    /// Until the next job is due; `None` where nothing is delayed.
    pub(crate) next_in: Option<Duration>,
    /// By how much the first job was late.
    pub(crate) late: Duration,
    /// True where more jobs are due than this one moved.
    pub(crate) more: bool,
}

/// The most bytes that one script promotes, unless a job alone has more. Lua reads and hashes each byte twice on the way, which
/// costs Redis about a millisecond.
const PROMOTED_BYTES: i64 = 512 * 1024;

/// The ledger of a job made of steps is kept for so long after its letter was dropped.
const LEDGER_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What became of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// The job is back in its lane, by this entry.
    As(Option<EntryId>),
    /// There is no such letter any more; where its job is now, as far as a record says so.
    Gone(Option<State>),
}

impl Replayed {
    /// True where the letter was replayed by this call.
    pub fn is_done(self) -> bool {
        matches!(self, Self::As(_))
    }
}

/// The most workers that one script calls.
const MOST_CALLS: u8 = 64;

/// Who leads, as `lead` found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leadership {
    pub(crate) leading: bool,
    /// How many consumers the group has.
    pub(crate) consumers: u64,
    /// Grows with every change of the recurring jobs.
    pub(crate) revision: u64,
    /// What the server's clock showed.
    pub(crate) now: Timestamp,
}

impl Queue {
    /// Moves up to `limit` due jobs to their lanes, fewer where they are large. See `scripts/promote.lua`.
    pub(crate) async fn promote(&self, limit: u32) -> Result<Promoted, Error> {
        let mut keys =
            vec![self.keys.delayed.clone(), self.keys.delayed_fields.clone(), self.keys.dead.clone()];
        keys.extend(self.keys.streams().clone());
        let args = vec![i64::from(limit).into(), PROMOTED_BYTES.into()];
        let answer = self.run(&script::PROMOTE, keys, args).await?;
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

    /// Waits until the head of the delayed set changes, at most so long. True where it changed.
    pub(crate) async fn await_nudge(&self, link: &Link, longest: Duration) -> Result<bool, Error> {
        pop(link, self.keys.wake.clone(), longest).await
    }

    /// Waits until somebody calls a worker that stands by, at most so long. True where somebody did. The future may be
    /// dropped: a call that is lost with it is made again by the leader, as long as jobs wait.
    pub(crate) async fn await_call(&self, link: &Link, longest: Duration) -> Result<bool, Error> {
        pop(link, self.keys.calls.clone(), longest).await
    }

    /// Calls workers that stand by: as many as there are jobs that wait, but `least` at the least. See `scripts/call.lua`.
    pub(crate) async fn call(&self, least: u8) -> Result<(), Error> {
        let mut keys = vec![self.keys.calls.clone()];
        keys.extend(self.keys.streams().clone());
        let args = [least, MOST_CALLS].map(|calls| i64::from(calls).into()).to_vec();
        self.run(&script::CALL, keys, args).await.map(drop)
    }

    /// Takes or keeps the lease of the process that does the chores. See `scripts/lead.lua`.
    pub(crate) async fn lead(&self, consumer: &ConsumerName, lease: Duration) -> Result<Leadership, Error> {
        let keys = vec![
            self.keys.leader.clone(),
            self.keys.stream(Lane::Normal).clone(),
            self.keys.cron_ticks.clone(),
        ];
        let answer = self.run(&script::LEAD, keys, vec![consumer.as_str().into(), millis(lease)]).await?;
        let number = |at: usize| answer.rest.get(at).and_then(decode::number).unwrap_or(0);
        let now = timestamp(number(2));
        Ok(Leadership { leading: answer.status == 1, consumers: number(0), revision: number(1), now })
    }

    /// Replays one dead letter. `job` is the letter's job id.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe: a letter is replayed once.
    pub async fn replay(&self, letter: EntryId, job: &JobId) -> Result<Replayed, Error> {
        self.replay_script(letter, job, "").await
    }

    /// The same, with all the steps of a job that has steps: those that are done run again too, and `once` steps with
    /// them.
    ///
    /// # Errors
    ///
    /// As [`Queue::replay`].
    pub async fn replay_all_steps(&self, letter: EntryId, job: &JobId) -> Result<Replayed, Error> {
        self.replay_script(letter, job, "1").await
    }

    async fn replay_script(
        &self,
        letter: EntryId,
        job: &JobId,
        all_steps: &'static str,
    ) -> Result<Replayed, Error> {
        let mut keys = vec![self.keys.dead.clone(), self.keys.record(job)];
        keys.extend(self.keys.streams().clone());
        keys.push(self.keys.ledger(job));
        let call = format!("{:032x}", rand::random::<u128>());
        let args = vec![letter.to_string().into(), all_steps.into(), call.into()];
        let answer = match self.run(&script::REPLAY, keys.clone(), args.clone()).await {
            // The script knows the call by its name.
            Err(Error::Unknown { .. }) => self.run(&script::REPLAY, keys, args).await?,
            answer => answer?,
        };
        let state = || answer.rest.first().and_then(|state| decode::text(state).parse().ok());
        match answer.status {
            1 => Ok(Replayed::As(answer.rest.first().and_then(decode::entry_id))),
            0 => Ok(Replayed::Gone(state())),
            _ => Err(Error::contract("replay", answer)),
        }
    }

    /// Deletes one dead letter; false where it is gone already.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn drop_dead(&self, letter: EntryId, job: &JobId) -> Result<bool, Error> {
        Ok(self.evict(letter, job, LetterLimits::default()).await? == Evicted::Dropped)
    }

    /// Deletes one dead letter where the limits do not let it stay; without limits, in any case. Of more letters than may
    /// stay, only the oldest goes.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses. Sending again is safe.
    pub async fn evict(&self, letter: EntryId, job: &JobId, limits: LetterLimits) -> Result<Evicted, Error> {
        let offloaded = self.offloaded_of_letter(letter).await?;
        let keys = vec![self.keys.dead.clone(), self.keys.record(job), self.keys.ledger(job), offloaded];
        let retention = limits.retention.map_or_else(|| "".into(), millis);
        let most = limits.most.map_or_else(String::new, |most| most.to_string());
        let args = vec![letter.to_string().into(), retention, most.into(), millis(LEDGER_KEPT)];
        let answer = self.run(&script::DROP, keys, args).await?;
        match answer.status {
            0 => Ok(Evicted::Gone),
            1 => Ok(Evicted::Dropped),
            2 => Ok(Evicted::Kept),
            _ => Err(Error::contract("drop", answer)),
        }
    }
}

/// Waits for an item of a list, whatever it is, at most so long. True where one came.
async fn pop(link: &Link, list: Key, longest: Duration) -> Result<bool, Error> {
    let client = link.client();
    let item = Box::pin(client.blpop(list, longest.as_secs_f64()));
    let popped = async {
        match item.await {
            Ok(Value::Null) => Ok(false),
            Ok(_) => Ok(true),
            // So the client calls Redis's answer that nothing came in time. A deadline of its own it does not have here.
            Err(error) if *error.kind() == fred::error::ErrorKind::Timeout => Ok(false),
            Err(error) => Err(Error::from_client("blpop", &error)),
        }
    };
    link.watch(None, popped).await
}
