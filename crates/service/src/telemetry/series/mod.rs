//! The handles of the series, created once at startup. Recording takes no allocation and no lock, only one or two
//! lookups in small tables that never change.
//!
//! The [`Maker`] creates them. A [queue](QueueSeries) has its own series, those of its [types](job_type) and its dead
//! [letters](letters), and those that only its [leader](state) reports. [Children](ChildSeries), [pools](PoolSeries),
//! [alerts](AlertSeries), [databases](DatabaseSeries), [Redis](RedisSeries), the [runtime](RuntimeSeries) and
//! the [notifications](NotificationSeries) belong to the process.

mod alert;
mod child;
mod database;
mod job_type;
mod letters;
mod maker;
mod notification;
mod pool;
mod queue;
mod redis;
mod runtime;
mod state;

pub(super) use alert::AlertSeries;
pub(super) use child::ChildSeries;
pub(super) use database::DatabaseSeries;
pub(super) use maker::{Maker, Rendered, head};
pub(super) use notification::NotificationSeries;
pub(super) use pool::PoolSeries;
pub(super) use queue::QueueSeries;
pub(super) use redis::RedisSeries;
pub(super) use runtime::RuntimeSeries;

/// The most pairs of queue and type that have their own series in one process.
pub(super) const PAIRS_MAX: usize = 200;
