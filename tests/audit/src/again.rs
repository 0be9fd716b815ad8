//! What ran again, and why.

use std::collections::BTreeMap;

use super::causes::Why;
use super::diary::Span;
use super::register::Kind;
use super::rules::SETTLED;
use super::view::{Found, View, is};
use harness::ledger::How;

/// Why there is another run after one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// The job failed, and this is its next attempt.
    Retry,
    /// A person allowed it, or may have replayed it.
    Person,
    /// Others had to assume that the worker of the first run was dead.
    Because(Why),
    Unexplained,
}

/// Counts how often each cause made something run again other than by a retry, and finds what ran again without a cause. After a
/// success there is another run only if the first worker was not heard; after a failure comes the next attempt; after a death
/// comes a replay.
pub(crate) fn twice(view: &View) -> (Found, BTreeMap<Why, usize>) {
    let (mut found, mut causes) = (Found::default(), BTreeMap::new());
    // Two generations of an id may run a step at the same time if that step may run twice.
    let alone =
        |(generation, step): &(&str, &str)| *step == "-" || *step == "charge" || !view.is_twin(generation);
    for ((generation, step), spans) in view.runs.iter().filter(|(run, _)| alone(run)) {
        let (mut replayed, mut unexplained) = (0, None);
        for pair in spans.windows(2) {
            match again(view, (generation, step), [pair[0], pair[1]], &mut replayed) {
                Again::Retry | Again::Person => {}
                Again::Because(why) => *causes.entry(why).or_default() += 1,
                Again::Unexplained => unexplained = unexplained.or(Some(pair)),
            }
        }
        if let Some(pair) = unexplained {
            let fences = (pair[0].fence.0, pair[1].fence.0);
            found.add(|| {
                format!(
                    "{generation} {step} ran at {} and again at {}{}",
                    fences.0,
                    fences.1,
                    view.describe(spans)
                )
            });
        }
    }
    (found, causes)
}

fn again(
    view: &View,
    (generation, step): (&str, &str),
    [before, after]: [&Span; 2],
    replayed: &mut usize,
) -> Again {
    let is_cut = is(before, How::Interrupted) && view.kind(generation) == Some(Kind::Hanging);
    let has_failed = is(before, How::Failed) || is_cut;
    if has_failed && after.attempt > before.attempt {
        return Again::Retry;
    }
    if step == "charge" && view.decided.contains_key(before.id.as_str()) {
        return Again::Person;
    }
    // Its worker may have held it for a while before it started.
    let from = before.from.min(after.from).saturating_sub(2 * view.case.lease);
    let ended = before.end.map_or(u64::MAX, |(t, _)| t).saturating_add(SETTLED);
    let why = view.case.causes.why(before.pid, from, ended);
    let is_new = after.attempt == 1 && !after.again;
    if let Some(why) = why.filter(|_| !is_new) {
        return Again::Because(why);
    }
    // It may be a replay, which may have been lost before it started and delivered again.
    let is_dead = is(before, How::Fatal) || has_failed;
    if is_dead && after.attempt == 1 && *replayed < view.replays.get(generation).copied().unwrap_or(0) {
        *replayed += 1;
        return Again::Person;
    }
    why.map_or(Again::Unexplained, Again::Because)
}
