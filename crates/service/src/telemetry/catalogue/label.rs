//! The labels of metrics, and the values that each may have. Every set of values is fixed once a process runs.

use crate::broker;
use crate::job::Lane;
use crate::job::incident::IncidentKind;
use streamfleet::event::{HookFailure, PoolEnding, PushResult, Recipient, SpanLoss};

/// A label.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// The values it may have.
    pub values: Values,
}

/// The possible values of a label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Values {
    /// One of these.
    Closed(&'static [&'static str]),
    /// Values from the configuration or the build; the text describes them.
    Given(&'static str),
}

/// The label value for types without a handler in this process.
pub(in super::super) const UNKNOWN: &str = "_unknown";

/// The label value for types beyond the number that have their own series.
pub(in super::super) const OTHER: &str = "_other";

const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values: Values::Closed(values) }
}

const fn given(name: &'static str, what: &'static str) -> Label {
    Label { name, values: Values::Given(what) }
}

pub(super) const QUEUE: Label = given("queue", "the queues that the process serves");
pub(super) const JOB_TYPE: Label = given(
    "job_type",
    "the types with a handler; `_other` beyond 200 pairs of queue and type, `_unknown` for types without a handler",
);
pub(super) const PROGRAM_TYPE: Label =
    given("job_type", "the types with an `exec` handler; `_other` beyond 200 of them");
pub(super) const VERSION: Label = given("version", "of the build");
pub(super) const REVISION: Label = given("revision", "of the build");

/// How attempts end.
pub(in super::super) const OUTCOMES: [&str; 7] =
    ["succeeded", "retried", "dead", "expired", "snoozed", "interrupted", "cancelled"];
pub(super) const OUTCOME: Label = closed("outcome", &OUTCOMES);

/// Why attempts fail, first in the order of [`FailureKind`](crate::job::FailureKind).
pub(in super::super) const FAILURES: [&str; 5] = ["error", "timeout", "panic", "unknown", "lost"];
pub(super) const FAILURE: Label = closed("reason", &FAILURES);

pub(super) const RECLAIM: Label = closed("reason", &["idle"]);

/// The states of a queue's jobs.
pub(in super::super) const STATES: [&str; 4] = ["waiting", "running", "delayed", "dead"];
pub(super) const STATE: Label = closed("state", &STATES);

/// The states of a queue's consumers.
pub(in super::super) const CONSUMERS: [&str; 2] = ["live", "stale"];
pub(super) const CONSUMER: Label = closed("state", &CONSUMERS);

pub(super) const LANE: Label = closed("lane", &Lane::NAMES);

/// How programs end, in the order of [`ChildEnding`](streamfleet::event::ChildEnding).
pub(in super::super) const CHILDREN: [&str; 5] = ["exited", "failed", "signal", "timeout", "not_started"];
pub(super) const CHILD: Label = closed("outcome", &CHILDREN);

pub(super) const POOL: Label = given("pool", "the pools of the process");

/// What programs of pools are doing.
pub(in super::super) const PROGRAMS: [&str; 4] = ["busy", "idle", "starting", "leaving"];
pub(super) const PROGRAM: Label = closed("state", &PROGRAMS);

pub(super) const POOL_ENDING: Label = closed("reason", &PoolEnding::NAMES);

pub(super) const SINK: Label = given("sink", "the sinks of the process");

/// What becomes of messages about incidents.
pub(in super::super) const MESSAGES: [&str; 3] = ["sent", "failed", "given_up"];
pub(super) const MESSAGE: Label = closed("result", &MESSAGES);

pub(super) const INCIDENT: Label = closed("kind", &IncidentKind::NAMES);

pub(super) const HISTORY_QUEUE: Label = given("queue", "the queues whose history the process may write");

/// The classes of errors of databases, in the order in which the crate of SQL has them. An outbox also waits for Redis.
pub(in super::super) const DATABASE_ERRORS: [&str; 7] =
    ["address", "input", "transient", "poison", "schema", "forbidden", "broken"];
pub(super) const DATABASE_ERROR: Label = closed("class", &DATABASE_ERRORS);
pub(in super::super) const OUTBOX_ERRORS: [&str; 8] =
    ["address", "input", "transient", "poison", "schema", "forbidden", "broken", "redis"];
pub(super) const OUTBOX_ERROR: Label = closed("class", &OUTBOX_ERRORS);

pub(super) const HOOK: Label = closed("reason", &HookFailure::NAMES);
pub(super) const RECIPIENT: Label = closed("recipient", &Recipient::NAMES);
pub(super) const PUSH: Label = closed("result", &PushResult::NAMES);
pub(super) const SPAN_LOSS: Label = closed("reason", &SpanLoss::NAMES);
pub(super) const ERROR: Label = closed("kind", &broker::Error::KINDS);
pub(super) const COMMAND: Label = closed("command", &broker::COMMANDS);
