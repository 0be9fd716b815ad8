//! A job that was delivered to this process. It is one allocation, shared by the slot that runs it, the handler that
//! sees it, the heartbeat that keeps its lease and the settler that ends it.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::lease::{EntryKey, HeldLease};
use super::memory_budget::MemoryCharge;
use super::report::Report;
use crate::broker::mutex::lock;
use crate::broker::{AttemptEnd, Entry, Error};
use crate::job::{Envelope, GateName, JobSpec, Outcome, TraceContext};

/// A job with the entry that carries it, owned by this process until it is settled.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) job: JobSpec,
    pub(crate) envelope: Envelope,
    pub(crate) held_lease: HeldLease,
    /// What its handler reports while it runs. Most handlers report nothing.
    pub(crate) report: Report,
    /// The span of its attempt, once it has started; empty if attempts have no spans.
    pub(crate) trace: OnceLock<Box<TraceContext>>,
    /// How often Redis has refused to let it begin.
    pub(crate) refusals: AtomicU32,
    /// Its share in what is put off; empty if it is not put off.
    pub(super) memory_charge: OnceLock<MemoryCharge>,
    /// The gates in which it may hold places. Most deliveries meet none.
    gates: Mutex<Vec<GateName>>,
}

impl Delivery {
    pub(crate) fn new(job: JobSpec, envelope: Envelope, held_lease: HeldLease) -> Self {
        Self {
            job,
            envelope,
            held_lease,
            report: Report::default(),
            trace: OnceLock::new(),
            refusals: AtomicU32::new(0),
            memory_charge: OnceLock::new(),
            gates: Mutex::default(),
        }
    }

    /// Notes that it may hold places in these gates from now on.
    pub(crate) fn note_gates(&self, gates: &[GateName]) {
        let mut known = lock(&self.gates);
        for gate in gates {
            if !known.contains(gate) {
                known.push(gate.clone());
            }
        }
    }

    /// Returns the gates in which it may hold places.
    pub(crate) fn gates(&self) -> Vec<GateName> {
        lock(&self.gates).clone()
    }

    /// Returns the span of its attempt, if it has one.
    pub(crate) fn trace(&self) -> Option<&TraceContext> {
        self.trace.get().map(|trace| &**trace)
    }

    pub(crate) fn key(&self) -> EntryKey {
        (self.job.lane, self.job.entry)
    }
}

/// A delivery that is finished, and how it ended. Settling consumes it.
#[derive(Debug)]
pub(crate) struct FinishedAttempt {
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) outcome: Outcome,
    /// How long its handler ran.
    pub(crate) elapsed: Duration,
    /// Whether the job has a record, which its end must settle too.
    pub(crate) tracked: bool,
    /// Whether it began steps, so that the job has a record until it ends.
    pub(crate) has_steps: bool,
    /// Whether the job's type names a job that follows a success.
    pub(crate) is_followed: bool,
}

impl FinishedAttempt {
    /// Returns what its end says to a breaker.
    pub(crate) fn end(&self) -> AttemptEnd {
        match self.outcome {
            Outcome::Done(_) => AttemptEnd::Succeeded,
            Outcome::Failed(_) => AttemptEnd::Failed,
            Outcome::Snoozed(_)
            | Outcome::Interrupted
            | Outcome::NotDue(_)
            | Outcome::Parked(_)
            | Outcome::Unroutable
            | Outcome::Expired
            | Outcome::Cancelled
            | Outcome::Dropped(_)
            | Outcome::Lost(_)
            | Outcome::Malformed(_)
            | Outcome::Invalid(_) => AttemptEnd::Other,
        }
    }

    /// Returns the bytes of its fields and of its result.
    pub(crate) fn bytes(&self) -> usize {
        let result = if let Outcome::Done(Some(result)) = &self.outcome { result.len() } else { 0 };
        self.delivery.envelope.size() + result
    }

    /// Returns true if a batch can settle it without a script.
    pub(crate) fn is_plain_success(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_))
            && !self.tracked
            && !self.is_followed
            && !self.delivery.envelope.is_offloaded()
    }
}

/// Work for the settler.
#[derive(Debug)]
pub(crate) enum SettlerInput {
    /// A delivery that is finished.
    Finished(FinishedAttempt),
    /// A plain success whose entry was settled before its batch was. The flag says whether only this process can have
    /// done that, unless something is known about the job.
    Settled(FinishedAttempt, bool),
    /// A delivery that Redis refuses to let begin, and why.
    NotStarted(Arc<Delivery>, Error),
    /// An entry that is not a job, and why.
    Malformed(Entry, String),
}

impl SettlerInput {
    /// Creates the end of a delivery whose handler did not run.
    pub(crate) fn not_run(delivery: Arc<Delivery>, outcome: Outcome) -> Self {
        let (tracked, has_steps, is_followed) = (false, false, false);
        let elapsed = Duration::ZERO;
        Self::Finished(FinishedAttempt { delivery, outcome, elapsed, tracked, has_steps, is_followed })
    }

    /// Returns the delivery, or the entry if it is not a job.
    pub(super) fn delivery(&self) -> Result<&Arc<Delivery>, &Entry> {
        match self {
            Self::Finished(finished) | Self::Settled(finished, _) => Ok(&finished.delivery),
            Self::NotStarted(delivery, _) => Ok(delivery),
            Self::Malformed(entry, _) => Err(entry),
        }
    }
}
