//! The part of a rehearsal for orphans: an entry that nobody holds any more is found and made pending again.

use std::time::Duration;

use fred::interfaces::StreamsInterface;

use super::super::GROUP;
use super::{Error, Rehearsal, expect_same};
use crate::job::{EntryId, Lane};

impl Rehearsal<'_> {
    /// Makes a pending entry an orphan, finds it, and makes it pending again.
    pub(super) async fn orphan(&self, entry: EntryId) -> Result<(), Error> {
        let (link, lane) = (self.queue.link(), Lane::Normal);
        let (client, stream) = (link.client(), self.queue.keys.stream(lane).clone());
        let left: usize = link.ask("xack", client.xack(stream, GROUP, entry.to_string())).await?;
        expect_same("xack", left, 1)?;
        let found = self.queue.orphans(lane, EntryId::new(0, 0)).await?.found;
        expect_same("orphans", &found[..], &[entry][..])?;
        let held = self.queue.reclaim_orphans(&self.consumer, lane, &found, Duration::ZERO).await?;
        expect_same("reclaim", held, 1)
    }
}
