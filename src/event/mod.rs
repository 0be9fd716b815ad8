//! Everything worth telling about, told once. Metrics and logs listen; nothing that listens can change an outcome.

mod finished;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use finished::Finished;
pub use state::{QueueState, RedisMemory};

use crate::job::{CronName, DeadReason, FailureKind, JobId, JobType, QueueName};

/// Something that happened in this process.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A handler is about to run.
    Started {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// From being ready to this moment.
        wait: Duration,
    },
    /// A handler ran to its end, or was cut short. What follows from it, Redis does not know yet.
    Ran {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// How long it ran.
        elapsed: Duration,
    },
    /// An attempt ended and Redis knows it.
    Finished(Finished<'a>),
    /// A handler failed.
    Failed {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it got.
        job_type: &'a JobType,
        /// The job.
        job: &'a JobId,
        /// The kind of failure.
        kind: FailureKind,
        /// What it said.
        error: &'a str,
    },
    /// An attempt's worker fell silent, and its entry was taken over.
    Lost {
        /// Where the job came from.
        queue: &'a QueueName,
        /// What handler it needs.
        job_type: &'a JobType,
    },
    /// A program that a handler ran has ended, or could not be started.
    ChildEnded {
        /// Whose program it was.
        job_type: &'a JobType,
        /// How it ended.
        ending: ChildEnding,
    },
    /// This process joined a queue's group.
    Joined {
        /// The queue.
        queue: &'a QueueName,
        /// How long an entry may be silent, as the fleet agreed.
        lease: Duration,
        /// The longest time that an attempt of any type may take here.
        longest_timeout: Duration,
    },
    /// This process serves a queue: it has joined it, or Redis no longer refuses what that needs.
    Served {
        /// The queue.
        queue: &'a QueueName,
    },
    /// This process cannot serve a queue, because Redis refuses what that needs: a key has another type, or a right is missing.
    /// It goes on trying, and the other queues go on. Recipient when it begins, and when there is another reason.
    Unserved {
        /// The queue.
        queue: &'a QueueName,
        /// What Redis said, and of which key.
        why: &'a str,
    },
    /// How long the longest running attempt of this process has run. Recipient a few times in each lease.
    LongestRun {
        /// The queue.
        queue: &'a QueueName,
        /// Zero where none runs.
        elapsed: Duration,
    },
    /// An outcome came after its entry was taken over, and changed nothing.
    Fenced {
        /// Where the job came from.
        queue: &'a QueueName,
    },
    /// Redis refuses what an entry needs, for reasons that lie in its keys or in our rights. It waits aside and is tried
    /// again; the others go on. Recipient the first time.
    SetAside {
        /// Where the job came from.
        queue: &'a QueueName,
        /// The job; of bytes that are no job, the id that their entry stands for.
        job: &'a JobId,
        /// The keys of which one may have another type, or be closed to us.
        keys: &'a str,
        /// What Redis said.
        error: &'a str,
    },
    /// A running job's lease was lost; its handler is cancelled.
    LeaseLost {
        /// Where the job came from.
        queue: &'a QueueName,
    },
    /// Entries of a silent consumer were taken over.
    Claimed {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        jobs: u64,
    },
    /// Entries were pending whose bodies somebody deleted.
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
        /// By how much the first was late.
        late: Duration,
    },
    /// The promoter looked for due jobs, whether there were any or not.
    Looked {
        /// The queue.
        queue: &'a QueueName,
    },
    /// Retention dropped dead letters.
    Evicted {
        /// The queue.
        queue: &'a QueueName,
        /// How many.
        letters: u64,
    },
    /// Ticks of a recurring job were submitted.
    CronTicked {
        /// The queue.
        queue: &'a QueueName,
        /// The recurring job.
        entry: &'a CronName,
        /// How many.
        jobs: usize,
        /// By how much the last was late.
        late: Duration,
    },
    /// Ticks of a recurring job were missed, and are not made up for.
    CronSkipped {
        /// The queue.
        queue: &'a QueueName,
        /// The recurring job.
        entry: &'a CronName,
        /// How many; beyond a thousand they are not counted.
        ticks: usize,
    },
    /// The clock of a queue's Redis was set back by more than a minute, as the process that does its chores saw.
    ClockSetBack {
        /// The queue.
        queue: &'a QueueName,
        /// By how much, at the least.
        by: Duration,
    },
    /// Streams or groups of a queue in use had to be made again: somebody deleted them.
    GroupRecreated {
        /// The queue.
        queue: &'a QueueName,
    },
    /// This process began, or ceased, to do a queue's chores.
    Leading {
        /// The queue.
        queue: &'a QueueName,
        /// Whether it does.
        leading: bool,
    },
    /// A reading of new entries completed.
    Read {
        /// The queue.
        queue: &'a QueueName,
        /// How many entries came.
        entries: usize,
    },
    /// This process began to stop: it takes no new jobs, and lets the running ones end.
    Stopping,
    /// Redis did not do what was asked.
    RedisError {
        /// The command or script's kind of failure.
        kind: &'a str,
        /// The whole text.
        error: &'a str,
    },
    /// How long a queue is that this process does the chores of. Recipient by a timer, whether jobs run or not.
    QueueLength {
        /// The queue.
        queue: &'a QueueName,
        /// Jobs that nobody has taken.
        waiting: u64,
        /// Jobs that a worker has.
        running: u64,
        /// Jobs in the delayed set.
        delayed: u64,
        /// Dead letters.
        dead: u64,
        /// How long the oldest waiting job has been in its stream.
        oldest_waiting: Option<Duration>,
    },
    /// All that this process, which does a queue's chores, knows of it. Recipient by the same timer.
    Surveyed {
        /// The queue.
        queue: &'a QueueName,
        /// What is known.
        state: &'a QueueState,
    },
    /// A round trip to Redis ended. Reads that wait for entries are not told.
    RoundTrip {
        /// What was asked: a script's name, or a command's.
        command: &'static str,
        /// How long that took.
        took: Duration,
    },
    /// A connection to Redis was made again.
    Reconnected {
        /// How often.
        times: u64,
    },
    /// A call of a hook failed, which changes nothing for any job.
    HookFailed {
        /// What it calls itself.
        hook: &'a str,
        /// How it failed.
        kind: HookFailure,
        /// What it said.
        error: &'a str,
    },
    /// Events were written to a queue's stream of events.
    Published {
        /// How many.
        events: u64,
    },
    /// Somebody was not told of something: the channel was full, a hook did not come back, or Redis refused.
    NotificationsDropped {
        /// Who.
        recipient: Recipient,
        /// Of how much.
        notifications: u64,
    },
    /// Spans of attempts are with the collector.
    Exported {
        /// How many.
        spans: u64,
    },
    /// Spans of attempts were dropped, which changes nothing for any job.
    Unexported {
        /// How many.
        spans: u64,
        /// In which way.
        loss: SpanLoss,
        /// Why, for people.
        why: &'a str,
    },
    /// The process's sign of life was answered, or not.
    Contact {
        /// Whether it was.
        alive: bool,
    },
}

/// How a call of a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookFailure {
    /// It returned an error.
    Error,
    /// It panicked.
    Panic,
    /// It did not return in time.
    Timeout,
}

impl HookFailure {
    /// The value of the metrics' `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
        }
    }
}

/// Who is told of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// A hook of this process.
    Hook,
    /// A queue's stream of events.
    Stream,
}

impl Recipient {
    /// The value of the metrics' `whom` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Stream => "stream",
        }
    }
}

/// How spans were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanLoss {
    /// More ended than the collector takes, and there was no room left.
    Full,
    /// The collector does not want them.
    Refused,
    /// The collector did not answer, time and again.
    Unreachable,
}

impl SpanLoss {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Full, Self::Refused, Self::Unreachable];

    /// The value of the metrics' `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// How a program ended that a handler ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnding {
    /// By itself, with the exit code 0.
    Exited,
    /// By itself, with another exit code.
    Failed,
    /// By a signal.
    Signal,
    /// It was told to stop, because its time was up.
    Timeout,
    /// It could not be started.
    NotStarted,
}

/// How an attempt ended, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The job is done.
    Succeeded,
    /// It will be tried again.
    Retried,
    /// It is in the dead stream.
    Dead(DeadReason),
    /// It runs again later, because the handler or the producer said so.
    Snoozed,
    /// It was given back unfinished.
    Interrupted,
    /// The job was cancelled, by a person or by its handler.
    Cancelled,
}

impl Ending {
    /// True where the job will not run again by itself.
    pub fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Dead(_) | Self::Cancelled => true,
            Self::Retried | Self::Snoozed | Self::Interrupted => false,
        }
    }

    /// The value of the metrics' `outcome` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retried => "retried",
            Self::Dead(DeadReason::Expired) => "expired",
            Self::Dead(_) => "dead",
            Self::Snoozed => "snoozed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

type Listener = dyn Fn(&Event<'_>) + Send + Sync;

/// Where events go: to every listener, in the order in which they were given. Clones share the listeners.
#[derive(Clone, Default)]
pub struct Events {
    listeners: Arc<[Arc<Listener>]>,
}

impl Events {
    /// Events that go to these listeners. A listener must be quick, and must not block.
    pub fn new(listeners: Vec<Arc<Listener>>) -> Self {
        Self { listeners: listeners.into() }
    }

    /// Events that go to one more listener.
    #[must_use]
    pub fn and(&self, listener: Arc<Listener>) -> Self {
        Self { listeners: self.listeners.iter().cloned().chain([listener]).collect() }
    }

    /// Tells every listener that Redis did not do what was asked.
    pub(crate) fn redis_error(&self, kind: &str, error: &impl fmt::Display) {
        self.tell(&Event::RedisError { kind, error: &error.to_string() });
    }

    /// Tells every listener.
    pub fn tell(&self, event: &Event<'_>) {
        for listener in self.listeners.iter() {
            listener(event);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Events({} listeners)", self.listeners.len())
    }
}
