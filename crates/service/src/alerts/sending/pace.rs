//! How often a sink gets messages: chat services refuse, or mute for minutes, those who send more than 20 a minute.

use std::time::{Duration, Instant};

/// How many messages may follow each other at once.
const BURST: f64 = 3.0;

/// How long one message takes to be allowed: with the burst, at most 18 in any minute.
const EACH: Duration = Duration::from_secs(4);

/// Counts what a sink may get. Its clock is the one that the caller passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    allowed: f64,
    at: Instant,
}

impl Pace {
    /// Begins with one message, because another process may have sent some just now.
    pub(super) fn new(now: Instant) -> Self {
        Self { allowed: 1.0, at: now }
    }

    /// Takes one message; or returns how long to wait before it is allowed.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() / EACH.as_secs_f64();
        self.allowed = (self.allowed + gained).min(BURST);
        self.at = self.at.max(now);
        if self.allowed < 1.0 {
            return Err(EACH.mul_f64(1.0 - self.allowed) + Duration::from_millis(1));
        }
        self.allowed -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_minute_has_more_than_18_messages(pauses in prop::collection::vec(0_u64..20_000, 1..200)) {
            let start = Instant::now();
            let (mut pace, mut now, mut sent) = (Pace::new(start), start, Vec::new());
            for pause in pauses {
                now += Duration::from_millis(pause);
                while pace.take(now).is_ok() {
                    sent.push(now);
                }
            }
            for (nth, first) in sent.iter().enumerate() {
                let within = sent[nth..].iter().take_while(|at| at.duration_since(*first) < Duration::from_secs(60));
                prop_assert!(within.count() <= 18);
            }
        }

        #[test]
        fn a_message_is_allowed_after_the_wait(pauses in prop::collection::vec(0_u64..9000, 1..50)) {
            let start = Instant::now();
            let (mut pace, mut now) = (Pace::new(start), start);
            for pause in pauses {
                now += Duration::from_millis(pause);
                if let Err(wait) = pace.take(now) {
                    prop_assert!(wait <= Duration::from_secs(5));
                    now += wait;
                    prop_assert!(pace.take(now).is_ok());
                }
            }
        }
    }
}
