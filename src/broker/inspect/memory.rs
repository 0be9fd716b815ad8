//! How much memory a queue takes.

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use futures_util::future::try_join_all;

use crate::broker::Queue;
use crate::broker::client::decode;
use crate::broker::client::error::Error;

/// How many items of each key Redis measures. The others count as much as these on average.
const SAMPLES: i64 = 10;

impl Queue {
    /// Returns about how many bytes Redis uses for the queue's lanes, its delayed jobs and its dead letters. Records, the
    /// ledgers of steps and large fields have keys of their own, and are not included.
    ///
    /// Redis measures a few items of each key, so the cost does not depend on the number of jobs, and the answer is an
    /// estimate.
    ///
    /// ```no_run
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), streamfleet::RedisError> {
    /// println!("{} takes about {} MiB", queue.name(), queue.memory().await? >> 20);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses `MEMORY USAGE`.
    pub async fn memory(&self) -> Result<u64, Error> {
        let keys = [&self.keys.delayed, &self.keys.delayed_fields, &self.keys.dead];
        let keys = keys.into_iter().chain(self.keys.streams());
        let bytes = try_join_all(keys.map(|key| self.memory_of(key))).await?;
        Ok(bytes.into_iter().sum())
    }

    /// Returns about how many bytes a key takes; 0 if there is none.
    async fn memory_of(&self, key: &Key) -> Result<u64, Error> {
        let client = self.link.client();
        // Set explicitly, because the client would hash the first argument.
        let slot = ClusterHash::Custom(key.cluster_hash());
        let command = CustomCommand::new_static("MEMORY", slot, false);
        let args: Vec<Value> = vec!["USAGE".into(), key.clone().into(), "SAMPLES".into(), SAMPLES.into()];
        let reply = async move { Box::pin(client.custom::<Value, Value>(command, args)).await };
        let bytes = self.link.ask("memory", reply).await.map_err(|error| error.of_key(key))?;
        Ok(decode::number(&bytes).unwrap_or(0))
    }
}
