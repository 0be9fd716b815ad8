//! A job that a worker has taken, how its attempt went, and the fields of the entry that it becomes when it is moved.

use std::time::Duration;

use crate::job::{Deferral, Envelope, GateName, JobSpec, Parking, TraceContext};
use crate::sabotage::{self, Sabotage};

/// The fields that an entry has in a waiting list beside its own: its lane, and the gates that it has to pass, one per line.
const OWN_LANE: &[u8] = b"lane";
const ROOM_GATES: &[u8] = b"room_gates";

/// The field in which older versions wrote since when no worker had known the job's type.
const UNROUTABLE: &[u8] = b"unroutable_ms";

/// A job with the fields of the entry that carries it.
#[derive(Debug, Clone, Copy)]
pub struct TakenJob<'a> {
    /// What its fields mean.
    pub job: &'a JobSpec,
    /// The fields.
    pub envelope: &'a Envelope,
    /// The span of the attempt that ended, if it had one.
    pub trace: Option<&'a TraceContext>,
}

/// What is noted about an attempt that ended.
#[derive(Debug, Clone, Copy)]
pub struct AttemptSummary<'a> {
    /// How long it ran.
    pub elapsed: Duration,
    /// How it ended, in one word.
    pub outcome: &'a str,
    /// The consumer that ran it.
    pub worker: &'a str,
}

/// Returns the entry's fields with `add` in place of those that `replaced` selects. If the attempt had a span, the
/// fields link to it.
pub(crate) fn edited(
    envelope: &Envelope,
    trace: Option<&TraceContext>,
    replaced: impl Fn(&[u8]) -> bool,
    add: &[(&[u8], &[u8])],
) -> Envelope {
    const LINK: &[u8] = b"trace_link";
    let Some(trace) = trace else { return envelope.edited(replaced, add) };
    let add: Vec<_> = add.iter().copied().chain([(LINK, trace.as_str().as_bytes())]).collect();
    envelope.edited(|name| name == LINK || replaced(name), &add)
}

/// Returns the fields of an entry that is moved as it is, with the identity that its first entry gave the job. In a waiting list,
/// they also say where the job has to go from there.
pub(crate) fn identified(taken: TakenJob<'_>, parking: Option<&Parking>) -> Envelope {
    let job = taken.job;
    let (id, since, generation) =
        (job.id.to_string(), job.created.as_ms().to_string(), job.generation.to_string());
    let gates =
        parking.map(|parking| parking.gates.iter().map(GateName::as_str).collect::<Vec<_>>().join("\n"));
    let mut add: Vec<(&[u8], &[u8])> =
        vec![(b"id", id.as_bytes()), (b"created_ms", since.as_bytes()), (b"life", generation.as_bytes())];
    if let Some(gates) = &gates {
        add.extend([(OWN_LANE, job.own_lane.as_str().as_bytes()), (ROOM_GATES, gates.as_bytes())]);
    }
    let replaced = |name: &[u8]| {
        matches!(name, b"id" | b"created_ms" | b"life")
            || (gates.is_some() && (name == OWN_LANE || name == ROOM_GATES))
    };
    edited(taken.envelope, taken.trace, replaced, &add)
}

/// Returns the fields of the next attempt: counters updated, times that have passed removed, identity fixed.
pub(crate) fn next_attempt(taken: TakenJob<'_>, to: &Deferral) -> Envelope {
    let job = taken.job;
    let id = job.id.to_string();
    let generation = job.generation.to_string();
    let failures = match &to.error {
        Some(_) if sabotage::is(Sabotage::RetryNotCounted) => job.attempt,
        None if sabotage::is(Sabotage::SnoozeCounted) => to.attempt + 1,
        Some(_) | None => to.attempt,
    };
    let (attempt, lost, created) =
        (failures.to_string(), to.lost.to_string(), job.created.as_ms().to_string());
    let mut add: Vec<(&[u8], &[u8])> = vec![(b"id", id.as_bytes()), (b"created_ms", created.as_bytes())];
    if failures > 0 {
        add.push((b"attempt", attempt.as_bytes()));
    }
    if to.lost > 0 {
        add.push((b"lost", lost.as_bytes()));
    }
    // A later dead letter shows the time that its producer set.
    for (time, kept) in
        [(b"delay_ms".as_slice(), b"was_delay_ms".as_slice()), (b"run_at_ms", b"was_run_at_ms")]
    {
        add.extend(taken.envelope.get(time).map(|time| (kept, time)));
    }
    let replaced = |name: &[u8]| {
        matches!(name, b"id" | b"created_ms" | b"life" | b"attempt" | b"lost" | b"run_at_ms" | b"delay_ms")
            || name == UNROUTABLE
            || name == OWN_LANE
    };
    // Scripts read the generation from the beginning of the packed fields.
    edited(taken.envelope, taken.trace, replaced, &add).after(b"life", generation.as_bytes())
}
