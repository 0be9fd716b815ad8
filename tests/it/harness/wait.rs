//! Waiting for a condition: the only place of the tests that sleeps.

use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// What a probe may answer: `bool` (waits for `true`) or `Option` (waits for `Some` and hands its value out).
pub(crate) trait Probe {
    /// What the wait returns.
    type Found;
    /// The value, if the condition holds by now.
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
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for: {what}");
        pause_for(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same for tokio tests. A probe that hangs is given up at the deadline too.
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
        Err(_elapsed) => panic!("waited {deadline:?} in vain for: {what}"),
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
