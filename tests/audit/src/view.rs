//! What the rules inspect: all that is known about an audit, by generation, by mark and by id.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::account::Letter;
use super::diary::Span;
use super::judge::Case;
use super::register::{Deed, Kind, Reply, Sent};
use harness::ledger::How;

/// The runs of each generation, or of each of its steps, in the order of their fences.
pub(crate) type Runs<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Span>>;

/// How many offences against a rule are shown.
const SHOWN: usize = 8;

/// A case, and indexes over it.
pub struct View<'a> {
    pub case: &'a Case,
    pub runs: Runs<'a>,
    by_mark: HashMap<&'a str, Vec<&'a Span>>,
    pub by_id: BTreeMap<&'a str, Vec<&'a Span>>,
    letters: HashMap<&'a str, Vec<&'a Letter>>,
    /// How often a person may have replayed a generation.
    pub replays: BTreeMap<&'a str, usize>,
    dropped: BTreeSet<&'a str>,
    /// How often a person allowed a step of an id to run again.
    pub decided: BTreeMap<&'a str, usize>,
}

/// The offences against a rule: how many, and some of them in words.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub count: usize,
    pub shown: Vec<String>,
}

impl Found {
    pub fn add(&mut self, offence: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(offence());
        }
    }

    pub fn of(offences: &[String]) -> Self {
        Self { count: offences.len(), shown: offences.iter().take(SHOWN).cloned().collect() }
    }
}

pub(crate) fn is(span: &Span, how: How) -> bool {
    span.end.is_some_and(|(_, end)| end == how)
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Done,
    Dead,
    Cancelled,
    /// A person dropped its letter.
    Dropped,
    Lost,
    /// Nobody knows whether it ever existed.
    Never,
}

impl<'a> View<'a> {
    pub fn new(case: &'a Case) -> Self {
        let entries = &case.entries;
        let mut view = Self {
            case,
            runs: BTreeMap::new(),
            by_mark: HashMap::new(),
            by_id: BTreeMap::new(),
            letters: HashMap::new(),
            replays: entries.replays(),
            dropped: entries.dropped(),
            decided: entries.ids_to_run_again(),
        };
        for span in &case.diary.spans {
            let generation = entries.generation(&span.mark, &span.id);
            view.runs.entry((generation, span.step.as_str())).or_default().push(span);
            view.by_mark.entry(&span.mark).or_default().push(span);
            view.by_id.entry(&span.id).or_default().push(span);
        }
        view.runs.values_mut().for_each(|spans| spans.sort_by_key(|span| (span.fence, span.from)));
        for letter in &case.facts.letters {
            view.letters.entry(entries.generation(&letter.mark, &letter.id)).or_default().push(letter);
        }
        view
    }

    pub fn sent(&self, generation: &str) -> Option<&'a Sent> {
        self.case.entries.sent.get(generation)
    }

    pub fn kind(&self, generation: &str) -> Option<Kind> {
        self.sent(generation).map(|sent| sent.kind)
    }

    /// Returns the dead letters of a generation.
    pub fn letters_of(&self, generation: &str) -> &[&'a Letter] {
        self.letters.get(generation).map_or(&[], Vec::as_slice)
    }

    pub fn of_mark(&self, mark: &str) -> &[&'a Span] {
        self.by_mark.get(mark).map_or(&[], Vec::as_slice)
    }

    pub fn of_id(&self, id: &str) -> &[&'a Span] {
        self.by_id.get(id).map_or(&[], Vec::as_slice)
    }

    /// Whether other generations share its id. Then the record belongs to one of them, and the steps to all.
    pub fn is_twin(&self, mark: &str) -> bool {
        self.sent(mark).and_then(|sent| sent.id.as_deref()).is_some_and(|id| id != mark)
    }

    fn is_recorded(&self, id: &str, state: &str) -> bool {
        self.case.facts.records.get(id).is_some_and(|record| record.state == state)
    }

    pub fn is_cancelled(&self, generation: &str) -> bool {
        let id = self.sent(generation).and_then(|sent| sent.id.as_deref()).unwrap_or(generation);
        self.is_recorded(id, "cancelled")
    }

    /// Whether the generation was done, as far as an outside observer can tell.
    pub fn is_done(&self, generation: &str) -> bool {
        let Some(sent) = self.sent(generation).filter(|sent| sent.kind == Kind::Gift) else {
            let whole = self.runs.get(&(generation, "-"));
            let ran = whole.is_some_and(|spans| spans.iter().any(|span| is(span, How::Ok)));
            return ran || self.is_recorded(generation, "done");
        };
        // Decisions replace runs, and either of two generations of an id may do a step: only the record knows.
        let ran = self.of_mark(generation).first().map(|span| span.id.as_str());
        sent.id.as_deref().or(ran).is_some_and(|id| self.is_recorded(id, "done"))
    }

    fn has_run(&self, generation: &str) -> bool {
        self.runs.range((generation, "")..).next().is_some_and(|((ran, _), _)| *ran == generation)
    }

    /// Returns how a generation ended.
    pub fn ending(&self, generation: &str) -> Ending {
        if !self.letters_of(generation).is_empty() {
            Ending::Dead
        } else if self.is_done(generation) {
            Ending::Done
        } else if self.is_cancelled(generation) {
            Ending::Cancelled
        } else if self.dropped.contains(generation) {
            Ending::Dropped
        } else if self.sent(generation).is_some_and(|sent| sent.reply == Reply::Accepted)
            || self.has_run(generation)
        {
            Ending::Lost
        } else {
            Ending::Never
        }
    }

    /// Describes some runs, with the seconds since the first of them.
    pub fn describe(&self, spans: &[&Span]) -> String {
        let origin = spans.iter().map(|span| span.from).min().unwrap_or(0);
        let since = |t: u64| (t as f64 - origin as f64) / 1e9;
        let mut text = String::new();
        for span in spans {
            let end =
                span.end.map_or("no end".to_owned(), |(t, how)| format!("{} {:+.3}", how.name(), since(t)));
            let (again, fence) = (if span.again { "again" } else { "new" }, span.fence);
            text += &format!(
                "\n    start {:+.3} attempt {} {again} fence {}-{} pid {} id {}: {end}",
                since(span.from),
                span.attempt,
                fence.0,
                fence.1,
                span.pid,
                span.id
            );
        }
        let pids: BTreeSet<u32> = spans.iter().map(|span| span.pid).collect();
        for pid in pids {
            let own = spans.iter().filter(|span| span.pid == pid);
            let runs: Vec<_> = own.map(|span| (span.from, span.end.map_or(span.from, |(t, _)| t))).collect();
            text += &format!("\n    {}", self.case.causes.describe(pid, origin, &runs));
        }
        let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
        for span in ids.iter().flat_map(|id| self.of_id(id)).filter(|span| !spans.contains(span)) {
            let (from, how) = (since(span.from), span.end.map_or("no end", |(_, how)| how.name()));
            let Span { mark, step, fence, pid, .. } = span;
            text += &format!(
                "\n    also {mark} {step} {from:+.3} fence {}-{} pid {pid}: {how}",
                fence.0, fence.1
            );
        }
        for id in ids {
            let deeds: Vec<&Deed> =
                self.case.entries.deeds.iter().filter(|deed| deed.is_about(id, spans)).collect();
            text += &format!("\n    deeds: {deeds:?}");
            text += &format!("\n    record of {id}: {:?}", self.case.facts.records.get(id));
        }
        text
    }
}
