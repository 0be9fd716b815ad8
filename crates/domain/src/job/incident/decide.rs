//! What a check leads to: incidents that open, go on, are repeated, are resolved, or are over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Incident, IncidentId, IncidentKind, IncidentState, OTHERS, Observation};
use crate::job::{QueueName, Timestamp};

/// The most incidents that are not over.
pub const MAX_INCIDENTS: usize = 300;

/// How many of them may be of kinds of which a queue may have several. The others tell that a whole queue or a server is in
/// trouble, and must not be missed because of these.
const MAX_OF_SEVERAL: usize = 200;

/// A message that says that an incident is resolved is not offered to a sink for longer than this.
const RESOLVED_FOR: Duration = Duration::from_secs(24 * 3600);

/// How exactly it is known when an incident was last seen. What does not change is not written down at each check.
const SEEN_EVERY: Duration = Duration::from_secs(60);

/// When incidents open, are repeated and are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long no worker must be live.
    pub no_worker_for: Duration,
    /// How long no worker must know a type, or no program of its pool must serve.
    pub unserved_for: Duration,
    /// When the first reminder comes. The pause doubles with each one …
    pub remind_after: Duration,
    /// … up to this.
    pub remind_most: Duration,
    /// How long nothing must be wrong.
    pub resolve_after: Duration,
}

impl Timing {
    /// Returns how long something must be wrong before an incident opens.
    fn hold(&self, kind: IncidentKind) -> Duration {
        match kind {
            IncidentKind::NoWorker => self.no_worker_for,
            IncidentKind::UnservedType | IncidentKind::PoolDown => self.unserved_for,
            IncidentKind::DeadGroup
            | IncidentKind::DeadRate
            | IncidentKind::DeadJob
            | IncidentKind::Backlog
            | IncidentKind::NeedsDecision
            | IncidentKind::CampaignStopped
            | IncidentKind::QueuePaused
            | IncidentKind::RedisMemory
            | IncidentKind::HistoryBehind
            | IncidentKind::HistoryLost
            | IncidentKind::OutboxStuck => Duration::ZERO,
        }
    }

    /// Returns the pause after this many messages.
    fn pause(&self, notices: u32) -> Duration {
        let doublings = notices.saturating_sub(1).min(20);
        self.remind_after.saturating_mul(1 << doublings).min(self.remind_most.max(self.remind_after))
    }
}

/// What a check has seen.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// What is wrong now.
    pub observations: Vec<Observation>,
    /// What was checked at all. If something could not be, nothing is known about it.
    pub covered: BTreeSet<(IncidentKind, Option<QueueName>)>,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// Write down the incident.
    Put {
        /// The incident after the change.
        incident: Incident,
        /// Whether it has opened, or is resolved now.
        is_news: bool,
    },
    /// The incident is over, and becomes a past one.
    End(Incident),
    /// The incident never opened, and is forgotten.
    Forget(IncidentId),
}

/// What is known about an incident, beyond itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Until when a person does not want to be reminded of it.
    #[doc(hidden)]
    pub acknowledged_until: Option<Timestamp>,
    /// Whether all sinks have got all messages.
    #[doc(hidden)]
    pub is_delivered: bool,
}

/// What follows from a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    #[doc(hidden)]
    pub transitions: Vec<Transition>,
    /// How many observations have no incident, because there are too many.
    #[doc(hidden)]
    pub left_out: usize,
}

/// Decides what follows from a check. `draw` returns a random number.
pub fn decide(
    known: &[(Incident, Standing)],
    checked: Checked,
    timing: &Timing,
    now: Timestamp,
    mut draw: impl FnMut() -> u32,
) -> Decision {
    let observations = bounded(known, checked.observations);
    let mut taken = vec![false; observations.len()];
    let mut transitions = Vec::new();
    for (incident, standing) in known {
        if incident.state == IncidentState::Resolved {
            transitions.extend(after_resolved(incident, *standing, timing, now));
            continue;
        }
        let about = |seen: &Observation| incident.is_about(seen.kind, seen.queue.as_ref(), &seen.key);
        let seen = observations.iter().position(about);
        if let Some(at) = seen {
            taken[at] = true;
        }
        let is_covered = checked.covered.contains(&(incident.kind, incident.queue.clone()));
        let found = match seen {
            Some(at) => Found::Wrong(&observations[at]),
            None if is_covered => Found::Nothing,
            None => Found::Unknown,
        };
        transitions.extend(next(incident, *standing, found, timing, now));
    }
    let fresh = observations.iter().zip(taken).filter(|(_, taken)| !taken).map(|(seen, _)| seen).collect();
    let (admitted, left_out) = admitted(known, fresh);
    for seen in admitted {
        // Two incidents with one id would be one; a few draws find a free id.
        let mut id = IncidentId::of(draw());
        let is_used = |id: &IncidentId| {
            known.iter().any(|(incident, _)| incident.id == *id)
                || transitions
                    .iter()
                    .any(|made| matches!(made, Transition::Put { incident, .. } if incident.id == *id))
        };
        for _ in 0..8 {
            if !is_used(&id) {
                break;
            }
            id = IncidentId::of(draw());
        }
        if !is_used(&id) {
            transitions.push(begin(seen, id, timing, now));
        }
    }
    Decision { transitions, left_out }
}

/// Returns the new observations for which there is room, those about whole queues and servers first, and how many there are
/// besides.
fn admitted<'a>(
    known: &[(Incident, Standing)],
    fresh: Vec<&'a Observation>,
) -> (Vec<&'a Observation>, usize) {
    let total = fresh.len();
    let left = MAX_INCIDENTS.saturating_sub(known.len());
    let of_several = known.iter().filter(|(incident, _)| incident.kind.is_one_of_several()).count();
    let (several, mut admitted): (Vec<_>, Vec<_>) =
        fresh.into_iter().partition(|seen| seen.kind.is_one_of_several());
    admitted.truncate(left);
    let rest = (left - admitted.len()).min(MAX_OF_SEVERAL.saturating_sub(of_several));
    admitted.extend(several.into_iter().take(rest));
    let left_out = total - admitted.len();
    (admitted, left_out)
}

/// What a check has found about a known incident.
enum Found<'a> {
    Wrong(&'a Observation),
    Nothing,
    Unknown,
}

fn begin(seen: &Observation, id: IncidentId, timing: &Timing, now: Timestamp) -> Transition {
    let incident = Incident {
        id,
        kind: seen.kind,
        queue: seen.queue.clone(),
        key: seen.key.clone(),
        state: IncidentState::Pending,
        job_type: seen.job_type.clone(),
        detail: seen.detail.clone(),
        count: seen.count,
        example: seen.example.clone(),
        since: seen.since.min(now),
        opened: None,
        seen: now,
        clear_since: None,
        resolved: None,
        notices: 0,
        resolving: 0,
        next: None,
    };
    if now.since(incident.since) >= timing.hold(incident.kind) {
        return open(incident, timing, now);
    }
    Transition::Put { incident, is_news: false }
}

fn open(incident: Incident, timing: &Timing, now: Timestamp) -> Transition {
    let incident = Incident {
        state: IncidentState::Open,
        opened: Some(now),
        notices: 1,
        next: Some(now.after(timing.pause(1))),
        ..incident
    };
    Transition::Put { incident, is_news: true }
}

/// Decides what follows for an incident that is pending or open.
fn next(
    incident: &Incident,
    standing: Standing,
    found: Found<'_>,
    timing: &Timing,
    now: Timestamp,
) -> Option<Transition> {
    let mut changed = incident.clone();
    match found {
        Found::Wrong(seen) => update(&mut changed, seen),
        Found::Nothing if incident.state == IncidentState::Pending => {
            return Some(Transition::Forget(incident.id.clone()));
        }
        Found::Nothing => {
            let since = *changed.clear_since.get_or_insert(now);
            if now.since(since) >= timing.resolve_after {
                return Some(resolve(changed, timing, now));
            }
        }
        Found::Unknown => {}
    }
    let is_stale = now.since(incident.seen) >= SEEN_EVERY;
    if matches!(found, Found::Wrong(_)) && (is_stale || changed != *incident) {
        changed.seen = now;
    }
    if changed.state == IncidentState::Pending {
        if now.since(changed.since) >= timing.hold(changed.kind) && matches!(found, Found::Wrong(_)) {
            return Some(open(changed, timing, now));
        }
    } else {
        let is_quiet = standing.acknowledged_until.is_some_and(|until| now < until);
        let is_due = changed.next.is_none_or(|next| now >= next);
        if is_due && !is_quiet && changed.clear_since.is_none() {
            changed.notices = changed.notices.saturating_add(1);
            changed.next = Some(now.after(timing.pause(changed.notices)));
        }
        // A clock that was set back must not silence it.
        changed.next =
            changed.next.map(|next| next.min(now.after(timing.remind_most.max(timing.remind_after))));
    }
    (changed != *incident).then_some(Transition::Put { incident: changed, is_news: false })
}

fn update(incident: &mut Incident, seen: &Observation) {
    incident.count = if seen.adds { incident.count.saturating_add(seen.count) } else { seen.count };
    // What somebody knows by one example stays the same, unless its job is over: then the check names another one.
    let names_another = seen.key != OTHERS && seen.example.as_ref().is_some_and(|one| !one.job.is_empty());
    if incident.example.is_none() || names_another {
        incident.example.clone_from(&seen.example);
    }
    incident.detail.clone_from(&seen.detail);
    incident.job_type.clone_from(&seen.job_type);
    incident.since = incident.since.min(seen.since);
    incident.clear_since = None;
}

fn resolve(incident: Incident, timing: &Timing, now: Timestamp) -> Transition {
    let notices = incident.notices.saturating_add(1);
    let incident = Incident {
        state: IncidentState::Resolved,
        resolved: Some(now),
        notices,
        resolving: notices,
        next: Some(now.after(timing.pause(1))),
        ..incident
    };
    Transition::Put { incident, is_news: true }
}

/// An incident that is resolved is over when all sinks know, or have not accepted it for long.
fn after_resolved(
    incident: &Incident,
    standing: Standing,
    timing: &Timing,
    now: Timestamp,
) -> Option<Transition> {
    let resolved = incident.resolved.unwrap_or(incident.seen);
    if standing.is_delivered || now.since(resolved) >= RESOLVED_FOR {
        return Some(Transition::End(incident.clone()));
    }
    let is_due = incident.next.is_none_or(|next| now >= next);
    is_due.then(|| {
        let notices = incident.notices.saturating_add(1);
        let tries = notices.saturating_sub(incident.resolving).saturating_add(1);
        let incident = Incident { notices, next: Some(now.after(timing.pause(tries))), ..incident.clone() };
        Transition::Put { incident, is_news: false }
    })
}

/// Lets what exceeds the bound of its kind and queue share one observation.
fn bounded(known: &[(Incident, Standing)], observations: Vec<Observation>) -> Vec<Observation> {
    let mut kept: Vec<Observation> = Vec::new();
    for seen in observations {
        let is_same = |kind: IncidentKind, queue: &Option<QueueName>, key: &str| {
            kind == seen.kind && *queue == seen.queue && key != OTHERS
        };
        let alive = |incident: &&(Incident, Standing)| incident.0.state != IncidentState::Resolved;
        let has_own = known
            .iter()
            .filter(alive)
            .any(|(incident, _)| incident.is_about(seen.kind, seen.queue.as_ref(), &seen.key));
        let of_known = known
            .iter()
            .filter(alive)
            .filter(|(incident, _)| is_same(incident.kind, &incident.queue, &incident.key));
        let is_new = |one: &&Observation| {
            !known
                .iter()
                .filter(alive)
                .any(|(incident, _)| incident.is_about(one.kind, one.queue.as_ref(), &one.key))
        };
        let of_fresh = kept.iter().filter(|one| is_same(one.kind, &one.queue, &one.key)).filter(is_new);
        let count = of_known.count() + of_fresh.count();
        if has_own || seen.key == OTHERS || count < seen.kind.most_per_queue() {
            merge(&mut kept, seen);
        } else {
            let detail = format!("{}, beyond those with an incident of their own", seen.kind.title());
            merge(&mut kept, Observation { key: OTHERS.to_owned(), detail, ..seen });
        }
    }
    kept
}

fn merge(kept: &mut Vec<Observation>, seen: Observation) {
    let is_same =
        |one: &&mut Observation| one.kind == seen.kind && one.queue == seen.queue && one.key == seen.key;
    let Some(one) = kept.iter_mut().find(is_same) else {
        kept.push(seen);
        return;
    };
    one.count = one.count.saturating_add(seen.count);
    one.since = one.since.min(seen.since);
    if one.job_type != seen.job_type {
        one.job_type.clear();
    }
    one.example = one.example.take().or(seen.example);
}

#[cfg(test)]
mod tests;
