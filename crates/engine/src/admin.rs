//! Inspecting and repairing what Redis holds: what a tool for operators needs. The `streamfleet` program is a command
//! line around this module. Programs that submit and run jobs seldom need it.
//!
//! [`Broker`](crate::Broker) lists queues, workers and servers. [`Queue`](crate::Queue) inspects one queue and changes
//! its jobs, partly through handles:
//!
//! | handle | manages |
//! |---|---|
//! | [`Queue::dead_letters`](crate::Queue::dead_letters) | [`DeadLetters`]: list, replay and drop the letters of exhausted jobs |
//! | [`Queue::audit`](crate::Queue::audit) | [`AuditLog`]: note what people do to the queue, and read it |
//! | [`Queue::tasks`](crate::Queue::tasks) | [`Tasks`]: what the fleet does to many jobs or dead letters, page by page |
//! | [`Queue::delayed`](crate::Queue::delayed) | [`Delayed`]: list the jobs that are due later |
//! | [`Queue::bulk`](crate::Queue::bulk) | [`BulkJobs`]: cancel, run now or move the jobs that a filter matches |
//! | [`Queue::walk_jobs`](crate::Queue::walk_jobs) | [`JobWalk`]: find jobs by state, type, payload, header or age |
//! | [`Queue::cron`](crate::Queue::cron) | [`Cron`]: add, pause and remove recurring jobs |
//! | [`Queue::gates`](crate::Queue::gates) | [`Gates`]: pause and limit a queue, its types, or values of a field |
//! | [`Queue::samples`](crate::Queue::samples), [`Queue::type_stats`](crate::Queue::type_stats) | [`Sample`], [`TypeStats`]: what happened lately, for charts |
//! | [`Queue::events`](crate::Queue::events) | [`EventStream`]: read what happened to jobs |
//! | [`Queue::steps`](crate::Queue::steps) | [`StepLedgers`]: show a job's steps, and decide about those with an unknown outcome |
//!
//! [`Broker::incidents`](crate::Broker::incidents) returns [`Incidents`]: what is wrong now, what was wrong, and who knows of it.
//!
//! Everything here can be repeated: if an answer is lost, ask again.
//!
//! ```no_run
//! # use streamfleet_engine as streamfleet;
//! use streamfleet::Broker;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = Broker::connect("redis://127.0.0.1:6379").await?;
//! for name in broker.queues().await?.found {
//!     let letters = broker.queue(name.clone()).dead_letters().page(None, 100).await?;
//!     println!("{name}: {} dead letters on the first page", letters.len());
//! }
//! # Ok(())
//! # }
//! ```

pub use crate::job::backlog::{Backlog, Cause, GateStanding, HeldJobs, Hold, TimeToEmpty};
pub use crate::job::distribution::Distribution;
pub use crate::job::duration::short;
pub use crate::job::filter::{Candidate, Filter, FilterError, Match};
pub use crate::job::incident::delivery::Delivery;
pub use crate::job::incident::{Incident, IncidentExample, IncidentId, IncidentKind, IncidentState};
pub use crate::job::number::grouped;
pub use crate::job::patch::{Patch, PatchError};
pub use crate::job::payload::{read_msgpack, unpacked};
pub use crate::job::task::{ReplayCounts, ReplayRules, TaskState};
pub use crate::{
    Acknowledgment, Action, Advance, Amended, Attempt, AuditCursor, AuditLog, AuditPage, AuditSearch,
    AuditSource, Awaited, Batch, BulkAction, BulkCursor, BulkError, BulkJobs, BulkPage, BulkPlan,
    BulkSelection, BulkTally, BulkTerms, Cancellation, Consumer, Cron, CronStatus, CronTable, DeadGroup,
    DeadGroups, DeadLetter, DeadLetters, DecideError, Decided, Delayed, DelayedEdit, DelayedJob, DeletedPage,
    DeletionLog, Departed, Drain, DrainOutcome, Due, EditError, EventStream, Evicted, Filed, FoundJob,
    GateStatus, Gates, Holdings, Incidents, JobCursor, JobHolder, JobPage, JobSearch, JobWalk, Joined, Kept,
    KeptBack, KeyCursor, KnownIncident, LaneSnapshot, LetterEdit, LetterLimits, LetterSearch, Listed,
    LogLine, MAX_ENTRIES, Members, Missing, Noted, OpenIncidents, Part, PastAction, PastEvent, PastIncident,
    Progress, QueueSnapshot, QueueUse, RedisMemory, Replayed, Sample, SelectedPage, Selection, SelectionPlan,
    Server, Status, Step, StepLedgers, StepsStatus, Task, TaskAction, TaskCounts, TaskCursor, TaskError,
    TaskPage, Tasks, TypeFigures, TypeStats, UnknownType, Unread, Upcoming, WIRE_VERSION, Waitlist,
    WorkerInfo, stream_name,
};
