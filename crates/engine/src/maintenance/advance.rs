//! Lets time pass for delayed jobs, in users' tests.

use std::time::Duration;

use crate::client::error::Error;
use crate::client::script::scripts;
use crate::{Queue, millis};

scripts! { ADVANCE "advance" }

impl Queue {
    /// Moves the due times of all delayed jobs back, once for each `step`. Returns how many jobs were moved, or `None`
    /// if there are more than `most`. See `advance.lua`.
    #[doc(hidden)]
    pub async fn advance(&self, by: Duration, step: u64, most: u32) -> Result<Option<u64>, Error> {
        let keys = vec![self.keys.delayed.clone(), self.keys.wake.clone(), self.keys.advanced()];
        let args = vec![millis(by), step.cast_signed().into(), i64::from(most).into()];
        Ok(u64::try_from(self.run(&ADVANCE, keys, args).await?.status).ok())
    }
}
