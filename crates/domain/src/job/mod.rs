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

#[doc(hidden)]
pub mod backlog;
pub mod bounds;
mod codec;
pub mod distribution;
pub mod duration;
mod envelope;
mod error_rules;
mod fair;
pub mod filter;
mod fingerprint;
mod followup;
mod gate;
mod generation;
mod hand_over;
mod id;
pub mod incident;
mod invalid_payload;
mod jitter;
mod job_error;
mod lease;
mod ledger;
pub mod nearest;
pub mod number;
mod offload;
mod outcome;
mod pacing;
pub mod patch;
pub mod payload;
mod plan;
mod portion;
mod priority;
mod record;
mod retry;
mod rule_action;
mod rules;
mod settlement;
pub mod size;
mod state;
mod step;
pub mod task;
mod telling;
mod time;
mod trace;
mod trace_state;
mod typed;
mod weight;

pub use bounds::OutOfBounds;
pub use codec::Codec;
#[doc(hidden)]
pub use codec::{is_key_name, is_sha256};
pub use duration::{format_duration, parse_duration};
pub use envelope::pack_texts;
#[doc(hidden)]
pub use envelope::unpack_texts;
pub use envelope::{Envelope, Malformed};
pub use error_rules::ErrorRules;
pub use fair::FairShare;
pub use fingerprint::fingerprint;
pub use followup::{BatchId, ChainedJob, End, FollowUps, UniqueKey};
pub use followup::{CarriedTrace, callback_of_type};
pub use gate::written_limits;
pub use gate::{Breaker, Closed, GateName, InvalidLimit, Limits, Parking, Rate};
pub use generation::Generation;
pub use hand_over::HandOver;
pub use id::{
    ConsumerName, CronName, EntryId, InvalidName, JobId, JobType, Lane, Namespace, PoolName, QueueName,
    SinkName, StepName,
};
pub use invalid_payload::{InvalidPayload, PayloadProblem};
pub use jitter::{doubled, jittered};
pub use job_error::JobError;
pub use lease::{ClockReading, ClockWatch, Lease};
pub use ledger::{Decision, Ledger, StepError, StepRecord};
pub use offload::LightEnvelope;
pub use outcome::cut;
pub use outcome::{DeadReason, Failure, FailureKind, Outcome, Retry};
pub use pacing::Pacing;
pub use plan::AfterDecision;
pub use plan::{Next, Plan, PlanError, PlannedStep, Standing};
pub use portion::Portion;
pub use priority::Priority;
pub use record::{Encoding, Former, JobSpec};
pub use retry::Policies;
pub use retry::{Backoff, Policy, Tracking};
pub use rule_action::RuleAction;
pub use rules::{Rule, Rules};
pub use settlement::{Burial, Deferral, Settlement};
pub use settlement::{settle, settle_unserved};
pub use state::State;
pub use step::{StepEnd, end_step, judge};
pub use step::{StepKind, StepLimits, StepState, Undecidable, Verdict};
pub use telling::telling_line;
pub use time::Timestamp;
pub use trace::TraceContext;
pub use trace_state::TraceState;
pub use typed::Job;
pub use typed::type_of;
pub use weight::weight;
