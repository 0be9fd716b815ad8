//! Moving dead letters back to their lanes, or dropping them.

use std::sync::LazyLock;
use std::time::Duration;

use fred::types::{Key, Value};

use crate::bulk::fence::Fence;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::letter::{DeadLetters, Evicted, LetterLimits};
use crate::job::{EntryId, Envelope, JobId, State};
use crate::millis;
use crate::submit::enqueue::drawn_call;

scripts! { DROP "drop", REPLAY "replay" }

/// How long the ledger of a job made of steps is kept after its letter was dropped.
pub(super) const LEDGER_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// How many receipts of dropped letters a process has at most: it may drop a million letters.
const DROP_RECEIPTS: u64 = 64;

/// What the names of these receipts begin with.
static PROCESS: LazyLock<String> = LazyLock::new(drawn_call);

/// The outcome of a replay; see the [example](DeadLetters).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// The job is back in its lane, as this entry.
    As(Option<EntryId>),
    /// Somebody edited the letter: this one took its place.
    Edited(EntryId),
    /// The letter no longer exists; the job's state, if a record has it.
    Gone(Option<State>),
}

impl Replayed {
    /// True if this call replayed the letter.
    pub fn is_done(self) -> bool {
        matches!(self, Self::As(_))
    }
}

impl DeadLetters<'_> {
    /// Replays one dead letter. `job` is the letter's job id.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe: a letter is replayed once.
    pub async fn replay(self, letter: EntryId, job: &JobId) -> Result<Replayed, Error> {
        self.replay_as(&drawn_call(), letter, job, "").await
    }

    /// Replays one dead letter with all steps of a job that has steps: completed steps run again too, including `once`
    /// steps.
    ///
    /// # Errors
    ///
    /// The errors of [`DeadLetters::replay`].
    pub async fn replay_all_steps(self, letter: EntryId, job: &JobId) -> Result<Replayed, Error> {
        self.replay_as(&drawn_call(), letter, job, "1").await
    }

    /// Replays one dead letter as a call of this name. `all_steps`: `1` to run all its steps again.
    pub(crate) async fn replay_as(
        self,
        call: &str,
        letter: EntryId,
        job: &JobId,
        all_steps: &'static str,
    ) -> Result<Replayed, Error> {
        let record = self.queue.keys.record(job);
        let mut keys = vec![self.queue.keys.dead.clone(), record.clone()];
        keys.extend(self.queue.keys.streams().clone());
        keys.extend([self.queue.keys.ledger(job), self.queue.keys.receipt(call)]);
        let args = Vec::from(args![REPLAY; letter = letter.to_string(), all_steps]);
        let answer =
            self.queue.run_named(&REPLAY, keys, args).await.map_err(|error| error.of_record(&record))?;
        let state = || answer.rest.first().and_then(|state| decode::text(state).parse().ok());
        match answer.status {
            1 => Ok(Replayed::As(answer.rest.first().and_then(decode::entry_id))),
            0 => Ok(match self.edited(letter).await? {
                Some(edited) => Replayed::Edited(edited),
                None => Replayed::Gone(state()),
            }),
            _ => Err(Error::contract("replay", answer)),
        }
    }

    /// Deletes one dead letter; returns false if it is already gone.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn drop(self, letter: EntryId, job: &JobId) -> Result<bool, Error> {
        Ok(self.evict(letter, job, LetterLimits::default()).await? == Evicted::Dropped)
    }

    /// Deletes one dead letter if the limits do not let it stay, or always if there are no limits. If there are more
    /// letters than may stay, only the oldest is deleted.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use streamfleet::admin::{Evicted, LetterLimits};
    ///
    /// let limits = LetterLimits::default().retention(Duration::from_secs(30 * 24 * 3600)).most(10_000);
    /// for letter in queue.dead_letters().page(None, 100).await? {
    ///     if queue.dead_letters().evict(letter.entry, &letter.job(), limits).await? == Evicted::Kept {
    ///         break; // those that follow are newer
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses. Sending again is safe.
    pub async fn evict(self, letter: EntryId, job: &JobId, limits: LetterLimits) -> Result<Evicted, Error> {
        self.evict_as(&drop_receipt(letter), letter, job, limits).await
    }

    /// Deletes a letter that was read with these fields, without the large ones. Returns whether it still existed; `None` if the task
    /// that drops it is not on this page any more.
    pub(crate) async fn drop_found(
        self,
        (letter, fields): (EntryId, &Envelope),
        job: &JobId,
        fence: &Fence,
    ) -> Result<Option<bool>, Error> {
        let (parts, limits) = (self.parts_of(fields), LetterLimits::default());
        let evicted = self.send_drop(&drop_receipt(letter), (letter, job), parts, (limits, fence)).await?;
        Ok(evicted.map(|evicted| evicted == Evicted::Dropped))
    }

    /// Evicts one dead letter with a receipt of this name, in place of another one.
    pub(crate) async fn evict_as(
        self,
        receipt: &str,
        letter: EntryId,
        job: &JobId,
        limits: LetterLimits,
    ) -> Result<Evicted, Error> {
        let (parts, fence) = (self.light_parts(letter).await?, Fence::none(&self.queue.keys));
        let evicted = self.send_drop(receipt, (letter, job), parts, (limits, &fence)).await?;
        evicted.ok_or_else(|| Error::contract("drop", "a fence where there is no task"))
    }

    async fn send_drop(
        self,
        receipt: &str,
        (letter, job): (EntryId, &JobId),
        (offloaded, [group, fingerprint]): (Key, [Value; 2]),
        (limits, fence): (LetterLimits, &Fence),
    ) -> Result<Option<Evicted>, Error> {
        let record = self.queue.keys.record(job);
        let keys = vec![
            self.queue.keys.dead.clone(),
            record.clone(),
            self.queue.keys.ledger(job),
            offloaded,
            self.queue.keys.receipt(receipt),
            fence.task.clone(),
        ];
        let args = Vec::from(args![DROP;
            letter = letter.to_string(),
            stay_ms = limits.retention.map_or_else(|| "".into(), millis),
            most = limits.most.map_or_else(String::new, |most| most.to_string()),
            keep_ms = millis(LEDGER_RETENTION),
            group,
            fingerprint,
            call = drawn_call(),
            page = fence.page(),
        ]);
        let answer =
            self.queue.run_named(&DROP, keys, args).await.map_err(|error| error.of_record(&record))?;
        match answer.status {
            0 => Ok(Some(Evicted::Gone)),
            1 => Ok(Some(Evicted::Dropped)),
            2 => Ok(Some(Evicted::Kept)),
            3 => Ok(None),
            _ => Err(Error::contract("drop", answer)),
        }
    }
}

/// The name of the receipt for dropping a letter.
fn drop_receipt(letter: EntryId) -> String {
    format!("{}-{}", *PROCESS, letter.ms.wrapping_add(letter.seq) % DROP_RECEIPTS)
}
