//! Whether a queue has a journal, and reading it. The process that has the lease writes what it reads to a database, and deletes it here
//! only afterwards: after a crash in between, the next one writes the same ends again, and the database has them once.

use std::time::Duration;

use fred::interfaces::{HashesInterface, StreamsInterface};
use fred::types::Value;

use crate::Queue;
use crate::client::decode;
use crate::client::error::Error;
use crate::client::link::entries;
use crate::client::script::scripts;
use crate::history::ended::EndedJob;
use crate::job::{EntryId, Lane, Portion, Timestamp, cut};

scripts! { JOURNAL_END "journal_end" }

/// The most ends that one call reads or deletes.
pub const MAX_ENDS: usize = 500;

/// About the most bytes that one call reads.
const MAX_BYTES: usize = 4 << 20;

/// The size of the first portion: how large its entries are is not known.
const FIRST: usize = 32;

/// The fields of the control hash. `prelude/journal.lua` names them, too.
const MOST: &str = "journal_max";
const FIELDS: &str = "journal_fields";
const BYTES: &str = "journal_bytes";
const LOST: &str = "journal_lost";
const LOST_SINCE: &str = "journal_lost_ms";
const ERROR: &str = "journal_error";
const ERROR_SINCE: &str = "journal_error_ms";

/// The most bytes of an error that are kept.
const MAX_ERROR_BYTES: usize = 500;

variants! {
    /// Of which jobs the journal has the fields, payloads included.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum JournalFields {
        /// Of none.
        None = "none",
        /// Of those that became dead letters.
        Failed = "failed",
        /// Of all that a worker ended, unless a successful one has more than 128 KiB of them.
        All = "all",
    }
}

/// What a queue's journal holds now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// How many ends wait to be written.
    pub waiting: u64,
    /// About how many bytes they take.
    pub bytes: u64,
    /// Since when the first of them waits.
    pub oldest: Option<Timestamp>,
    /// How many ends it had no room for, and since when. The history lacks them.
    pub lost: Option<(u64, Timestamp)>,
    /// How many bytes it may take; `None` if the queue has no journal.
    pub most: Option<u64>,
    /// Why the process that writes it cannot, and since when.
    pub error: Option<(String, Timestamp)>,
}

impl Queue {
    /// Makes the scripts that end jobs append to the journal, as long as it has no more than this many bytes.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn keep_journal(&self, max_bytes: u64, fields: JournalFields) -> Result<(), Error> {
        let set = vec![(MOST, max_bytes.to_string()), (FIELDS, fields.as_str().to_owned())];
        let client = self.link.client();
        let set = client.hset::<Value, _, _>(self.keys.control.clone(), set);
        self.link.ask("hset", set).await.map(drop)
    }

    /// Ends the journal. What it holds stays until it is written or the queue is deleted.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn end_journal(&self) -> Result<(), Error> {
        self.forget_journal_facts(&[MOST, FIELDS]).await
    }

    /// Forgets how many ends the journal had no room for.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn forget_lost_ends(&self) -> Result<(), Error> {
        self.forget_journal_facts(&[LOST, LOST_SINCE]).await
    }

    async fn forget_journal_facts(&self, names: &[&'static str]) -> Result<(), Error> {
        let client = self.link.client();
        let gone = client.hdel::<Value, _, _>(self.keys.control.clone(), names.to_vec());
        self.link.ask("hdel", gone).await.map(drop)
    }

    /// Takes or renews the lease of the process that writes the journal to a database; zero gives it up. Returns whether this process has
    /// it. Correctness does not depend on it.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn lead_journal(&self, own: &str, lease: Duration) -> Result<bool, Error> {
        self.link.take_lease(&self.keys.journal_writer, own, lease).await
    }

    /// Reads the oldest ends after this entry: at most [`MAX_ENDS`], and about as many as have 4 MiB. Large fields are back in place.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn read_journal(&self, after: Option<EntryId>) -> Result<Vec<EndedJob>, Error> {
        let (mut ends, mut last, mut bytes) = (Vec::new(), after, 0);
        let mut portion = Portion::new(FIRST, MAX_ENDS, MAX_BYTES / 4);
        while ends.len() < MAX_ENDS && bytes < MAX_BYTES {
            let count = portion.count().min(MAX_ENDS - ends.len());
            let range = (entries::after(last), "+".to_owned());
            let page = self.link.xrange(&self.keys.journal, range, count as u64, Lane::Normal).await?;
            portion.record_sizes(page.iter().map(crate::Entry::size));
            let is_last = page.len() < count;
            for entry in page {
                bytes += entry.size();
                last = Some(entry.id);
                let mut ended = EndedJob::read(entry.id, &entry.envelope.unwrap_or_default());
                if let Some((fields, _)) = &mut ended.fields {
                    self.restore_fields(&self.link, fields).await?;
                    bytes += fields.size();
                }
                ends.push(ended);
            }
            if is_last {
                break;
            }
        }
        Ok(ends)
    }

    /// Deletes ends that the database has. Safe to send again.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn forget_ends(&self, ends: &[EndedJob]) -> Result<(), Error> {
        for some in ends.chunks(MAX_ENDS) {
            let keys = vec![self.keys.journal.clone(), self.keys.control.clone()];
            let each = some.iter().flat_map(|ended| [ended.entry.to_string(), ended.weight.to_string()]);
            self.run(&JOURNAL_END, keys, each.map(Value::from).collect()).await?;
        }
        Ok(())
    }

    /// Notes why the journal cannot be written, and since when, or that it can. Of the reason, 500 bytes are kept.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn note_journal_error(&self, why: Option<&str>) -> Result<(), Error> {
        let Some(why) = why else { return self.forget_journal_facts(&[ERROR, ERROR_SINCE]).await };
        let (client, key) = (self.link.client(), self.keys.control.clone());
        let now = self.clock().await?.as_ms().to_string();
        self.link.ask("hsetnx", client.hsetnx::<Value, _, _, _>(key.clone(), ERROR_SINCE, now)).await?;
        let set = vec![(ERROR, cut(why.to_owned(), MAX_ERROR_BYTES))];
        self.link.ask("hset", client.hset::<Value, _, _>(key, set)).await.map(drop)
    }

    /// Returns what the journal holds.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    #[doc(hidden)]
    pub async fn journal_figures(&self) -> Result<JournalFigures, Error> {
        let client = self.link.client();
        let names = vec![BYTES, LOST, LOST_SINCE, MOST, ERROR_SINCE, ERROR];
        let facts = client.hmget::<Value, _, _>(self.keys.control.clone(), names);
        let facts = self.link.ask("hmget", facts).await?;
        let item = |nth: usize| decode::Reply::items(&facts)?.get(nth);
        let fact = |nth: usize| item(nth).and_then(decode::number);
        if [0, 1, 3].into_iter().all(|nth| fact(nth).is_none()) {
            return Ok(JournalFigures::default());
        }
        let waiting: Value = self.link.ask("xlen", client.xlen(self.keys.journal.clone())).await?;
        let all = ("-".to_owned(), "+".to_owned());
        let first = self.link.xrange(&self.keys.journal, all, 1, Lane::Normal).await?;
        Ok(JournalFigures {
            waiting: decode::number(&waiting).unwrap_or(0),
            bytes: fact(0).unwrap_or(0),
            oldest: first.first().and_then(|entry| Timestamp::from_ms(entry.id.ms)),
            lost: fact(1).map(|lost| (lost, decode::timestamp(fact(2).unwrap_or(0)))),
            most: fact(3),
            error: fact(4).zip(item(5)).map(|(since, why)| (decode::text(why), decode::timestamp(since))),
        })
    }
}
