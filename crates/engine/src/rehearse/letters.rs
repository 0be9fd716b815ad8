//! The part of a rehearsal for dead letters: somebody deletes one by hand, and what it held is taken back.

use fred::interfaces::StreamsInterface;

use super::{Error, Rehearsal, burial, expect_same};

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
}
