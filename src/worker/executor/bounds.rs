//! The bounds of one attempt: its time, its cancellation, and how long its handler may go on after that.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};

use crate::job::{Failure, FailureKind, Outcome, Retry};
use crate::worker::lease::HeldLease;
use crate::worker::slot_timer::SlotTimer;

/// Returns what a handler says within its grace period. If this process was frozen, what the handler waits for may have
/// arrived meanwhile, and the runtime does not know yet: it gets to look before the handler is abandoned.
pub(in super::super) async fn outcome_within_grace(
    running: impl Future<Output = Outcome> + Unpin,
    grace: Duration,
) -> Option<Outcome> {
    tokio::task::yield_now().await;
    tokio::time::timeout(grace, running).await.ok()
}

/// Waits until an attempt's time is up. Its deadline moves while its clock is paused.
async fn time_is_up(held_lease: &HeldLease, deadline: Instant, slot_timer: &mut SlotTimer) {
    let mut due = deadline;
    loop {
        slot_timer.reached(due).await;
        let moved = deadline + held_lease.paused_for(Instant::now());
        if moved <= due {
            return;
        }
        due = moved;
    }
}

/// The bounds of one attempt.
pub(in super::super) struct Bounds {
    pub(in super::super) timeout: Duration,
    pub(in super::super) deadline: Instant,
    /// How long the handler may continue after its cancellation.
    pub(in super::super) grace: Duration,
}

/// Runs a handler within its bounds. Calls `waits` if the handler is not done at once.
pub(in super::super) async fn bounded(
    mut running: impl Future<Output = Outcome> + Unpin,
    held_lease: &HeldLease,
    bounds: Bounds,
    slot_timer: &mut SlotTimer,
    waits: impl FnOnce(),
) -> Outcome {
    // Many handlers are done at once, and need neither a timer nor another slot that takes over.
    if let Poll::Ready(outcome) = futures_util::poll!(&mut running) {
        return outcome;
    }
    waits();
    // It was polled just now, and need not be again before something wakes it. `tokio::select!` may return without polling
    // anything, and then the first poll of `ended` could be the one that the handler has asked for.
    let mut is_fresh = true;
    let ended = poll_fn(|context| match std::mem::take(&mut is_fresh) {
        true => Poll::Pending,
        false => Pin::new(&mut running).poll(context),
    });
    let time_is_up = pin!(time_is_up(held_lease, bounds.deadline, slot_timer));
    let cancelled = pin!(held_lease.token().cancelled());
    let cut_short = match select(ended, select(time_is_up, cancelled)).await {
        Either::Left((outcome, _)) => {
            // It may have failed because it saw its cancellation before we did.
            let failed = matches!(outcome, Outcome::Failed(_)) && held_lease.is_cut();
            return if failed && held_lease.is_aware() { held_lease.outcome() } else { outcome };
        }
        Either::Right((Either::Left(_), _)) => {
            let error = format!("the handler ran longer than its timeout of {:?}", bounds.timeout);
            held_lease.cut();
            Outcome::Failed(Failure::new(FailureKind::Timeout, error, Retry::Policy))
        }
        Either::Right((Either::Right(_), _)) => held_lease.outcome(),
    };
    // A success within the grace period is a success. Anything else is the consequence of our cutting the attempt
    // short, unless the handler cannot know about that.
    match outcome_within_grace(running, bounds.grace).await {
        Some(Outcome::Done(result)) => Outcome::Done(result),
        Some(outcome) if !held_lease.is_aware() => outcome,
        Some(_) | None => cut_short,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt;

    use super::*;

    fn failed() -> Outcome {
        Outcome::Failed(Failure::new(FailureKind::Error, "no", Retry::Policy))
    }

    /// Returns the outcome of an attempt that is cut short while it runs.
    async fn cut(told: bool, running: impl Future<Output = Outcome>) -> Outcome {
        let held_lease = HeldLease::new(Instant::now());
        held_lease.cut();
        if told {
            held_lease.mark_aware();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let bounds = Bounds { timeout: Duration::from_secs(60), deadline, grace: Duration::ZERO };
        bounded(Box::pin(running), &held_lease, bounds, &mut SlotTimer::default(), || {}).await
    }

    #[tokio::test]
    async fn an_end_counts_unless_the_cut_may_have_caused_it() {
        let fails = || async {
            tokio::task::yield_now().await;
            failed()
        };
        assert_eq!(cut(false, fails()).await, failed());
        assert_eq!(cut(true, fails()).await, Outcome::Interrupted);
        assert_eq!(cut(true, async { Outcome::Done(None) }).await, Outcome::Done(None));
        assert_eq!(cut(false, pending()).await, Outcome::Interrupted);
    }

    #[tokio::test]
    async fn a_handler_that_never_lets_others_run_meets_its_deadline() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let busy = async {
            // Ready for ever, so only the task's budget interrupts it.
            loop {
                sender.try_send(()).unwrap();
                receiver.recv().await;
            }
        };
        let held_lease = HeldLease::new(Instant::now());
        let timeout = Duration::from_millis(50);
        let bounds = Bounds { timeout, deadline: Instant::now() + timeout, grace: Duration::ZERO };
        let mut slot_timer = SlotTimer::default();
        let bounded = bounded(Box::pin(busy), &held_lease, bounds, &mut slot_timer, || {});
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), bounded).await.expect("it met no deadline");
        let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.kind, FailureKind::Timeout);
    }

    #[tokio::test]
    async fn a_handler_that_waits_is_polled_once_before_it_is_woken() {
        let (polls, held_lease) = (std::cell::Cell::new(0), HeldLease::new(Instant::now()));
        let running = poll_fn(|context| {
            polls.set(polls.get() + 1);
            // The second time, it was woken.
            if polls.get() == 1 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Outcome::Done(None))
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let bounds = Bounds { timeout: Duration::from_secs(60), deadline, grace: Duration::ZERO };
        let mut slot_timer = SlotTimer::default();
        let mut bounded = pin!(bounded(running, &held_lease, bounds, &mut slot_timer, || {}));
        assert!(futures_util::poll!(&mut bounded).is_pending());
        assert_eq!(bounded.await, Outcome::Done(None));
        assert_eq!(polls.get(), 2);
    }

    #[tokio::test]
    async fn a_handler_is_polled_when_it_is_woken_though_its_task_has_used_up_its_budget() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        while tokio::task::coop::has_budget_remaining() {
            sender.try_send(()).unwrap();
            receiver.recv().await;
        }
        let mut is_woken = false;
        let running = poll_fn(|context| {
            if std::mem::replace(&mut is_woken, true) {
                return Poll::Ready(Outcome::Done(None));
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        let (held_lease, timeout) = (HeldLease::new(Instant::now()), Duration::from_secs(3600));
        let bounds = Bounds { timeout, deadline: Instant::now() + timeout, grace: Duration::ZERO };
        let mut slot_timer = SlotTimer::default();
        let mut bounded = pin!(bounded(running, &held_lease, bounds, &mut slot_timer, || {}));
        assert!(futures_util::poll!(&mut bounded).is_pending());
        tokio::task::yield_now().await;
        assert_eq!(futures_util::poll!(&mut bounded), Poll::Ready(Outcome::Done(None)));
    }

    #[tokio::test]
    async fn the_clock_of_a_paused_attempt_does_not_run() {
        let (held_lease, timeout) = (HeldLease::new(Instant::now()), Duration::from_millis(50));
        let started = Instant::now();
        held_lease.pause(started);
        let bounds = Bounds { timeout, deadline: started + timeout, grace: Duration::ZERO };
        let resumed = async {
            tokio::time::sleep(4 * timeout).await;
            held_lease.resume(Instant::now());
            pending().await
        };
        let mut slot_timer = SlotTimer::default();
        let bounded = bounded(Box::pin(resumed), &held_lease, bounds, &mut slot_timer, || {});
        let outcome =
            tokio::time::timeout(Duration::from_secs(30), bounded).await.expect("it met no deadline");
        assert!(matches!(outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Timeout));
        assert!(started.elapsed() >= 5 * timeout, "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn an_answer_that_arrived_before_the_cut_counts() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
        let answered = async {
            ours.read_u8().await.unwrap();
            Outcome::Done(None)
        };
        theirs.write_all(b"x").unwrap();
        assert_eq!(cut(false, answered).await, Outcome::Done(None));
    }
}
