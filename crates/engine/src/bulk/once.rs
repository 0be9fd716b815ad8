//! Running a script whose answer is kept in a receipt: sent twice, it gives the same answer. Once the answer has arrived,
//! nobody needs the receipt.

use fred::interfaces::KeysInterface;
use fred::types::{Key, Value};

use crate::Queue;
use crate::client::error::Error;
use crate::client::script::{Answer, Script};
use crate::submit::enqueue::drawn_call;

impl Queue {
    /// Returns the key of the receipt of a new call.
    pub(super) fn new_receipt(&self) -> Key {
        self.keys.receipt(&drawn_call())
    }

    /// Runs a script, and deletes its receipt, which otherwise stays for less than a minute.
    pub(super) async fn run_once(
        &self,
        script: &Script,
        receipt: Key,
        (keys, args): (Vec<Key>, Vec<Value>),
    ) -> Result<Answer, Error> {
        let answer = self.run_named(script, keys, args).await?;
        let client = self.link.client();
        if let Err(error) = self.link.ask("del", client.del::<Value, _>(vec![receipt])).await {
            tracing::debug!(%error, "failed to delete a receipt");
        }
        Ok(answer)
    }
}
