//! The events of this process. Each one is reported once. Metrics and logs listen; no listener can change an outcome.
//! See the [example](Events).

mod ending;
mod events;
mod finished;
mod loss;
mod program;

use std::time::Duration;

pub use ending::Ending;
pub use events::Events;
pub use finished::Finished;
pub use loss::{HookFailure, Recipient, SpanLoss};
pub use program::{ChildEnding, PoolEnding};

use crate::broker::QueueSnapshot;
use crate::job::incident::{Incident, IncidentKind};
use crate::job::{CronName, FailureKind, JobId, JobType, PoolName, QueueName, SinkName};

/// Something that happened in this process; see the [example](Events).
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A handler is about to run.
    Started {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How long the job waited from being ready to being started.
        wait: Duration,
    },
    /// A handler ran to its end, or was cut short. Redis does not know yet what follows from it.
    Ran {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// How long it ran.
        elapsed: Duration,
    },
    /// An attempt ended, and Redis has recorded it.
    Finished(Finished<'a>),
    /// A handler failed.
    Failed {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The kind of failure.
        kind: FailureKind,
        /// The error message.
        error: &'a str,
    },
    /// An attempt's worker fell silent, and its entry was claimed.
    Lost {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
    },
    /// A program that a handler ran has ended, or could not be started.
    ChildEnded {
        /// The type of the job whose program it was.
        job_type: &'a JobType,
        /// How it ended.
        ending: ChildEnding,
    },
    /// What the programs of a pool are doing. Reported every second.
    PoolPrograms {
        /// The pool.
        pool: &'a PoolName,
        /// How many have a job, and take others after it.
        busy: usize,
        /// How many are ready and have none.
        idle: usize,
        /// How many are being started.
        starting: usize,
        /// How many take no more jobs, and end when they have none.
        leaving: usize,
        /// How many bytes of RAM they use together.
        memory: u64,
    },
    /// A program of a pool has ended, or could not be started.
    PoolProgramEnded {
        /// The pool.
        pool: &'a PoolName,
        /// How it ended.
        ending: PoolEnding,
        /// How it ended, for people, with the end of its standard error.
        why: &'a str,
    },
    /// This process joined a queue's group.
    Joined {
        /// The queue.
        queue: &'a QueueName,
        /// How long an entry may be silent, as agreed by the fleet.
        lease: Duration,
        /// The longest time that an attempt of any type may take in this process.
        longest_timeout: Duration,
    },
    /// This process serves a queue: it has joined the queue, or Redis no longer refuses what that requires.
    Served {
        /// The queue.
        queue: &'a QueueName,
    },
    /// This process cannot serve a queue, because Redis refuses what that requires: a key has another type, or a permission is
    /// missing. The process keeps trying, and its other queues continue. Reported when this begins, and when the reason changes.
    Unserved {
        /// The queue.
        queue: &'a QueueName,
        /// What Redis said, and about which key.
        why: &'a str,
    },
    /// How long the longest-running attempt of this process has run. Reported a few times in each lease.
    LongestRun {
        /// The queue.
        queue: &'a QueueName,
        /// How long it has run; zero if none runs.
        elapsed: Duration,
    },
    /// How many jobs wait in this process because as many of their type or key run as may. Reported when it changes, a few
    /// times a second.
    Limited {
        /// The queue.
        queue: &'a QueueName,
        /// How many wait.
        waiting: usize,
    },
    /// An outcome came after its entry was claimed by another worker, and changed nothing.
    Fenced {
        /// The queue that the job came from.
        queue: &'a QueueName,
    },
    /// Redis refuses what an entry needs, for reasons that lie in its keys or in our permissions. The entry waits aside
    /// and is tried again; the others continue. Reported the first time.
    SetAside {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The job; for bytes that are not a job, the id that their entry stands for.
        job: &'a JobId,
        /// The keys, one of which may have another type, or be closed to us.
        keys: &'a str,
        /// What Redis said.
        error: &'a str,
    },
    /// A gate refused to let a job start now, and the job waits in that gate's room.
    Parked {
        /// The queue that the job came from.
        queue: &'a QueueName,
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The name of the gate.
        room: &'a str,
    },
    /// Redis has said which of some jobs may pass their gates.
    Admitted {
        /// The queue.
        queue: &'a QueueName,
        /// How many may.
        granted: u64,
        /// How many may not.
        refused: u64,
    },
    /// Jobs were moved to the rooms of their values, because a flood waits in a queue that is shared between these values.
    Sorted {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
    },
    /// Jobs that waited in rooms were let out by the leader, or because their turn came.
    LetOut {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
    },
    /// A running job's lease was lost, and its handler is cancelled.
    LeaseLost {
        /// The queue that the job came from.
        queue: &'a QueueName,
    },
    /// Entries of a silent consumer were claimed.
    Claimed {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
    },
    /// Delivered entries that were neither pending nor deleted were made pending again, so that they are claimed as lost.
    OrphansReclaimed {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        count: u64,
    },
    /// Some pending entries had bodies that somebody deleted.
    BodiesLost {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        entries: u64,
    },
    /// Delayed jobs became due and went to their lanes.
    Promoted {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
        /// By how much the first one was late.
        late: Duration,
    },
    /// The promoter looked for due jobs, whether or not there were any.
    PromoterPolled {
        /// The queue.
        queue: &'a QueueName,
    },
    /// Jobs wait because no live worker knows their type. Reported by the queue's leader when it notices this, and every ten
    /// minutes; of at most a hundred types.
    TypeUnserved {
        /// The queue.
        queue: &'a QueueName,
        /// The type.
        job_type: &'a JobType,
        /// How many of its jobs wait.
        jobs: u64,
        /// A similar type that a live worker knows, and that may have been meant.
        near: Option<&'a str>,
    },
    /// How many jobs wait because no live worker knows their types. Reported by the queue's leader every few seconds.
    UnservedTypes {
        /// The queue.
        queue: &'a QueueName,
        /// How many types.
        types: u64,
        /// How many jobs.
        jobs: u64,
    },
    /// Retention dropped dead letters.
    Evicted {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        letters: u64,
    },
    /// Dead letters were written to the archive. Retention drops them next.
    Archived {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        letters: u64,
    },
    /// Dead letters that retention would drop stay, because the archive cannot be written.
    ArchiveFailed {
        /// The queue.
        queue: &'a QueueName,
        /// What the system said.
        why: &'a str,
    },
    /// What the campaigns of a queue do, as its leader sees it: a few times a second while one of them replays, and otherwise
    /// every few seconds.
    Campaigns {
        /// The queue.
        queue: &'a QueueName,
        /// How many replay dead letters, or wait for the ends of their jobs.
        running: u64,
        /// How many letters they have replayed since the last report.
        replayed: u64,
        /// How many of their jobs have succeeded since then.
        succeeded: u64,
        /// How many have died again since then, or wait for a person's decision.
        died: u64,
    },
    /// A task cannot be carried out.
    TaskFailed {
        /// The queue.
        queue: &'a QueueName,
        /// The task.
        task: &'a str,
        /// Why.
        why: &'a str,
    },
    /// A campaign has stopped itself.
    CampaignStopped {
        /// The queue.
        queue: &'a QueueName,
        /// The campaign.
        campaign: &'a str,
        /// Why.
        why: &'a str,
    },
    /// Ticks of a recurring job were submitted.
    CronTicked {
        /// The queue.
        queue: &'a QueueName,
        /// The recurring job.
        entry: &'a CronName,
        /// How many.
        jobs: usize,
        /// By how much the last one was late.
        late: Duration,
    },
    /// Ticks of a recurring job were missed, and will not be made up for.
    CronSkipped {
        /// The queue.
        queue: &'a QueueName,
        /// The recurring job.
        entry: &'a CronName,
        /// How many. Beyond a thousand, they are not counted.
        ticks: usize,
    },
    /// The clock of a queue's Redis was set back by more than a minute, as seen by the queue's leader.
    ClockSetBack {
        /// The queue.
        queue: &'a QueueName,
        /// By how much, at least.
        by: Duration,
    },
    /// Streams or groups of a queue in use had to be created again, because somebody deleted them.
    GroupRecreated {
        /// The queue.
        queue: &'a QueueName,
    },
    /// This process began or stopped leading a queue.
    Leading {
        /// The queue.
        queue: &'a QueueName,
        /// Whether it leads the queue now.
        leading: bool,
    },
    /// A read of new entries completed.
    Read {
        /// The queue.
        queue: &'a QueueName,
        /// How many entries it returned.
        entries: usize,
    },
    /// This process began to stop: it takes no new jobs, and lets running ones finish.
    Stopping,
    /// Redis did not do what was asked.
    RedisError {
        /// The kind of failure of the command or script.
        kind: &'a str,
        /// The full error text.
        error: &'a str,
    },
    /// The length of a queue that this process leads. Reported at regular intervals, whether or not jobs run.
    QueueLength {
        /// The queue.
        queue: &'a QueueName,
        /// Jobs that no worker has taken.
        waiting: u64,
        /// Jobs that a worker holds.
        running: u64,
        /// Jobs in the delayed set.
        delayed: u64,
        /// Dead letters.
        dead: u64,
        /// How long the oldest waiting job has been in its stream.
        oldest_waiting: Option<Duration>,
    },
    /// Everything that this process knows about a queue that it leads. Reported at the same intervals.
    Surveyed {
        /// The queue.
        queue: &'a QueueName,
        /// Its figures.
        snapshot: &'a QueueSnapshot,
        /// By how much the most overdue recurring job is overdue.
        cron_overdue: Duration,
        /// How long the survey took.
        took: Duration,
    },
    /// A round trip to Redis ended. Reads that wait for entries are not reported.
    RoundTrip {
        /// The name of the script or command.
        command: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// A connection to Redis was re-established.
    Reconnected {
        /// How many times.
        times: u64,
    },
    /// A call of a hook failed. This changes nothing for any job.
    HookFailed {
        /// The hook's name.
        hook: &'a str,
        /// How it failed.
        kind: HookFailure,
        /// The error message.
        error: &'a str,
    },
    /// Events were written to a queue's `events` stream.
    Published {
        /// How many.
        events: u64,
    },
    /// Notifications were dropped: the channel was full, a hook did not return, or Redis refused.
    NotificationsDropped {
        /// Who missed them.
        recipient: Recipient,
        /// How many.
        notifications: u64,
    },
    /// Spans of attempts reached the collector.
    Exported {
        /// How many.
        spans: u64,
    },
    /// Spans of attempts were dropped. This changes nothing for any job.
    Unexported {
        /// How many.
        spans: u64,
        /// How they were lost.
        loss: SpanLoss,
        /// Why, for people.
        why: &'a str,
    },
    /// An incident has opened, or is resolved. Reported by the process that sends messages about incidents.
    IncidentChanged {
        /// The incident.
        incident: &'a Incident,
    },
    /// How many incidents of a kind are open. Reported by the same process at each check.
    Incidents {
        /// The kind.
        kind: IncidentKind,
        /// How many.
        open: u64,
    },
    /// A sink has taken a message about incidents.
    AlertSent {
        /// The sink.
        sink: &'a SinkName,
        /// How many incidents the message is about.
        incidents: usize,
    },
    /// A sink has not taken a message about incidents.
    AlertFailed {
        /// The sink.
        sink: &'a SinkName,
        /// What it answered. The text has no secret.
        why: &'a str,
        /// Whether the message is not sent again until the next reminder.
        is_given_up: bool,
    },
    /// The process's heartbeat was answered, or was not.
    Contact {
        /// Whether it was answered.
        alive: bool,
    },
}
