//! Waiting for a condition: tests sleep nowhere else, except for the length of an outage or of a job.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a probe may return: `bool` (waits for `true`) or `Option` (waits for `Some` and returns its value).
pub(crate) trait Probe {
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

/// Probes until the condition holds. Panics at the deadline, naming `what` it waited for.
#[track_caller]
pub(crate) fn until<P: Probe>(what: &str, deadline: Duration, mut probe: impl FnMut() -> P) -> P::Found {
    let started = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = probe().found() {
            return found;
        }
        assert!(started.elapsed() < deadline, "timed out after {deadline:?} waiting for: {what}");
        pause_for(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Like [`until`], for tokio tests. Also stops waiting at the deadline if a probe hangs.
pub(crate) async fn until_async<P: Probe>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> P,
) -> P::Found {
    let mut pause = FIRST_PAUSE;
    let looping = async {
        loop {
            if let Some(found) = probe().await.found() {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    match tokio::time::timeout(deadline, looping).await {
        Ok(found) => found,
        Err(_elapsed) => panic!("timed out after {deadline:?} waiting for: {what}"),
    }
}

/// Lets time pass until an instant that a plan has set. Not for tests: they wait for conditions.
pub(crate) fn until_instant(at: Instant) {
    pause_for(at.saturating_duration_since(Instant::now()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one sleep of the tests; it never runs on a runtime thread"
)]
pub(crate) fn pause_for(pause: Duration) {
    std::thread::sleep(pause);
}
