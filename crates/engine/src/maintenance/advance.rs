//! Lets time pass for delayed jobs, in users' tests.

use std::time::Duration;

use crate::client::error::Error;
use crate::client::script::{args, scripts};
use crate::{Queue, millis};

scripts! { ADVANCE "advance" }

impl Queue {
    /// Moves the due times of all delayed jobs back, once for each `step`. Returns how many jobs were moved, or `None`
    /// if there are more than `most`. See `advance.lua`.
    #[doc(hidden)]
    pub async fn advance(&self, by: Duration, step: u64, most: u32) -> Result<Option<u64>, Error> {
        let keys = vec![self.keys.delayed.clone(), self.keys.wake.clone(), self.keys.advanced()];
        let (by_ms, step, most) = (millis(by), step.cast_signed(), i64::from(most));
        let answer = self.run(&ADVANCE, keys, args![ADVANCE; by_ms, step, most].into()).await?;
        Ok(u64::try_from(answer.status).ok())
    }
}
