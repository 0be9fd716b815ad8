//! How much memory a queue takes.

use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Key, Value};
use futures_util::future::try_join_all;

use crate::Queue;
use crate::client::decode;
use crate::client::error::Error;

/// The most waiting lists that are measured.
const MOST_WAITLISTS: usize = 1000;

/// How many keys are measured at once.
const AT_ONCE: usize = 50;

/// How many items of each key Redis measures. The others count as much as these on average.
const SAMPLES: i64 = 10;

impl Queue {
    /// Returns about how many bytes Redis uses for the queue's lanes, at most 1000 of its waiting lists, its delayed jobs and its dead
    /// letters. Records, the ledgers of steps and large fields have keys of their own, and are not included.
    ///
    /// Redis measures a few items of each key, so the cost does not depend on the number of jobs, and the answer is an
    /// estimate.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// println!("{} takes about {} MiB", queue.name(), queue.memory().await? >> 20);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer, or refuses `MEMORY USAGE`.
    pub async fn memory(&self) -> Result<u64, Error> {
        let keys = [&self.keys.delayed, &self.keys.delayed_fields, &self.keys.dead];
        let mut keys: Vec<Key> = keys.into_iter().chain(self.keys.streams()).cloned().collect();
        keys.push(self.keys.waitlist_locations.clone());
        keys.extend(
            self.gates()
                .waitlists(MOST_WAITLISTS)
                .await?
                .iter()
                .map(|waitlist| self.keys.waitlist(&waitlist.name)),
        );
        let mut bytes = 0;
        for some in keys.chunks(AT_ONCE) {
            bytes += try_join_all(some.iter().map(|key| self.memory_of(key))).await?.into_iter().sum::<u64>();
        }
        Ok(bytes)
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
