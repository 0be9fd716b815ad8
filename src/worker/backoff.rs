//! How long to wait before asking Redis again: growing, and spread at random, so that a fleet does not return in step.

use std::time::Duration;

use crate::broker::Error;
use crate::job::{doubled, jittered};

/// The pauses between tries of one operation.
#[derive(Debug)]
pub(crate) struct RedisBackoff {
    tries: u32,
}

impl RedisBackoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);
    /// The pause after an error that a person must fix, which is retried less often.
    const CONFIGURATION: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Self {
        Self { tries: 0 }
    }

    /// Waits before the next try after `error`.
    pub(crate) async fn wait(&mut self, error: &Error) {
        tokio::time::sleep(self.pause(error, rand::random())).await;
    }

    fn pause(&mut self, error: &Error, roll: f64) -> Duration {
        let doubled = doubled(Self::FIRST, self.tries, Self::LONGEST);
        self.tries += 1;
        let base = if error.is_transient() { doubled } else { Self::CONFIGURATION };
        jittered(base, 0.5..1.5, roll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_limit() {
        let error = Error::Unknown { command: "ping", detail: "closed".to_owned() };
        let mut backoff = RedisBackoff::new();
        let pauses: Vec<_> = (0..12).map(|_| backoff.pause(&error, 0.5)).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(pauses[0], RedisBackoff::FIRST);
        assert_eq!(pauses[11], RedisBackoff::LONGEST);
    }

    #[test]
    fn wrong_configuration_is_not_asked_about_often() {
        let error = Error::Address("redis.url".to_owned());
        assert!(RedisBackoff::new().pause(&error, 0.0) >= Duration::from_secs(2));
    }
}
