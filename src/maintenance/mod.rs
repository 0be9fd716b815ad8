//! Maintenance: what the leader of a queue does for all of its workers. Leadership saves work. Correctness is in the
//! scripts, which are safe even if two processes run them.
//!
//! The [leader](leader) takes the lease. While it holds the lease, it runs the [promoter](promoter) (due jobs to their
//! lanes), the [claimer](claimer) (entries of silent consumers), the search for [orphans](orphans) (entries that nobody
//! holds), the [waker](waker) (standby workers), the [reaper](reaper) (consumers whose processes are gone), the
//! [sweeper](sweeper) (cancellation requests that can no longer take effect), the search for deleted [letters](letters)
//! (what dead letters held that somebody deleted by hand), the [trimmer](trimmer) (dead letters beyond the queue's limits,
//! which go to the [archive](archive) first), the [task runner](task_runner) (what people do to many jobs at once), the
//! [waiting lists](waitlists) (jobs that wait for a gate), the watch over [unserved](unserved) types (jobs whose type no live worker
//! knows), the [gauge](gauge) (the queue's state) and the [sampler](sampler) (the same once a minute, for charts). Recurring jobs need
//! no leader: every process handles [them](cron).

mod archive;
mod claimer;
mod cron;
mod gauge;
mod leader;
mod leader_view;
mod letters;
mod orphans;
mod promoter;
mod reaper;
mod sampler;
mod sweeper;
mod task_runner;
mod trimmer;
mod unserved;
mod waitlists;
mod waker;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use archive::Archive;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, LetterLimits, Queue};
use crate::chore::Chore;
use crate::cron::Entry;
use crate::event::Events;
use crate::health::Liveness;
use crate::job::{ConsumerName, Policies, Timestamp, Tracking};

/// What the maintenance of one queue needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) broker: Broker,
    pub(crate) queue: Queue,
    pub(crate) consumer: ConsumerName,
    pub(crate) lease: Duration,
    pub(crate) policies: Arc<Policies>,
    /// Which jobs leave a record if neither they nor their type say.
    pub(crate) tracking: Tracking,
    pub(crate) retention: Duration,
    /// How long a job waits for a worker that knows its type before it is dead.
    pub(crate) unroutable_after: Duration,
    /// Which dead letters are kept.
    pub(crate) letters: LetterLimits,
    /// Where letters go before retention drops them.
    pub(crate) archive: Option<Archive>,
    pub(crate) events: Events,
    /// Estimates how long ago an instant by the clock of Redis was. For metrics only.
    pub(crate) age: Arc<dyn Fn(Timestamp) -> Duration + Send + Sync>,
    /// The recurring jobs that this process defines.
    pub(crate) cron: Arc<[Entry]>,
    /// How often the queue's length is reported.
    pub(crate) gauge_every: Duration,
    /// Receives the number of consumers in the group.
    pub(crate) consumers: Arc<dyn Fn(u64) + Send + Sync>,
    pub(crate) liveness: Liveness,
    /// Stops the tasks: those of the leader when its term ends.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// Returns the clock of a task that is due at once, and then after pauses of about this length.
    fn chore(&self, every: Duration) -> Chore {
        Chore::every(every, &self.events, &self.stop)
    }
}

/// Maintains one queue whenever this process leads it, and handles its recurring jobs, until stopped.
pub(crate) async fn run(context: Context) {
    let (view_sender, view_receiver) = watch::channel(leader_view::LeaderView::initial());
    let unhandled = Arc::new(cron::UnhandledTick::default());
    let (liveness, queue) = (context.liveness.clone(), context.queue.name().clone());
    tokio::join!(
        liveness.watch(
            format!("the leader election of {queue}"),
            leader::run(context.clone(), view_sender, Arc::clone(&unhandled))
        ),
        liveness.watch(
            format!("the schedule of recurring jobs of {queue}"),
            cron::run(context, view_receiver, unhandled)
        ),
    );
}
