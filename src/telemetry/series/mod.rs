//! The handles of the series, made once at the start: recording needs no allocation and no lock, and one or two look-ups
//! in small tables that never change.
//!
//! The [`Maker`] makes them. A [queue](QueueSeries) has its own, those of its [types](job_type), and those that only its
//! [leader](state) tells; [children](ChildSeries), [Redis](RedisSeries), the [runtime](RuntimeSeries) and the
//! [notifications](NotificationSeries) are of the process.

mod child;
mod job_type;
mod maker;
mod notification;
mod queue;
mod redis;
mod runtime;
mod state;

pub(super) use child::ChildSeries;
pub(super) use maker::{Maker, Rendered, head};
pub(super) use notification::NotificationSeries;
pub(super) use queue::QueueSeries;
pub(super) use redis::RedisSeries;
pub(super) use runtime::RuntimeSeries;

/// At most so many pairs of queue and type have series of their own in one process.
pub(super) const PAIRS_MAX: usize = 200;
