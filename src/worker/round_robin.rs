//! Whose turn it is when a place of a type or key is given back: the queues of a process share its limits, and each of them has
//! a backlog of its own. The one that has not been served for the longest time comes first.

use std::sync::{Mutex, MutexGuard, Weak};

use super::dispatcher::Dispatcher;
use crate::broker::mutex::lock;

/// The queues of this process, the one that comes first at the front.
#[derive(Debug, Default)]
pub(super) struct RoundRobin(Mutex<Vec<Weak<Dispatcher>>>);

/// While somebody has it, nobody else gives a place back or takes one. Code that locks a backlog too locks this first.
pub(super) struct Serving<'a>(MutexGuard<'a, Vec<Weak<Dispatcher>>>);

impl RoundRobin {
    /// Adds a queue.
    pub(super) fn join(&self, queue: Weak<Dispatcher>) {
        self.take().0.push(queue);
    }

    /// Waits until nobody else has the turn.
    pub(super) fn take(&self) -> Serving<'_> {
        Serving(lock(&self.0))
    }
}

impl Serving<'_> {
    /// Has each queue start what it may. Those that start something come last the next time.
    pub(super) fn serve(&mut self, start: impl Fn(&Dispatcher) -> bool) {
        let mut served = Vec::new();
        self.0.retain(|queue| {
            let Some(dispatcher) = queue.upgrade() else { return false };
            let starts = start(&dispatcher);
            if starts {
                served.push(Weak::clone(queue));
            }
            !starts
        });
        self.0.append(&mut served);
    }
}
