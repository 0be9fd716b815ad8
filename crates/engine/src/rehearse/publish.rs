//! The part of a rehearsal in which an event goes to the queue's stream.

use super::{Error, Rehearsal, expect_same};

impl Rehearsal<'_> {
    /// Publishes one event.
    pub(super) async fn publish(&self) -> Result<(), Error> {
        self.queue.events().publish(1, &[vec![("event", "rehearsed".to_owned())]]).await?;
        expect_same("xrange", self.queue.events().page(None, 2).await?.len(), 1)?;
        expect_same("xrevrange", self.queue.events().last(2).await?.len(), 1)
    }
}
