//! The rules of a storm, one function each. They return who breaks them, and how.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Letter;
use super::diary::Span;
use super::judge::{Case, Runs};
use super::register::{Deed, Kind, Reply};
use super::worker::Program;
use crate::harness::ledger::How;

/// How long after the end of a run its outcome may be on its way, in nanoseconds: where the reply is lost, the connection has
/// to be made anew.
const SETTLED: u64 = 4_000_000_000;

fn is(span: &Span, how: How) -> bool {
    span.end.is_some_and(|(_, end)| end == how)
}

/// The dead letters of a life.
fn letters_of<'a>(case: &'a Case, life: &'a str) -> impl Iterator<Item = &'a Letter> {
    case.facts.letters.iter().filter(move |letter| case.entries.life(&letter.mark, &letter.id) == life)
}

fn is_cancelled(case: &Case, life: &str) -> bool {
    let id = case.entries.sent.get(life).and_then(|sent| sent.id.as_deref()).unwrap_or(life);
    case.facts.records.get(id).is_some_and(|record| record.state == "cancelled")
}

/// Whether the life was done, as far as anybody outside can tell.
fn is_done(case: &Case, runs: &Runs, life: &str) -> bool {
    let recorded = |id: &str| case.facts.records.get(id).is_some_and(|record| record.state == "done");
    let Some(sent) = case.entries.sent.get(life).filter(|sent| sent.kind == Kind::Gift) else {
        let whole = runs.get(&(life, "-")).is_some_and(|spans| spans.iter().any(|span| is(span, How::Ok)));
        return whole || recorded(life);
    };
    // Verdicts stand for runs, and the steps of two lives of an id are done by either: only the record knows.
    let ran = case.diary.spans.iter().find(|span| span.mark == life).map(|span| span.id.as_str());
    sent.id.as_deref().or(ran).is_some_and(recorded)
}

/// Each accepted job is done, dead or cancelled, or a person dropped it.
pub(super) fn lost(case: &Case, runs: &Runs) -> Vec<String> {
    let accepted = case.entries.sent.iter().filter(|(_, sent)| sent.reply == Reply::Accepted);
    let dropped = case.entries.dropped();
    let lost = accepted.filter(|(life, _)| {
        let dead = letters_of(case, life).next().is_some();
        !dead && !is_done(case, runs, life) && !is_cancelled(case, life) && !dropped.contains(life.as_str())
    });
    lost.map(|(life, sent)| {
        let spans: Vec<&Span> = case.diary.spans.iter().filter(|span| span.mark == *life).collect();
        format!("{life} ({:?}) has no end{}", sent.kind, case.told(&spans))
    })
    .collect()
}

/// A life with a letter has not succeeded, unless its worker could not say so; and it has one letter.
pub(super) fn places(case: &Case, runs: &Runs) -> Vec<String> {
    let mut found = Vec::new();
    for life in case.entries.sent.keys() {
        let letters = letters_of(case, life).count();
        let again = case.entries.replays().get(life.as_str()).copied().unwrap_or(0);
        if letters > 1 + again {
            found.push(format!("{life} has {letters} letters"));
        }
        let Some(spans) = runs.get(&(life.as_str(), "-")) else { continue };
        let heard = |span: &&&Span| {
            let ended = span.end.map_or(u64::MAX, |(t, _)| t);
            is(span, How::Ok) && !case.causes.explain(span.pid, span.from, ended.saturating_add(SETTLED))
        };
        if letters > 0
            && again == 0
            && let Some(span) = spans.iter().find(heard)
        {
            found.push(format!("{life} is dead, and done by pid {}{}", span.pid, case.told(spans)));
        }
    }
    found
}

/// What runs was submitted, and not refused.
pub(super) fn unexpected(case: &Case, runs: &Runs) -> Vec<String> {
    let mut found = Vec::new();
    for ((life, _step), spans) in runs {
        match case.entries.sent.get(*life) {
            None if life.starts_with("cron.") => {}
            None => found.push(format!("{life} was never submitted{}", case.told(spans))),
            Some(sent) if sent.reply == Reply::Refused => {
                found.push(format!("{life} was refused{}", case.told(spans)));
            }
            Some(_) => {}
        }
    }
    found
}

/// However many lives an id has, a step that must not run twice does not, but by a person's word.
pub(super) fn once(case: &Case) -> Vec<String> {
    let mut starts: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in case.diary.spans.iter().filter(|span| span.step == "charge") {
        starts.entry(&span.id).or_default().push(span);
    }
    let again = case.entries.ids_to_run_again();
    let twice = starts.iter().filter(|(id, spans)| spans.len() > 1 + again.get(**id).copied().unwrap_or(0));
    twice
        .map(|(id, spans)| format!("charge of {id} started {} times{}", spans.len(), case.told(spans)))
        .collect()
}

/// After a success there is another run only where the first one's worker was not heard; after a failure there is the next
/// attempt; after a death there is a replay.
pub(super) fn twice(case: &Case, runs: &Runs) -> Vec<String> {
    let replays = case.entries.replays();
    let mut found = Vec::new();
    // A step that may run twice may be run by two lives of an id at once.
    let alone = |(life, step): &(&str, &str)| *step == "-" || *step == "charge" || !is_twin(case, life);
    for ((life, step), spans) in runs.iter().filter(|(run, _)| alone(run)) {
        let mut replayed = 0;
        let unexplained = spans.windows(2).find(|pair| {
            let (before, after) = (pair[0], pair[1]);
            let is_dead = is(before, How::Fatal) || is(before, How::Failed);
            let is_retry = is(before, How::Failed) && after.attempt > before.attempt;
            let decided =
                *step == "charge" && case.entries.ids_to_run_again().contains_key(before.id.as_str());
            // Its worker may have held it for a while before it started.
            let from = before.from.min(after.from).saturating_sub(2 * case.lease);
            let ended = before.end.map_or(u64::MAX, |(t, _)| t).saturating_add(SETTLED);
            let is_explained = case.causes.explain(before.pid, from, ended);
            let is_new = after.attempt == 1 && !after.again;
            if is_retry || decided || is_explained && !is_new {
                return false;
            }
            // It may be a replay, which may have been lost before it started, and come back.
            let is_replay = is_dead && after.attempt == 1;
            if is_replay && replayed < replays.get(life).copied().unwrap_or(0) {
                replayed += 1;
                return false;
            }
            !is_explained
        });
        if let Some(pair) = unexplained {
            let fences = (pair[0].fence.0, pair[1].fence.0);
            found.push(format!(
                "{life} {step} ran after {} again, at {}{}",
                fences.0,
                fences.1,
                case.told(spans)
            ));
        }
    }
    found
}

/// Whoever runs a job that was run before knows that, unless the first run was interrupted and gave it back.
pub(super) fn anew(case: &Case, runs: &Runs) -> Vec<String> {
    let replays = case.entries.replays();
    let mut found = Vec::new();
    for ((life, step), spans) in runs.iter().filter(|((life, _), _)| !replays.contains_key(life)) {
        let fresh = |span: &&&Span| span.attempt == 1 && !span.again && !is(span, How::Interrupted);
        let fresh: Vec<_> = spans.iter().filter(fresh).collect();
        // Lives that share their id share their steps.
        if fresh.len() > 1 && *step == "-" {
            found.push(format!("{life} began {} times{}", fresh.len(), case.told(spans)));
        }
    }
    found
}

/// Whether other lives share its id: then the record is that of one of them, and the steps are those of all.
fn is_twin(case: &Case, mark: &str) -> bool {
    let sent = case.entries.sent.get(mark).and_then(|sent| sent.id.as_deref());
    sent.is_some_and(|id| id != mark)
}

/// What somebody else has taken over and started does not start any more, however long its first worker stood still.
pub(super) fn late(case: &Case, runs: &Runs) -> Vec<String> {
    let mut found = Vec::new();
    for ((life, step), spans) in runs {
        let is_late = |pair: &&[&Span]| pair[0].from > pair[1].from && pair[0].pid != pair[1].pid;
        if !is_twin(case, life) && spans.windows(2).any(|pair| is_late(&pair)) {
            found.push(format!("{life} {step} was started by others{}", case.told(spans)));
        }
    }
    found
}

/// A job with a record has a row in it for each of its runs; one that may have got it later, but for those that were cut short.
pub(super) fn recorded(case: &Case) -> Vec<String> {
    let mut runs: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    let has_had = |span: &Span| case.entries.sent.get(&span.mark).is_some_and(|sent| sent.id.is_some());
    let whole = |span: &&Span| {
        let is_named = has_had(span) || !is(span, How::Interrupted);
        span.step == "-" && is_named && !is_twin(case, &span.mark)
    };
    for span in case.diary.spans.iter().filter(whole) {
        runs.entry(&span.id).or_default().push(span);
    }
    let mut found = Vec::new();
    for (id, spans) in runs.iter().filter(|(_, spans)| spans.len() > 1) {
        let rows = case.facts.records.get(*id).map_or(0, |record| record.noted.max(record.rows.len()));
        if rows < spans.len() && case.facts.records.contains_key(*id) {
            found.push(format!(
                "{id} ran {} times, its record names {rows}{}",
                spans.len(),
                case.told(spans)
            ));
        }
    }
    found
}

pub(super) fn early(case: &Case) -> Vec<String> {
    let mut found = Vec::new();
    for span in &case.diary.spans {
        let life = case.entries.life(&span.mark, &span.id);
        let Some(sent) = case.entries.sent.get(life) else { continue };
        if span.wall_ms < sent.not_before_ms {
            let early = sent.not_before_ms - span.wall_ms;
            found.push(format!("{life} started {early} ms too early{}", case.told(&[span])));
        }
    }
    found
}

/// While one holder runs, no other does, unless the first was given up.
pub(super) fn unique(case: &Case) -> Vec<String> {
    let mut held: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in &case.diary.spans {
        let sent = case.entries.sent.get(case.entries.life(&span.mark, &span.id));
        if let Some(key) = sent.and_then(|sent| sent.key.as_deref()) {
            held.entry(key).or_default().push(span);
        }
    }
    let mut found = Vec::new();
    for (key, mut spans) in held {
        spans.sort_by_key(|span| span.from);
        for pair in spans.windows(2).filter(|pair| pair[0].id != pair[1].id) {
            let (first, second) = (pair[0], pair[1]);
            let ended = first.end.map_or(u64::MAX, |(t, _)| t);
            let from = first.from.min(second.from.saturating_sub(2 * case.lease));
            let explained = [first, second].iter().any(|span| case.causes.explain(span.pid, from, ended));
            if ended > second.from && !explained {
                found.push(format!("{key} was held by {} and {}{}", first.id, second.id, case.told(pair)));
            }
        }
    }
    found
}

/// What follows is one job for each life whose end it follows, and none without that end.
pub(super) fn follows(case: &Case, runs: &Runs) -> Vec<String> {
    let mut found = Vec::new();
    for follow in &case.entries.follows {
        let spans = case.diary.spans.iter().filter(|span| span.mark == follow.mark);
        let jobs: BTreeSet<&str> = spans.map(|span| span.id.as_str()).collect();
        let dead = |life: &String| letters_of(case, life).next().is_some();
        let met = match follow.on_death {
            true => follow.of.iter().all(dead),
            false => follow.of.iter().all(|life| !dead(life) && is_done(case, runs, life)),
        };
        let lost = letters_of(case, &follow.mark).count();
        if jobs.len() + usize::from(jobs.is_empty()) * lost != usize::from(met) {
            found.push(format!("{} follows {:?} by {} jobs: {jobs:?}", follow.mark, follow.of, jobs.len()));
        }
    }
    found
}

/// Once somebody was told that a job is cancelled it does not start; what runs ends within a second.
pub(super) fn cancelled(case: &Case) -> Vec<String> {
    const TOLD: u64 = 1_000_000_000;
    const SLACK: u64 = 2_000_000_000;
    let mut found = Vec::new();
    for deed in &case.entries.deeds {
        let Deed::Cancelled { id, is_done, asked: _, answered } = deed else { continue };
        for span in case.diary.spans.iter().filter(|span| span.id == *id) {
            let from = if *is_done { *answered } else { answered + TOLD };
            let since = span.from.min(*answered).saturating_sub(2 * case.lease);
            let ended = span.end.map_or(u64::MAX, |(t, _)| t);
            let explained = case.causes.explain(span.pid, since, ended.min(answered + TOLD + SLACK));
            if span.from > from && !explained {
                found.push(format!("{id} started after it was cancelled{}", case.told(&[span])));
            } else if ended > answered + TOLD + SLACK && !explained {
                found.push(format!("{id} went on after it was cancelled{}", case.told(&[span])));
            }
        }
    }
    found
}

/// A letter says what its job was meant to die of, or that its workers were lost too often.
pub(super) fn letters(case: &Case) -> Vec<String> {
    let mut found = Vec::new();
    for letter in &case.facts.letters {
        let life = case.entries.life(&letter.mark, &letter.id);
        let kind = case.entries.sent.get(life).map(|sent| sent.kind);
        let is_meant = match letter.reason.as_str() {
            // A step that another life of the id has used up.
            "exhausted" => kind == Some(Kind::Exhausted) || kind == Some(Kind::Gift) && is_twin(case, life),
            // A job of which a step was given up.
            "fatal" => matches!(kind, Some(Kind::Fatal | Kind::Gift)),
            "needs_decision" => kind == Some(Kind::Gift),
            "lost" => {
                let spans: Vec<&Span> = case.diary.spans.iter().filter(|span| span.id == letter.id).collect();
                let hit =
                    spans.iter().filter(|span| case.causes.explain(span.pid, span.from, u64::MAX)).count();
                // Some were lost before they started.
                hit > 0 || spans.len() < Program::MAX_LOSSES as usize
            }
            _ => false,
        };
        if !is_meant {
            found.push(format!("{life} ({kind:?}) is dead: {}: {}", letter.reason, letter.error));
        }
    }
    found
}
