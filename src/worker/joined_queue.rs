//! A queue that has been joined: what the heartbeat needs to serve it.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::delivery::{Delivery, SettlerInput};
use super::dispatcher::Dispatcher;
use super::held_leases::HeldLeases;
use super::outbox::Outbox;
use super::type_waitlists::TypeWaitlists;
use crate::broker::Queue;
use crate::health::{Monitor, QueueHealth};
use crate::job::Outcome;

/// A queue that has been joined: what the heartbeat needs to serve it.
pub(crate) struct JoinedQueue {
    pub(crate) queue: Queue,
    pub(crate) held_leases: Arc<HeldLeases>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) waitlists: Arc<TypeWaitlists>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) health: Arc<QueueHealth>,
    pub(crate) monitor: Monitor,
    pub(crate) slots: usize,
    pub(crate) lease: Duration,
}

impl JoinedQueue {
    /// Ends those of the deliveries that have not started which match. They go straight to the settler.
    pub(crate) fn withdraw(&self, matches: impl Fn(&Delivery) -> bool, outcome: &Outcome) {
        for delivery in self.dispatcher.withdraw(matches) {
            self.outbox.push_now(SettlerInput::not_run(delivery, outcome.clone()));
        }
    }
}

/// All queues that have been joined.
pub(crate) type JoinedQueues = Vec<Arc<JoinedQueue>>;
