//! What happens to a queue.

use std::time::Duration;

use crate::broker::QueueSnapshot;
use crate::job::{CronName, JobId, JobType};

/// Something that happened to a queue, or to its jobs outside of an attempt.
#[derive(Debug, Clone, Copy)]
pub enum QueueEvent<'a> {
    /// This process joined a queue's group.
    Joined {
        /// How long an entry may be silent, as agreed by the fleet.
        lease: Duration,
        /// The longest time that an attempt of any type may take in this process.
        longest_timeout: Duration,
    },
    /// This process serves a queue: it has joined the queue, or Redis no longer refuses what that requires.
    Served,
    /// This process cannot serve a queue, because Redis refuses what that requires: a key has another type, or a permission is
    /// missing. The process keeps trying, and its other queues continue. Reported when this begins, and when the reason changes.
    Unserved {
        /// What Redis said, and about which key.
        why: &'a str,
    },
    /// How long the longest-running attempt of this process has run. Reported a few times in each lease.
    LongestRun {
        /// How long it has run; zero if none runs.
        elapsed: Duration,
    },
    /// How many jobs wait in this process because as many of their type or key run as may. Reported when it changes, a few
    /// times a second.
    Limited {
        /// How many wait.
        waiting: usize,
    },
    /// An outcome came after its entry was claimed by another worker, and changed nothing.
    Fenced,
    /// Redis refuses what an entry needs, for reasons that lie in its keys or in our permissions. The entry waits in quarantine
    /// and is tried again; the others continue. Reported the first time.
    SetAside {
        /// The job; for bytes that are not a job, the id that their entry stands for.
        job: &'a JobId,
        /// The keys, one of which may have another type, or be closed to us.
        keys: &'a str,
        /// What Redis said.
        error: &'a str,
    },
    /// A gate refused to let a job start now, and the job waits in that gate's waiting list.
    Parked {
        /// The type of the job.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The name of the gate.
        waitlist: &'a str,
    },
    /// Redis has said which of some jobs may pass their gates.
    Admitted {
        /// How many may.
        granted: u64,
        /// How many may not.
        refused: u64,
    },
    /// Jobs were moved to the waiting lists of their values, because a flood waits in a queue that is shared between these values.
    MovedToWaitlists {
        /// How many.
        jobs: u64,
    },
    /// Jobs that waited in waiting lists were let out by the leader, or because their turn came.
    LeftWaitlists {
        /// How many.
        jobs: u64,
    },
    /// A running job's lease was lost, and its handler is cancelled.
    LeaseLost,
    /// Entries of a silent consumer were claimed.
    Claimed {
        /// How many.
        jobs: u64,
    },
    /// Delivered entries that were neither pending nor deleted were made pending again, so that they are claimed as lost.
    OrphansReclaimed {
        /// How many.
        count: u64,
    },
    /// Some pending entries had bodies that somebody deleted.
    BodiesLost {
        /// How many.
        entries: u64,
    },
    /// Delayed jobs became due and went to their lanes.
    Promoted {
        /// How many.
        jobs: u64,
        /// By how much the first one was late.
        late: Duration,
    },
    /// The promoter looked for due jobs, whether or not there were any.
    PromoterPolled,
    /// Jobs wait because no live worker knows their type. Reported by the queue's leader when it notices this, and every ten
    /// minutes; of at most a hundred types.
    TypeUnserved {
        /// The type.
        job_type: &'a JobType,
        /// How many of its jobs wait.
        jobs: u64,
        /// A similar type that a live worker knows, and that may have been meant.
        near: Option<&'a str>,
    },
    /// How many jobs wait because no live worker knows their types. Reported by the queue's leader every few seconds.
    UnservedTypes {
        /// How many types.
        types: u64,
        /// How many jobs.
        jobs: u64,
    },
    /// Retention dropped dead letters.
    Evicted {
        /// How many.
        letters: u64,
    },
    /// Dead letters were written to the archive. Retention drops them next.
    Archived {
        /// How many.
        letters: u64,
    },
    /// Dead letters that retention would drop stay, because the archive cannot be written.
    ArchiveFailed {
        /// What the system said.
        why: &'a str,
    },
    /// What the campaigns of a queue do, as its leader sees it: a few times a second while one of them replays, and otherwise
    /// every few seconds.
    Campaigns {
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
        /// The task.
        task: &'a str,
        /// Why.
        why: &'a str,
    },
    /// A campaign has stopped itself.
    CampaignStopped {
        /// The campaign.
        campaign: &'a str,
        /// Why.
        why: &'a str,
    },
    /// Ticks of a recurring job were submitted.
    CronTicked {
        /// The recurring job.
        entry: &'a CronName,
        /// How many.
        jobs: usize,
        /// By how much the last one was late.
        late: Duration,
    },
    /// Ticks of a recurring job were missed, and will not be made up for.
    CronSkipped {
        /// The recurring job.
        entry: &'a CronName,
        /// How many. Beyond a thousand, they are not counted.
        ticks: usize,
    },
    /// The clock of a queue's Redis was set back by more than a minute, as seen by the queue's leader.
    ClockSetBack {
        /// By how much, at least.
        by: Duration,
    },
    /// Streams or groups of a queue in use had to be created again, because somebody deleted them.
    GroupRecreated,
    /// This process began or stopped leading a queue.
    Leading {
        /// Whether it leads the queue now.
        leading: bool,
    },
    /// A read of new entries completed.
    Read {
        /// How many entries it returned.
        entries: usize,
    },
    /// The length of a queue that this process leads. Reported at regular intervals, whether or not jobs run.
    QueueLength {
        /// Jobs that no worker has taken.
        waiting: u64,
        /// Jobs that a worker holds.
        running: u64,
        /// Jobs in the delayed set.
        delayed: u64,
        /// Dead letters.
        dead: u64,
        /// How long the oldest waiting job has been in its lane, or at gates.
        oldest_waiting: Option<Duration>,
    },
    /// Everything that this process knows about a queue that it leads. Reported at the same intervals.
    Surveyed {
        /// Its figures.
        snapshot: &'a QueueSnapshot,
        /// By how much the most overdue recurring job is overdue.
        cron_overdue: Duration,
        /// How long the survey took.
        took: Duration,
    },
}
