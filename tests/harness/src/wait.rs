//! Waiting for a condition: tests sleep nowhere else, except for the length of an outage or of a job.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a probe may return: `bool` (waits for `true`) or `Option` (waits for `Some` and returns its value).
pub trait Probe {
    /// The value that the wait returns.
    type Found;
    /// Returns the value if the condition holds.
    fn found(self) -> Option<Self::Found>;
}

impl Probe for bool {
    type Found = ();
    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Probe for Option<T> {
    type Found = T;
    fn found(self) -> Option<T> {
        self
    }
}

/// How much longer than its deadline a wait may take on a machine that lets its pauses last too long.
const MOST_TIMES: u32 = 6;

/// A deadline that moves with the machine: what the pauses last beyond their length does not count, up to a bound.
struct Wait {
    started: Instant,
    deadline: Duration,
    pause: Duration,
    /// By how much longer the pauses took than they should.
    delayed: Duration,
}

impl Wait {
    fn new(deadline: Duration) -> Self {
        Self { started: Instant::now(), deadline, pause: FIRST_PAUSE, delayed: Duration::ZERO }
    }

    fn is_over(&self) -> bool {
        self.started.elapsed() >= self.deadline + self.delayed.min(self.deadline * (MOST_TIMES - 1))
    }

    /// Returns how long the wait took, without what the machine delayed it.
    fn net(&self) -> Duration {
        self.started.elapsed().saturating_sub(self.delayed)
    }

    /// Notes that a pause which began then has ended.
    fn paused(&mut self, since: Instant) {
        self.delayed += since.elapsed().saturating_sub(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }
}

/// Probes until the condition holds. Panics at the deadline, naming `what` it waited for.
#[track_caller]
pub fn until<P: Probe>(what: &str, deadline: Duration, mut probe: impl FnMut() -> P) -> P::Found {
    let mut wait = Wait::new(deadline);
    loop {
        if let Some(found) = probe().found() {
            return found;
        }
        assert!(!wait.is_over(), "timed out after {deadline:?} waiting for: {what}");
        let since = Instant::now();
        pause_for(wait.pause);
        wait.paused(since);
    }
}

/// Waits for a condition in a tokio test. Also stops waiting if a probe hangs.
pub async fn until_async<P: Probe>(
    what: &str,
    deadline: Duration,
    probe: impl AsyncFnMut() -> P,
) -> P::Found {
    waited_for(what, deadline, probe).await.0
}

/// Waits for a condition, and returns how long it took if pauses on this machine lasted no longer than they should.
pub async fn waited_for<P: Probe>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> P,
) -> (P::Found, Duration) {
    let looping = async {
        let mut wait = Wait::new(deadline);
        loop {
            if let Some(found) = probe().await.found() {
                return Some((found, wait.net()));
            }
            if wait.is_over() {
                return None;
            }
            let since = Instant::now();
            tokio::time::sleep(wait.pause).await;
            wait.paused(since);
        }
    };
    match tokio::time::timeout(MOST_TIMES * deadline, looping).await {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => panic!("timed out after {deadline:?} waiting for: {what}"),
    }
}

/// Lets time pass until an instant that a plan has set. Not for tests: they wait for conditions.
pub fn until_instant(at: Instant) {
    pause_for(at.saturating_duration_since(Instant::now()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one sleep of the tests; it never runs on a runtime thread"
)]
pub fn pause_for(pause: Duration) {
    std::thread::sleep(pause);
}
