//! The deliveries that wait because their type or key runs as often as it may.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::broker::mutex::lock;
use crate::worker::backlog::Backlog;
use crate::worker::delivery::Delivery;
use crate::worker::limits::Limits;

/// A delivery for which there is no place, and the pause after which it may come back.
pub(crate) type PutOff = (Arc<Delivery>, Duration);

/// The limits of types and keys, and the deliveries that wait for them. Code that takes the [turn](crate::worker::round_robin::Turn),
/// and locks the backlog and `waiting`, does so in this order.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) limits: Arc<Limits>,
    pub(super) backlog: Mutex<Backlog>,
    /// Notified when the reader need not wait for the backlog any more.
    pub(super) relieved: Notify,
}

impl Limited {
    /// Lets the reader go on if it need not wait for the backlog any more.
    pub(super) fn tell_reader(&self, backlog: &Backlog) {
        if backlog.presses_until(Instant::now()).is_none() {
            self.relieved.notify_waiters();
        }
    }

    /// Returns which deliveries may start, and those for which there is no place at all, with their pauses. The others wait.
    pub(super) fn admit(&self, deliveries: Vec<Arc<Delivery>>) -> (Vec<Arc<Delivery>>, Vec<PutOff>) {
        let (mut ready, mut put_off) = (Vec::with_capacity(deliveries.len()), Vec::new());
        // Nobody enters between a job that ends and the one that waits for its place.
        let _turn = self.limits.round_robin.take();
        let (mut backlog, now) = (lock(&self.backlog), Instant::now());
        for delivery in deliveries {
            let permit = self.limits.place_of(&delivery);
            match permit.filter(|permit| !self.limits.enter(*permit, now)) {
                None => ready.push(delivery),
                Some(permit) => {
                    if let Err(delivery) = backlog.offer(delivery, permit, (&self.limits, now)) {
                        let delay = self.limits.put_off(permit, delivery.job.lane, now);
                        put_off.push((delivery, delay));
                    }
                }
            }
        }
        (ready, put_off)
    }
}
