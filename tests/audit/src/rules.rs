//! The rules of an audit about what runs, one function each. Each returns the jobs that break it, and how.

use std::collections::BTreeMap;

use super::diary::Span;
use super::register::{Deed, Reply};
use super::view::{Found, View, is};
use super::worker::Program;
use harness::ledger::How;

/// How long after the end of a run its outcome may be on its way, in nanoseconds: if the reply is lost, the connection must be
/// opened again.
pub(crate) const SETTLED: u64 = 4_000_000_000;

/// Everything that runs was submitted and not refused.
pub(crate) fn unexpected(view: &View) -> Found {
    let mut found = Found::default();
    for ((generation, _step), spans) in &view.runs {
        match view.sent(generation) {
            None if generation.starts_with("cron.") => {}
            None => found.add(|| format!("{generation} was never submitted{}", view.describe(spans))),
            Some(sent) if sent.reply == Reply::Refused => {
                found.add(|| format!("{generation} was refused{}", view.describe(spans)));
            }
            Some(_) => {}
        }
    }
    found
}

/// A step that must not run twice runs once, however many generations an id has, unless a person decides otherwise.
pub(crate) fn once(view: &View) -> Found {
    let mut starts: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in view.case.diary.spans.iter().filter(|span| span.step == "charge") {
        starts.entry(&span.id).or_default().push(span);
    }
    let mut found = Found::default();
    for (id, spans) in starts {
        if spans.len() > 1 + view.decided.get(id).copied().unwrap_or(0) {
            found.add(|| format!("charge of {id} started {} times{}", spans.len(), view.describe(&spans)));
        }
    }
    found
}

/// A worker that runs a job again knows that it ran before, unless the first run was interrupted and gave it back.
pub(crate) fn fresh_starts(view: &View) -> Found {
    let mut found = Found::default();
    for ((generation, step), spans) in
        view.runs.iter().filter(|((generation, _), _)| !view.replays.contains_key(generation))
    {
        let fresh = |span: &&&Span| span.attempt == 1 && !span.again && !is(span, How::Interrupted);
        let fresh = spans.iter().filter(fresh).count();
        // Lives that share their id share their steps.
        if fresh > 1 && *step == "-" {
            found.add(|| format!("{generation} began {fresh} times{}", view.describe(spans)));
        }
    }
    found
}

/// A job that another worker has taken over and started no longer starts on its first worker, however long that one was frozen.
/// The only exception is what a thread of that worker had just decided to start when it was stopped: one job per thread.
pub(crate) fn late(view: &View) -> Found {
    let mut found = Found::default();
    let mut decided: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    for ((generation, step), spans) in
        view.runs.iter().filter(|((generation, _), _)| !view.is_twin(generation))
    {
        let is_late = |pair: &&[&Span]| pair[0].from > pair[1].from && pair[0].pid != pair[1].pid;
        let Some([first, _]) = spans.windows(2).find(is_late).and_then(|pair| pair.first_chunk()) else {
            continue;
        };
        if let Some(awake) = view.case.causes.went_on(first.pid, first.from) {
            let so_far = decided.entry((first.pid, awake)).or_default();
            *so_far += 1;
            if *so_far <= Program::THREADS {
                continue;
            }
        }
        found.add(|| format!("{generation} {step} was started by others{}", view.describe(spans)));
    }
    found
}

/// The record of a job has a row for each of its runs. If the record may have been created later, runs that were cut short may be
/// missing, and those before a replay if somebody deleted the letter by hand.
pub(crate) fn recorded(view: &View) -> Found {
    let has_had = |span: &Span| view.sent(&span.mark).is_some_and(|sent| sent.id.is_some());
    let whole = |span: &&&Span| {
        let is_named = has_had(span) || !is(span, How::Interrupted);
        span.step == "-" && is_named && !view.is_twin(&span.mark)
    };
    let mut found = Found::default();
    for (id, spans) in view.by_id.iter().filter(|(_, spans)| spans.len() > 1) {
        let spans: Vec<&Span> = spans.iter().filter(whole).copied().collect();
        let Some(record) = view.case.facts.records.get(*id).filter(|_| spans.len() > 1) else { continue };
        let rows = record.noted.max(record.rows.len());
        let is_deletion = |deed: &Deed| matches!(deed, Deed::Deleted { .. }) && deed.is_about(id, &spans);
        let is_whole = !view.case.entries.deeds.iter().any(is_deletion);
        if is_whole && rows < spans.len() {
            let details = || view.describe(&spans);
            found.add(|| format!("{id} ran {} times, but its record lists {rows}{}", spans.len(), details()));
        }
    }
    found
}

/// No job starts before its time by the server's clock. If that clock was set, a job may seem to be early by as much.
pub(crate) fn early(view: &View) -> Found {
    let mut found = Found::default();
    for span in &view.case.diary.spans {
        let generation = view.case.entries.generation(&span.mark, &span.id);
        let Some(sent) = view.sent(generation) else { continue };
        let early = sent.not_before_ms.saturating_sub(span.wall_ms);
        if early > 0 && early > view.case.offsets.spread(sent.at, span.from) {
            found.add(|| format!("{generation} started {early} ms too early{}", view.describe(&[span])));
        }
    }
    found
}

/// While one holder of a key runs, no other does, unless the first was given up.
pub(crate) fn unique(view: &View) -> Found {
    let mut held: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
    for span in &view.case.diary.spans {
        let sent = view.sent(view.case.entries.generation(&span.mark, &span.id));
        if let Some(key) = sent.and_then(|sent| sent.key.as_deref()) {
            held.entry(key).or_default().push(span);
        }
    }
    let mut found = Found::default();
    for (key, mut spans) in held {
        spans.sort_by_key(|span| span.from);
        for pair in spans.windows(2).filter(|pair| pair[0].id != pair[1].id) {
            let (first, second) = (pair[0], pair[1]);
            let ended = first.end.map_or(u64::MAX, |(t, _)| t);
            let from = first.from.min(second.from.saturating_sub(2 * view.case.lease));
            let explained =
                [first, second].iter().any(|span| view.case.causes.explain(span.pid, from, ended));
            if ended > second.from && !explained {
                found.add(|| {
                    format!("{key} was held by {} and {}{}", first.id, second.id, view.describe(pair))
                });
            }
        }
    }
    found
}

/// After a cancellation was confirmed, the job does not start, and a running handler ends within a second.
pub(crate) fn cancelled(view: &View) -> Found {
    const ENDS_WITHIN: u64 = 1_000_000_000;
    const SLACK: u64 = 2_000_000_000;
    let mut found = Found::default();
    for deed in &view.case.entries.deeds {
        let Deed::Cancelled { id, is_done, asked: _, answered } = deed else { continue };
        for span in view.of_id(id) {
            let from = if *is_done { *answered } else { answered + ENDS_WITHIN };
            let since = span.from.min(*answered).saturating_sub(2 * view.case.lease);
            let ended = span.end.map_or(u64::MAX, |(t, _)| t);
            let until = ended.min(answered + ENDS_WITHIN + SLACK);
            let explained = view.case.causes.explain(span.pid, since, until);
            if span.from > from && !explained {
                found.add(|| format!("{id} started after it was cancelled{}", view.describe(&[span])));
            } else if ended > answered + ENDS_WITHIN + SLACK && !explained {
                found.add(|| format!("{id} continued after it was cancelled{}", view.describe(&[span])));
            }
        }
    }
    found
}
