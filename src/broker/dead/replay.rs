//! Dead letters, moved back to their lanes or dropped.

use std::time::Duration;

use crate::broker::client::decode;
use crate::broker::client::error::Error;
use crate::broker::client::script::scripts;
use crate::broker::dead::letter::{Evicted, LetterLimits};
use crate::broker::{Queue, millis};
use crate::job::{EntryId, JobId, State};

scripts! { DROP "drop", REPLAY "replay" }

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

impl Queue {
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
        let answer = match self.run(&REPLAY, keys.clone(), args.clone()).await {
            // The script knows the call by its name.
            Err(Error::Unknown { .. }) => self.run(&REPLAY, keys, args).await?,
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
        let answer = self.run(&DROP, keys, args).await?;
        match answer.status {
            0 => Ok(Evicted::Gone),
            1 => Ok(Evicted::Dropped),
            2 => Ok(Evicted::Kept),
            _ => Err(Error::contract("drop", answer)),
        }
    }
}
