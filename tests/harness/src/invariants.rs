//! The invariants of every run of a fleet, one function each. Each returns the offenders.

use std::collections::BTreeSet;

use super::checker::{Case, Offence, nanos};
use super::history::{JobHistory, Span};
use super::ledger::How;

/// Collects the jobs for which `judge` finds something wrong.
fn offenders(case: &Case, judge: impl Fn(&str, &JobHistory) -> Option<String>) -> Vec<Offence> {
    let judged = case.jobs().filter_map(|(job, history)| Some(offence(job, judge(job, history)?)));
    judged.collect()
}

pub(super) fn offence(job: &str, what: String) -> Offence {
    Offence { job: job.to_owned(), what, timeline: Vec::new() }
}

/// Every accepted job succeeded, is dead or was cancelled.
pub(super) fn no_loss(case: &Case) -> Vec<Offence> {
    offenders(case, |job, history| {
        let ended = case.facts.dead.contains_key(job) || case.facts.cancelled.contains(job);
        let lost = history.submitted && !history.has_succeeded() && !ended;
        lost.then(|| "is neither done nor dead nor cancelled".to_owned())
    })
}

/// A job has one end. A success whose worker was hit before it was settled need not have been the end.
pub(super) fn one_place(case: &Case) -> Vec<Offence> {
    let twice = case.facts.dead.iter().filter(|(_job, count)| **count != 1);
    let mut found: Vec<Offence> =
        twice.map(|(job, count)| offence(job, format!("has {count} dead letters"))).collect();
    found.extend(offenders(case, |job, history| {
        let settled = |span: &Span| matches!(span.end, Some((_, How::Ok))) && !case.is_disturbed(span);
        let places = [
            (history.spans.iter().any(settled), "done"),
            (case.facts.dead.contains_key(job), "dead"),
            (case.facts.cancelled.contains(job), "cancelled"),
        ];
        let places: Vec<&str> = places.iter().filter(|(is, _name)| *is).map(|(_is, name)| *name).collect();
        (places.len() > 1).then(|| format!("is {}", places.join(" and ")))
    }));
    found
}

/// Nothing runs or dies that was not submitted, and nothing ends that has not begun.
pub(super) fn no_unexpected(case: &Case) -> Vec<Offence> {
    let is_known =
        |job: &str| case.history.jobs.get(job).is_some_and(|found| found.submitted || found.unknown);
    let ran = case.jobs().map(|(job, _history)| job);
    let all: BTreeSet<&String> = ran.chain(case.facts.dead.keys()).chain(&case.facts.cancelled).collect();
    let unknown = all.into_iter().filter(|job| !is_known(job));
    let mut found: Vec<Offence> = unknown.map(|job| offence(job, "was never submitted".to_owned())).collect();
    found.extend(offenders(case, |_job, history| {
        let stray = history.strays.first()?;
        Some(format!("has an end without a start: fence {}-{}", stray.fence.0, stray.fence.1))
    }));
    found
}

/// Failures and starts stay within the policy. Two failures with the same attempt number count as one: the
/// first came from a worker that had lost the job.
pub(super) fn bounded(case: &Case) -> Vec<Offence> {
    offenders(case, |_job, history| {
        let failed = history.spans.iter().filter(|span| case.end_of(span).1 == Some(How::Failed));
        let failures = failed.map(|span| span.run.attempt).collect::<BTreeSet<_>>().len();
        let (attempts, losses) = (case.rules.max_attempts as usize, case.rules.max_losses as usize);
        if failures > attempts {
            return Some(format!("failed {failures} times, {attempts} are allowed"));
        }
        let starts = history.spans.len();
        let allowed = attempts + losses + history.count(How::Interrupted);
        (starts > allowed).then(|| format!("started {starts} times, {allowed} are allowed"))
    })
}

/// The fences of successive starts increase. A worker that was frozen between reading and starting may be late.
pub(super) fn fence_monotone(case: &Case) -> Vec<Offence> {
    offenders(case, |_job, history| {
        let wrong = history.spans.windows(2).find(|pair| {
            let (before, after) = (&pair[0], &pair[1]);
            let late = after.run.fence < before.run.fence && was_late(case, before, after);
            after.run.fence <= before.run.fence && !late
        })?;
        let (before, after) = (wrong[0].run.fence, wrong[1].run.fence);
        Some(format!("fence {}-{} started after {}-{}", after.0, after.1, before.0, before.1))
    })
}

/// Whether a fault explains that `late` started although its job had been taken over.
fn was_late(case: &Case, successor: &Span, late: &Span) -> bool {
    let from = successor.from.saturating_sub(nanos(case.rules.settled_within));
    case.weather.touches(late.run.pid, from, late.from)
}

/// Two runs of a job overlap only if the worker of the older delivery was hit.
pub(super) fn no_overlap(case: &Case) -> Vec<Offence> {
    offenders(case, |_job, history| {
        let spans = &history.spans;
        let pairs = (0..spans.len()).flat_map(|i| (i + 1..spans.len()).map(move |j| (i, j)));
        let wrong = pairs.map(|(i, j)| (&spans[i], &spans[j])).find(|(first, second)| {
            let overlap = case.end_of(first).0 > second.from;
            let excused = if first.run.fence <= second.run.fence {
                case.weather.touches(first.run.pid, first.from, second.from)
            } else {
                was_late(case, first, second)
            };
            overlap && !excused
        })?;
        let (first, second) = (wrong.0.run.pid, wrong.1.run.pid);
        Some(format!("ran in process {second} while it ran in process {first}"))
    })
}

/// Without faults every start is needed: failures are retried, a success is the last run, and all runs end.
pub(super) fn calm_once(case: &Case) -> Vec<Offence> {
    offenders(case, |job, history| {
        let spans = &history.spans;
        let (first, last) = (spans.first()?, spans.iter().map(|span| case.end_of(span).0).max()?);
        let settled = last.saturating_add(nanos(case.rules.settled_within));
        if spans.iter().any(|span| case.weather.touches(span.run.pid, first.from, settled)) {
            return None;
        }
        let ends: Vec<Option<How>> = spans.iter().map(|span| case.end_of(span).1).collect();
        let is_final = |end: &Option<How>| matches!(end, Some(How::Ok | How::Fatal));
        if ends.contains(&None) {
            return Some("has a start without an end".to_owned());
        }
        let needed = ends.iter().position(is_final).map_or(ends.len(), |at| at + 1);
        if ends.len() > needed {
            return Some(format!("started {} times, {needed} were needed", ends.len()));
        }
        let failures = ends.iter().filter(|end| **end == Some(How::Failed)).count();
        let gave_up = case.facts.dead.contains_key(job) && !ends.iter().any(is_final);
        let early = gave_up && failures < case.rules.max_attempts as usize;
        early.then(|| format!("was buried after {failures} of {} failures", case.rules.max_attempts))
    })
}

/// Nothing is left in Redis except what is allowed.
pub(super) fn clean(case: &Case) -> Vec<Offence> {
    let facts = case.facts;
    let left = [("stream", facts.entries), ("pending", facts.pending), ("delayed", facts.delayed)];
    let counts = left.iter().filter(|(_what, count)| *count > 0);
    let counts = counts.map(|(what, count)| offence(what, format!("{count} left")));
    let keys = facts.keys.iter().filter(|key| !(case.rules.is_allowed_key)(key));
    counts.chain(keys.map(|key| offence(key, "is left".to_owned()))).collect()
}
