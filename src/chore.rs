//! The clock of a chore: what a process does again and again until it is stopped. The loop's body is one tick of it.

use std::future::pending;
use std::ops::Range;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, Config, Error};
use crate::event::Events;
use crate::job::jittered;

/// By how much a pause varies if a chore does not say.
const JITTER: Range<f64> = 0.8..1.2;

/// The shortest usual pause, so that no loop spins.
const LEAST: Duration = Duration::from_millis(1);

/// How long to wait before a connection is tried again.
const CONNECT_PAUSE: Duration = Duration::from_secs(2);

/// Connects to Redis, which may be out of reach for now; `None` if it was stopped before.
pub async fn connect(redis: &Config, events: &Events, stop: &CancellationToken) -> Option<Broker> {
    let mut chore = Chore::every(CONNECT_PAUSE, events, stop).jitter(1.0..1.0);
    while chore.tick().await {
        let connected = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            connected = Broker::connect(redis.clone()) => connected,
        };
        if let Some(broker) = chore.note(connected) {
            return Some(broker);
        }
    }
    None
}

/// Says when a chore is due, and reports its errors.
pub struct Chore {
    every: Duration,
    jitter: Range<f64>,
    /// The next pause, if it is not the usual one.
    next: Option<Duration>,
    events: Events,
    stop: CancellationToken,
}

impl Chore {
    /// Returns the clock of a chore that is due at once, and then after pauses of about this length, until it is stopped.
    pub fn every(every: Duration, events: &Events, stop: &CancellationToken) -> Self {
        let (events, stop) = (events.clone(), stop.clone());
        Self { every, jitter: JITTER, next: Some(Duration::ZERO), events, stop }
    }

    /// Sets the factors between which the pauses vary; by default, 0.8 to 1.2.
    #[must_use]
    pub fn jitter(self, jitter: Range<f64>) -> Self {
        Self { jitter, ..self }
    }

    /// Puts off the first tick by a usual pause.
    #[must_use]
    pub fn later(self) -> Self {
        Self { next: None, ..self }
    }

    /// Waits until the chore is due. Returns false if it has been stopped.
    pub async fn tick(&mut self) -> bool {
        self.tick_or(pending()).await
    }

    /// Waits until the chore is due or is woken. Returns false if it has been stopped.
    pub async fn tick_or(&mut self, woken: impl Future<Output = ()>) -> bool {
        let pause = self.next.take().unwrap_or_else(|| self.varied(self.every).max(LEAST));
        if pause.is_zero() {
            return !self.stop.is_cancelled();
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = woken => true,
            () = tokio::time::sleep(pause) => true,
        }
    }

    /// Makes the next pause exactly this long. Without a pause, the next tick follows at once.
    pub fn next_in(&mut self, pause: Duration) {
        self.next = Some(pause);
    }

    /// Makes the next pause about this long.
    pub fn next_about(&mut self, pause: Duration) {
        self.next = Some(self.varied(pause));
    }

    /// Reports an error of a tick. Returns the value, if there is one.
    pub fn note<T>(&self, done: Result<T, Error>) -> Option<T> {
        done.inspect_err(|error| self.events.redis_error(error.kind(), error)).ok()
    }

    fn varied(&self, pause: Duration) -> Duration {
        jittered(pause, self.jitter.clone(), rand::random())
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::poll;

    use super::*;
    use crate::event::{Event, RedisEvent};

    const HOUR: Duration = Duration::from_secs(3600);

    fn chore() -> (Chore, CancellationToken) {
        let stop = CancellationToken::new();
        (Chore::every(HOUR, &Events::default(), &stop), stop)
    }

    async fn is_due(chore: &mut Chore) -> bool {
        poll!(std::pin::pin!(chore.tick())).is_ready()
    }

    #[tokio::test]
    async fn a_chore_is_due_at_once_and_then_after_a_pause() {
        let (mut chore, _stop) = chore();
        assert!(is_due(&mut chore).await && !is_due(&mut chore).await);
        let (chore, _stop) = self::chore();
        assert!(!is_due(&mut chore.later()).await);
    }

    #[tokio::test]
    async fn a_pause_of_its_own_counts_once() {
        let (mut chore, _stop) = chore();
        chore.next_in(Duration::ZERO);
        assert!(is_due(&mut chore).await && !is_due(&mut chore).await);
        chore.next_in(HOUR);
        assert!(!is_due(&mut chore).await);
        chore.next_about(Duration::from_millis(1));
        assert!(chore.tick().await, "after a millisecond");
    }

    #[tokio::test]
    async fn a_chore_is_woken_out_of_its_pause() {
        let (chore, _stop) = chore();
        assert!(chore.later().tick_or(ready(())).await);
    }

    #[tokio::test]
    async fn a_chore_that_is_stopped_is_not_due_any_more() {
        let (mut chore, stop) = chore();
        stop.cancel();
        assert!(!chore.tick().await, "without a pause");
        assert!(!chore.tick_or(ready(())).await, "in a pause");
    }

    #[test]
    fn pauses_vary_between_the_factors() {
        let chore = chore().0.jitter(0.5..1.5);
        let pauses: Vec<_> = (0..100).map(|_| chore.varied(HOUR)).collect();
        assert!(pauses.iter().all(|pause| (HOUR / 2..HOUR * 3 / 2).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
        assert_eq!(chore.jitter(1.0..1.0).varied(HOUR), HOUR);
    }

    #[test]
    fn errors_are_reported() {
        let reported = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reported);
        let events = Events::new(vec![Arc::new(move |event: &Event<'_>| {
            assert!(matches!(event, Event::Redis(RedisEvent::Error { .. })));
            counted.fetch_add(1, Ordering::Relaxed);
        })]);
        let chore = Chore::every(HOUR, &events, &CancellationToken::new());
        assert_eq!(chore.note(Ok(7)), Some(7));
        assert_eq!(chore.note::<u8>(Err(Error::Unreachable("away".to_owned()))), None);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
