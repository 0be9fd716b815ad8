//! What happens to the programs that handlers run, and how they end.

use crate::job::{JobType, PoolName};

/// Something that happened to the programs that handlers run.
#[derive(Debug, Clone, Copy)]
pub enum ProgramEvent<'a> {
    /// A program that a handler ran has ended, or could not be started.
    ChildEnded {
        /// The type of the job whose program it was.
        job_type: &'a JobType,
        /// How it ended.
        ending: ChildEnding,
    },
    /// What the programs of a pool are doing. Reported every second.
    Pool {
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
    PoolEnded {
        /// The pool.
        pool: &'a PoolName,
        /// How it ended.
        ending: PoolEnding,
        /// How it ended, for people, with the end of its standard error.
        why: &'a str,
    },
}

/// How a program that a handler ran ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnding {
    /// On its own, with exit code 0.
    Exited,
    /// On its own, with another exit code.
    Failed,
    /// By a signal.
    Signal,
    /// It was asked to stop because it timed out.
    Timeout,
    /// It could not be started.
    NotStarted,
}

variants! {
    /// How a program of a pool ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PoolEnding {
        /// It had as many jobs as it may have.
        MaxJobs = "max_jobs",
        /// It was as old as it may become.
        MaxLifetime = "max_lifetime",
        /// It used more memory than it may.
        MaxMemory = "max_memory",
        /// It had no job for a while.
        Idle = "idle",
        /// It was replaced because somebody asked for new programs.
        Reload = "reload",
        /// The worker stops.
        Stopped = "stopped",
        /// It ended on its own, with exit code 0 and no job.
        Exited = "exited",
        /// It ended in another way, or without an answer.
        Crashed = "crashed",
        /// It did not follow the protocol.
        Nonsense = "nonsense",
        /// It did not end an attempt that was cut short.
        Cut = "cut",
        /// It could not be started, or was not ready in time.
        NotStarted = "not_started",
    }
}

impl PoolEnding {
    /// Returns true if the program failed, rather than being ended by its pool or ending in order.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Crashed | Self::Nonsense | Self::Cut | Self::NotStarted => true,
            Self::MaxJobs
            | Self::MaxLifetime
            | Self::MaxMemory
            | Self::Idle
            | Self::Reload
            | Self::Stopped
            | Self::Exited => false,
        }
    }
}
