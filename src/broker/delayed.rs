//! Looking at the delayed set, page by page. What moves its jobs is in `upkeep`.

use fred::types::Value;

use super::error::Error;
use super::inspect::timestamp;
use super::{Queue, decode, script};
use crate::job::{Envelope, Lane, Timestamp};

/// A job in the delayed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upcoming {
    /// Its id.
    pub id: String,
    /// When it is due.
    pub due: Timestamp,
    /// Its lane and fields; `None` where they cannot be read.
    pub fields: Option<(Lane, Envelope)>,
}

impl Queue {
    /// A page of the delayed set, the next due first.
    ///
    /// # Errors
    ///
    /// [`Error`] where Redis does not answer or refuses.
    pub async fn upcoming(&self, skip: u64, count: u64) -> Result<Vec<Upcoming>, Error> {
        let keys = vec![self.keys.delayed.clone(), self.keys.delayed_fields.clone()];
        let args = vec![Value::Integer(skip.cast_signed()), Value::Integer(count.cast_signed())];
        let answer = self.run(&script::UPCOMING, keys, args).await?;
        let upcoming = |item: &[Value]| Upcoming {
            id: decode::text(&item[0]),
            due: timestamp(decode::number(&item[1]).unwrap_or(0)),
            fields: Envelope::unpack(decode::data(&item[2])).ok().map(|(envelope, lane)| (lane, envelope)),
        };
        Ok(answer.rest.chunks_exact(3).map(upcoming).collect())
    }
}
