//! The part of a rehearsal for dead letters: somebody deletes one by hand, and what it held is taken back.

use fred::interfaces::StreamsInterface;

use super::{Error, LetterLimits, Rehearsal, burial, expect_same};
use crate::job::{DeadReason, Envelope, Lane, Timestamp};
use crate::{Departed, Evicted, Filed};

impl Rehearsal<'_> {
    /// Buries a job, deletes its letter, and takes back what the letter held.
    pub(super) async fn forget(&self) -> Result<(), Error> {
        self.enqueue().await?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &burial()).await?;
        let (dead, link) = (self.queue.dead_letters(), self.queue.link());
        let letter = dead.bare().recent(None, 1).await?.pop();
        let letter = letter.ok_or_else(|| Error::contract("xrevrange", "no dead letter"))?;
        let (client, stream) = (link.client(), self.queue.keys.dead.clone());
        let deleted: usize = link.ask("xdel", client.xdel(stream, letter.entry.to_string())).await?;
        expect_same("xdel", deleted, 1)?;
        expect_same("gone", dead.forget_gone(None).await?.forgotten, 1)?;
        dead.discard_copied().await
    }

    /// Files a job that ended elsewhere, and drops its letter.
    pub(super) async fn file(&self) -> Result<(), Error> {
        let died = Timestamp::from_ms(0).unwrap_or(Timestamp::MAX);
        let fields: [(&[u8], &[u8]); 1] = [(b"payload", b"{}")];
        let departed = Departed {
            id: "filed".parse().map_err(|error| Error::contract("file", error))?,
            life: None,
            job_type: "check".parse().map_err(|error| Error::contract("file", error))?,
            lane: Lane::Normal,
            fields: Envelope::new(fields.into_iter()),
            reason: DeadReason::Restored,
            error: "a rehearsal".to_owned(),
            attempts: 0,
            created: died,
            died,
            group: None,
        };
        let (dead, job) = (self.queue.dead_letters(), departed.id.clone());
        let [Filed::As(letter)] = dead.file(&[departed]).await?[..] else {
            return Err(Error::contract("file", "no dead letter"));
        };
        let dropped = dead.evict_as(&self.named_call(), letter, &job, LetterLimits::default()).await?;
        expect_same("drop", dropped, Evicted::Dropped)
    }
}
