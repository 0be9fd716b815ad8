//! Dead letters that somebody deleted by hand, by `XDEL`, `XTRIM` or with their stream: what they held is taken back. Nothing
//! in Redis tells of such a letter, so a list beside the letters has all that the fleet has written and not deleted itself.

use fred::types::Value;

use crate::client::decode;
use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::dead::letter::DeadLetters;
use crate::dead::replay::LEDGER_RETENTION;
use crate::job::{EntryId, JobId};
use crate::millis;

scripts! { DISCARD "discard", GONE "gone", LISTED "listed" }

/// For how many letters one script takes back what they held. The job of each may have 64 steps.
const PER_SCRIPT: usize = 20;

/// What became of a page of the list of letters.
#[derive(Debug)]
pub struct CheckedPage {
    /// How many letters somebody had deleted.
    pub forgotten: u64,
    /// How many letters the list had more than there were, at least.
    pub missing: u64,
    /// Where the next page begins; `None` if this was the last one.
    pub next: Option<String>,
}

impl DeadLetters<'_> {
    /// Looks for letters that somebody deleted by hand among a page of about 200, and takes back what they held: their places in
    /// their groups, their jobs' records, and the ids of these jobs. Begins without `from`. See `gone.lua`.
    #[doc(hidden)]
    pub async fn forget_gone(self, from: Option<&str>) -> Result<CheckedPage, Error> {
        let own = &self.queue.keys;
        let keys = vec![own.dead.clone(), own.dead_letters.clone()];
        let args = args![LISTED; cursor = from.unwrap_or("0")];
        let answer = self.queue.run(&LISTED, keys, args.into()).await?;
        let (Ok(missing), [next, page @ ..]) = (u64::try_from(answer.status), &answer.rest[..]) else {
            return Err(Error::contract("listed", answer));
        };
        let next = Some(decode::text(next)).filter(|next| next != "0");
        let letter = |pair: &[Value]| {
            Some((decode::entry_id(&pair[0])?, decode::text(&pair[1]).parse::<JobId>().ok()))
        };
        let gone: Vec<_> = page.chunks_exact(2).filter_map(letter).collect();
        Ok(CheckedPage { forgotten: self.take_back(&gone).await?, missing, next })
    }

    /// Takes back what the letter of a job held that somebody deleted by hand, even if the list of the letters was lost. Returns false
    /// if the letter exists or held nothing.
    #[doc(hidden)]
    pub async fn forget(self, letter: EntryId, job: &JobId) -> Result<bool, Error> {
        Ok(self.take_back(&[(letter, Some(job.clone()))]).await? == 1)
    }

    /// Takes back what these letters held unless they exist, each with its job. Returns how many held something.
    async fn take_back(self, gone: &[(EntryId, Option<JobId>)]) -> Result<u64, Error> {
        let own = &self.queue.keys;
        let mut forgotten = 0;
        for some in gone.chunks(PER_SCRIPT) {
            let mut keys = vec![own.dead.clone(), own.dead_letters.clone()];
            let mut args = Vec::from(args![GONE; keep_ms = millis(LEDGER_RETENTION)]);
            for (letter, job) in some {
                // The script looks at these only if the list names a job.
                let none = || own.offloaded("");
                keys.push(job.as_ref().map_or_else(none, |job| own.record(job)));
                keys.push(job.as_ref().map_or_else(none, |job| own.ledger(job)));
                args.push(letter.to_string().into());
            }
            let answer = self.queue.run(&GONE, keys, args).await?;
            forgotten += u64::try_from(answer.status).map_err(|_| Error::contract("gone", answer))?;
        }
        Ok(forgotten)
    }

    /// Goes through the whole list with [`DeadLetters::forget_gone`].
    pub(super) async fn forget_all_gone(self) -> Result<(), Error> {
        let mut from: Option<String> = None;
        loop {
            let page = self.forget_gone(from.as_deref()).await?;
            let Some(next) = page.next else { return Ok(()) };
            from = Some(next);
        }
    }

    /// Deletes large fields of letters that are gone once no copy of these can wait any more. See `discard.lua`.
    #[doc(hidden)]
    pub async fn discard_copied(self) -> Result<(), Error> {
        const MOST: i64 = 100;
        let own = &self.queue.keys;
        loop {
            let keys =
                [own.dead_offloaded.clone(), own.dead.clone()].into_iter().chain(own.streams().clone());
            let answer = self.queue.run(&DISCARD, keys.collect(), vec![]).await?;
            if answer.status < MOST {
                return Ok(());
            }
        }
    }
}
