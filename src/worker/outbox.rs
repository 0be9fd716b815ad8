//! Outcomes that Redis does not know yet, between the slots and the settler. The outbox is bounded: when it is full,
//! slots wait, and reading stops with them.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::delivery::SettlerInput;
use crate::broker::mutex::lock;
use crate::wakeup::wait_for;

/// While a batch is in flight, another one is sent only when it has this size. Many small round trips cost Redis more
/// than a few large ones, and what waits meanwhile waits for at most one round trip.
pub(crate) const MIN_BATCH: usize = 100;

/// The outcomes that wait to be settled.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    arrived: Notify,
    taken: Notify,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    work: Vec<SettlerInput>,
    closed: bool,
}

impl Outbox {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), arrived: Notify::new(), taken: Notify::new(), limit }
    }

    /// Adds work; waits while too much of it is waiting.
    pub(crate) async fn push(&self, work: SettlerInput) {
        if self.push_now(work) > self.limit {
            self.await_space().await;
        }
    }

    /// Adds work without waiting, and returns how much is waiting. For a bounded number of things that are already held.
    pub(crate) fn push_now(&self, work: SettlerInput) -> usize {
        if let Ok(delivery) = work.delivery() {
            delivery.held_lease.renew_until_settled();
        }
        let count = {
            let mut state = lock(&self.state);
            state.work.push(work);
            state.work.len()
        };
        if count == 1 || count == MIN_BATCH {
            self.arrived.notify_one();
        }
        count
    }

    /// Waits while too much work is waiting.
    pub(crate) async fn await_space(&self) {
        wait_for(&self.taken, || (lock(&self.state).work.len() <= self.limit).then_some(())).await;
    }

    /// Takes everything that waits, once there is this much of it; `None` when nothing waits and nothing more will
    /// come. The future may be dropped without loss.
    pub(crate) async fn take(&self, least: usize) -> Option<Vec<SettlerInput>> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut state = lock(&self.state);
                if state.work.len() >= least || (state.closed && !state.work.is_empty()) {
                    let work = std::mem::take(&mut state.work);
                    drop(state);
                    self.taken.notify_waiters();
                    return Some(work);
                }
                if state.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Notes that nothing more will be added.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.arrived.notify_one();
    }
}
