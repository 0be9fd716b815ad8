//! The deliveries that wait for a slot.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::worker::delivery::Delivery;
use crate::worker::memory_budget::MOST_BYTES;

/// The deliveries that wait for a slot, and their total bytes.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) deliveries: VecDeque<Arc<Delivery>>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_used_up(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    pub(super) fn push(&mut self, deliveries: Vec<Arc<Delivery>>) {
        self.bytes += bytes(&deliveries);
        self.deliveries.extend(deliveries);
    }

    pub(super) fn pop(&mut self) -> Option<Arc<Delivery>> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= delivery.envelope.size();
        Some(delivery)
    }

    /// Takes out the deliveries that match.
    pub(super) fn withdraw(&mut self, matches: impl Fn(&Delivery) -> bool) -> Vec<Arc<Delivery>> {
        let all = std::mem::take(&mut self.deliveries);
        let (matching, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|delivery| matches(delivery));
        self.deliveries = VecDeque::from(others);
        self.bytes -= bytes(&matching);
        matching
    }
}

fn bytes(deliveries: &[Arc<Delivery>]) -> usize {
    deliveries.iter().map(|delivery| delivery.envelope.size()).sum()
}
