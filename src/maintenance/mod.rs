//! Maintenance: the chores of a queue, done by whichever process leads it. Leading saves work; correctness is in the
//! scripts, which are safe when two processes run them.
//!
//! The [leader](leader) takes the lease and, while it has it, runs the [promoter](promoter) (due jobs to their lanes),
//! the [claimer](claimer) (entries of silent consumers), the [caller](caller) (workers that stand by), the [reaper](reaper)
//! (consumers that nobody is any more), the [sweeper](sweeper) (wishes that nothing can meet), the [trimmer](trimmer) (dead letters beyond the queue's limits) and the
//! [gauge](gauge) (the queue's state).
//! Recurring jobs need no leader: every process looks after [them](cron).

mod claimer;
mod cron;
mod gauge;
mod leader;
mod promoter;
mod reaper;
mod sweeper;
mod trimmer;
mod waker;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::{LetterLimits, Queue};
use crate::cron::Entry;
use crate::event::Events;
use crate::health::Liveness;
use crate::job::{ConsumerName, Policies, Timestamp, Tracking};

/// What the chores of one queue need.
#[derive(Clone)]
pub(crate) struct Duty {
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) lease: Duration,
    pub(crate) policies: Arc<Policies>,
    /// Which jobs leave a record, where neither they nor their type say.
    pub(crate) tracking: Tracking,
    pub(crate) retention: Duration,
    /// Which dead letters stay.
    pub(crate) letters: LetterLimits,
    pub(crate) events: Events,
    /// How long ago an instant of the clock of Redis was, by an estimate. For metrics only.
    pub(crate) age: Arc<dyn Fn(Timestamp) -> Duration + Send + Sync>,
    /// The recurring jobs that this process brings along.
    pub(crate) cron: Arc<[Entry]>,
    /// How often the queue's length is told.
    pub(crate) gauge_every: Duration,
    /// Told how many consumers the group has.
    pub(crate) consumers: Arc<dyn Fn(u64) + Send + Sync>,
    pub(crate) liveness: Liveness,
    pub(crate) stop: CancellationToken,
}

/// Does the chores of one queue whenever this process leads it, and looks after its recurring jobs, until stopped.
pub(crate) async fn keep(duty: Duty) {
    let (teller, told) = watch::channel(leader::LeaderView::nothing());
    let owed = Arc::new(cron::Owed::default());
    let (liveness, queue) = (duty.liveness.clone(), duty.queue.name().clone());
    tokio::join!(
        liveness.watch(
            format!("the candidate for the chores of {queue}"),
            leader::run(duty.clone(), teller, Arc::clone(&owed))
        ),
        liveness.watch(format!("the keeper of the recurring jobs of {queue}"), cron::run(duty, told, owed)),
    );
}
