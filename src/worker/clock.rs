//! The server's clock, as the last sign of life told it, carried on by the monotonic clock. For metrics only: no
//! decision rests on it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::Timestamp;

/// An estimate of the server's clock.
#[derive(Debug, Default)]
pub(crate) struct ServerClock {
    told: Mutex<Option<(Instant, Timestamp)>>,
}

impl ServerClock {
    pub(crate) fn tell(&self, now: Timestamp) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), now));
    }

    /// How long ago `ms` was, by the server's clock; zero while that is unknown.
    pub(crate) fn since(&self, ms: u64) -> Duration {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(((at, then), past)) = told.zip(Timestamp::from_ms(ms)) else { return Duration::ZERO };
        then.after(at.elapsed()).since(past)
    }
}
