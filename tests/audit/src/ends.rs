//! The rules about how jobs end and what follows. Each returns the jobs that break it, and how.

use std::collections::BTreeSet;

use super::account::Letter;
use super::diary::Span;
use super::register::Kind;
use super::rules::SETTLED;
use super::view::{Ending, Found, View, is};
use super::worker::Program;
use harness::ledger::How;

/// How long after its timeout a handler may be cut off, in nanoseconds.
const CUT_OFF: u64 = 3_000_000_000;

/// Every job that was accepted or ran is done, dead or cancelled, or a person dropped it.
pub(crate) fn lost(view: &View) -> Found {
    let mut found = Found::default();
    for (generation, sent) in &view.case.entries.sent {
        if view.ending(generation) == Ending::Lost {
            found.add(|| {
                format!(
                    "{generation} ({:?}) has no end{}",
                    sent.kind,
                    view.describe(view.of_mark(generation))
                )
            });
        }
    }
    for (id, spans) in view.by_id.iter().filter(|(id, _)| id.starts_with("cron.")) {
        if !view.is_done(id) {
            found.add(|| format!("{id} has no end{}", view.describe(spans)));
        }
    }
    found
}

/// A generation with a letter has not succeeded, unless its worker could not report that, and it has one letter.
pub(crate) fn places(view: &View) -> Found {
    let mut found = Found::default();
    for generation in view.case.entries.sent.keys() {
        let letters = view.letters_of(generation).len();
        let again = view.replays.get(generation.as_str()).copied().unwrap_or(0);
        if letters > 1 + again {
            found.add(|| format!("{generation} has {letters} letters"));
        }
        let Some(spans) = view.runs.get(&(generation.as_str(), "-")) else { continue };
        let heard = |span: &&&Span| {
            let ended = span.end.map_or(u64::MAX, |(t, _)| t);
            let until = ended.saturating_add(SETTLED);
            is(span, How::Ok) && !view.case.causes.explain(span.pid, span.from, until)
        };
        if letters > 0
            && again == 0
            && let Some(span) = spans.iter().find(heard)
        {
            found.add(|| {
                format!("{generation} is dead, and done by pid {}{}", span.pid, view.describe(spans))
            });
        }
    }
    found
}

/// Each awaited end is followed by exactly one job, and no job follows without that end.
pub(crate) fn follows(view: &View) -> Found {
    let mut found = Found::default();
    for follow in &view.case.entries.follows {
        let jobs: BTreeSet<&str> = view.of_mark(&follow.mark).iter().map(|span| span.id.as_str()).collect();
        let dead = |generation: &String| !view.letters_of(generation).is_empty();
        let met = match follow.on_death {
            true => follow.of.iter().all(dead),
            false => follow.of.iter().all(|generation| !dead(generation) && view.is_done(generation)),
        };
        let lost = view.letters_of(&follow.mark).len();
        if jobs.len() + usize::from(jobs.is_empty()) * lost != usize::from(met) {
            found.add(|| format!("{} follows {:?} by {} jobs: {jobs:?}", follow.mark, follow.of, jobs.len()));
        }
    }
    found
}

/// Another generation of the id may have used up the attempts of a step. Or a step failed for good, and its letter stayed when it was
/// replayed.
fn may_be_exhausted_early(view: &View, generation: &str, letter: &Letter) -> bool {
    view.is_twin(generation) || view.case.entries.was_abandoned(&letter.entry)
}

/// A letter states the intended cause of death, or that workers were lost too often, and has the complete payload.
pub(crate) fn letters(view: &View) -> Found {
    let mut found = Found::default();
    for letter in &view.case.facts.letters {
        let generation = view.case.entries.generation(&letter.mark, &letter.id);
        let kind = view.kind(generation);
        let is_meant = match letter.reason.as_str() {
            "exhausted" => {
                matches!(kind, Some(Kind::Exhausted | Kind::Hanging))
                    || kind == Some(Kind::Gift) && may_be_exhausted_early(view, generation, letter)
            }
            // A step of a job may have been given up.
            "fatal" => matches!(kind, Some(Kind::Fatal | Kind::Gift)),
            "needs_decision" => kind == Some(Kind::Gift),
            "lost" => {
                let spans = view.of_id(&letter.id);
                let hit = |span: &&&Span| view.case.causes.explain(span.pid, span.from, u64::MAX);
                // Some deliveries were lost before they started.
                spans.iter().any(|span| hit(&span)) || spans.len() < Program::MAX_LOSSES as usize
            }
            _ => false,
        };
        if !letter.is_whole {
            found.add(|| format!("the payload of {generation} is not what was submitted"));
        }
        if !is_meant {
            found.add(|| format!("{generation} ({kind:?}) is dead: {}: {}", letter.reason, letter.error));
        }
    }
    found
}

/// Returns a run that counts as a further attempt although the one before has not failed: a worker that dies or stops spends
/// no attempt.
fn unearned<'a>(view: &View, generation: &str, spans: &[&'a Span]) -> Option<&'a Span> {
    let is_hanging = view.kind(generation) == Some(Kind::Hanging);
    let has_failed = |span: &Span| is(span, How::Failed) || is_hanging && is(span, How::Interrupted);
    let failed = |attempt| spans.iter().any(|span| span.attempt == attempt && has_failed(span));
    let is_whole = |span: &&&Span| span.step == "-" && !view.is_twin(generation);
    let mut further = spans.iter().filter(is_whole).filter(|span| span.attempt > 1);
    further.find(|span| !failed(span.attempt - 1)).copied()
}

/// No job has more attempts than allowed, or a further attempt without a failure before it. No job is given up before it has had
/// all attempts. Handlers that hang are cut off.
pub(crate) fn bounds(view: &View) -> Found {
    let mut found = Found::default();
    let allowed = |generation: &str| match view.kind(generation) {
        Some(Kind::Hanging) => Program::MAX_HANGS,
        _ => Program::MAX_ATTEMPTS,
    };
    for ((generation, _step), spans) in &view.runs {
        let most = spans.iter().map(|span| span.attempt).max().unwrap_or(0);
        if most > allowed(generation) {
            found.add(|| format!("{generation} has an attempt {most}{}", view.describe(spans)));
        }
        if let Some(span) = unearned(view, generation, spans) {
            let attempt = span.attempt;
            found.add(|| {
                format!(
                    "{generation} has an attempt {attempt} without a failure before{}",
                    view.describe(spans)
                )
            });
        }
        let hangs = |span: &&&Span| {
            let timeout = u64::try_from(Program::TIMEOUT.as_nanos()).expect("a timeout is short");
            let late = span.from + timeout + CUT_OFF;
            let ended = span.end.map_or(u64::MAX, |(t, _)| t);
            ended > late && !view.case.causes.explain(span.pid, span.from, ended.min(late))
        };
        if view.kind(generation) == Some(Kind::Hanging) && spans.iter().any(|span| hangs(&span)) {
            found.add(|| format!("{generation} was not cut off in time{}", view.describe(spans)));
        }
    }
    for letter in view.case.facts.letters.iter().filter(|letter| letter.reason == "exhausted") {
        let generation = view.case.entries.generation(&letter.mark, &letter.id);
        let spans = view.of_id(&letter.id);
        let had = spans.iter().map(|span| span.attempt).max().unwrap_or(0);
        if had < allowed(generation) && !may_be_exhausted_early(view, generation, letter) {
            found.add(|| format!("{generation} is exhausted after attempt {had}{}", view.describe(spans)));
        }
    }
    found
}
