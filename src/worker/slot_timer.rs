//! The timer of a slot. It lives longer than an attempt: to set it to a later time, as most attempts do, takes no lock of the
//! runtime.

use std::pin::Pin;
use std::time::Instant;

use tokio::time::Sleep;

/// A timer that is set again and again.
#[derive(Debug, Default)]
pub(super) struct SlotTimer(Option<Pin<Box<Sleep>>>);

impl SlotTimer {
    /// Waits until an instant, which passes even beside a handler that has used up the task's budget
    /// (<https://docs.rs/tokio/latest/tokio/task/coop/index.html>): with a budget of its own, a timer polled after such a
    /// handler would never be ready.
    pub(super) async fn reached(&mut self, instant: Instant) {
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(instant.into())));
        sleep.as_mut().reset(instant.into());
        tokio::task::coop::unconstrained(sleep.as_mut()).await;
    }
}

/// Waits until an instant with a timer that is used once.
pub(super) async fn reached(instant: Instant) {
    tokio::task::coop::unconstrained(tokio::time::sleep_until(instant.into())).await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_can_be_set_to_later_and_to_earlier_times() {
        let (start, mut slot_timer) = (Instant::now(), SlotTimer::default());
        let at = |ms| start + Duration::from_millis(ms);
        for (instant, is_awaited) in
            [(at(60_000), false), (at(10), true), (at(5), true), (at(90_000), false), (at(20), true)]
        {
            let ended =
                tokio::time::timeout(Duration::from_millis(if is_awaited { 20_000 } else { 1 }), async {
                    slot_timer.reached(instant).await;
                });
            assert_eq!(ended.await.is_ok(), is_awaited, "{:?}", instant - start);
            assert!(!is_awaited || Instant::now() >= instant);
        }
    }
}
