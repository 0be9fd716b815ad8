//! The domain: what a job is, what may happen to it, and what follows. Pure: no clock, no randomness, no I/O.
//!
//! An entry's fields become an [`Envelope`] (the bytes as they arrived) and a [`JobSpec`] (what the fields mean). An attempt
//! ends in an [`Outcome`]. `settle` turns it into a [`Settlement`], which the broker carries out in one script. Users
//! of the library give each type a [`Policy`], and implement [`Job`] for payloads; both have an example.
//!
//! ```text
//!              XADD                    promote
//!   producer ───────► waiting ◄──────────────────────── scheduled | retrying
//!                        │ deliver                             ▲
//!                        ▼                                     │ defer
//!                     running ─────────────────────────────────┤
//!                        │  ├── release ──► waiting            │
//!                        │  └── bury ─────► dead ── replay ──► waiting
//!                        └───── ack ──────► done
//! ```

pub use streamfleet_domain::job::{
    Backoff, BatchId, Breaker, Burial, ChainedJob, Closed, Codec, ConsumerName, CronName, DeadReason,
    Decision, Deferral, Encoding, End, EntryId, Envelope, ErrorRules, Failure, FailureKind, FairShare,
    FollowUps, Former, GateName, Generation, InvalidLimit, InvalidName, InvalidPayload, Job, JobId, JobSpec,
    JobType, Lane, Ledger, Limits, Malformed, Namespace, Next, OutOfBounds, Outcome, Parking, PayloadProblem,
    Plan, PlanError, PlannedStep, Policy, PoolName, Priority, QueueName, Rate, Retry, Rule, RuleAction,
    Rules, Settlement, SinkName, Standing, State, StepError, StepKind, StepLimits, StepName, StepRecord,
    StepState, Timestamp, TraceContext, Tracking, Undecidable, UniqueKey, Verdict, format_duration,
    parse_duration,
};
pub(crate) use streamfleet_domain::job::{
    ClockReading, ClockWatch, Lease, Pacing, Policies, Portion, StepEnd, bounds, cut, distribution, doubled,
    duration, end_step, fingerprint, incident, is_key_name, is_sha256, jittered, nearest, number, payload,
    settle, settle_unserved, size, task, telling_line, type_of, weight, written_limits,
};
