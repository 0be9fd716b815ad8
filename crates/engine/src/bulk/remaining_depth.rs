//! How many jobs a queue still accepts, for the plan of a move.

use fred::interfaces::HashesInterface;
use fred::types::Value;

use super::selection::BulkJobs;
use crate::client::decode;
use crate::client::error::Error;
use crate::job::QueueName;

impl BulkJobs<'_> {
    /// Returns how many more jobs the queue `to` accepts, or `None` if any number. `max_depth` is the limit of
    /// [`BulkTerms`](super::terms::BulkTerms); what the fleet of that queue has agreed on counts too, if it is lower.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn remaining_depth_of(
        self,
        to: &QueueName,
        max_depth: Option<u64>,
    ) -> Result<Option<u64>, Error> {
        let to = self.queue.beside(to);
        let client = to.link.client();
        let agreed: Value = to.link.ask("hget", client.hget(to.keys.control.clone(), "max_depth")).await?;
        let Some(limit) = max_depth.into_iter().chain(decode::number(&agreed)).min() else { return Ok(None) };
        let snapshot = to.snapshot().await?;
        let depth = snapshot.waiting() + snapshot.running() + snapshot.delayed;
        Ok(Some(limit.saturating_sub(depth)))
    }
}
