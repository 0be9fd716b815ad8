//! The judge of a storm: named rules over what was submitted, what ran, what is left, and what can have caused it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::account::Facts;
use super::causes::Causes;
use super::diary::{Diary, Span};
use super::register::Entries;
use super::{rules, ticks};
use crate::harness::ledger::How;

/// So many offences against a rule are shown.
const SHOWN: usize = 8;

/// All that is known of a storm.
pub(super) struct Case {
    pub(super) entries: Entries,
    pub(super) diary: Diary,
    pub(super) facts: Facts,
    pub(super) causes: Causes,
    /// Each worker's process, and since when it was there.
    pub(super) processes: Vec<(u32, u64)>,
    pub(super) ticks: Vec<ticks::Recurring>,
    /// In nanoseconds.
    pub(super) lease: u64,
}

/// The runs of one life, or of one of its steps, in the order of their fences.
pub(super) type Runs<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Span>>;

/// A rule that was broken, and by what.
pub(super) struct Broken {
    pub(super) rule: &'static str,
    pub(super) offences: Vec<String>,
}

/// The judgement.
pub(super) struct Report {
    pub(super) broken: Vec<Broken>,
    totals: String,
}

impl Case {
    pub(super) fn judge(&self) -> Report {
        let runs = self.runs();
        let checked = [
            ("nothing is lost", rules::lost(self, &runs)),
            ("each life ends in one place", rules::places(self, &runs)),
            ("nothing runs that was not accepted", rules::unexpected(self, &runs)),
            ("a once step starts once", rules::once(self)),
            ("nothing runs twice without a cause", rules::twice(self, &runs)),
            ("nothing begins anew but by a replay", rules::anew(self, &runs)),
            ("what others took over does not start", rules::late(self, &runs)),
            ("the record names each run", rules::recorded(self)),
            ("nothing starts before its time", rules::early(self)),
            ("a unique key has one holder at a time", rules::unique(self)),
            ("what follows an end follows it once", rules::follows(self, &runs)),
            ("what is cancelled does not start", rules::cancelled(self)),
            ("each tick is one job", ticks::judge(self)),
            ("letters are those that were to be expected", rules::letters(self)),
            ("nothing is left", self.facts.left.clone()),
            ("nobody complains", self.entries.complaints.clone()),
        ];
        let broken = checked.into_iter().filter(|(_, offences)| !offences.is_empty());
        Report {
            broken: broken.map(|(rule, offences)| Broken { rule, offences }).collect(),
            totals: self.totals(&runs),
        }
    }

    pub(super) fn runs(&self) -> Runs<'_> {
        let mut runs: Runs = BTreeMap::new();
        for span in &self.diary.spans {
            let life = self.entries.life(&span.mark, &span.id);
            runs.entry((life, span.step.as_str())).or_default().push(span);
        }
        runs.values_mut().for_each(|spans| spans.sort_by_key(|span| (span.fence, span.from)));
        runs
    }

    /// What is known of some runs, with the seconds since the first of them.
    pub(super) fn told(&self, spans: &[&Span]) -> String {
        let origin = spans.iter().map(|span| span.from).min().unwrap_or(0);
        let since = |t: u64| (t as f64 - origin as f64) / 1e9;
        let mut told = String::new();
        for span in spans {
            let end =
                span.end.map_or("no end".to_owned(), |(t, how)| format!("{} {:+.3}", how.name(), since(t)));
            let (again, fence) = (if span.again { "again" } else { "new" }, span.fence);
            told += &format!(
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
            told += &format!("\n    {}", self.causes.told(pid, origin));
        }
        let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
        for span in self.diary.spans.iter().filter(|span| ids.contains(span.id.as_str())) {
            let shown = spans.iter().any(|own| **own == *span);
            let (from, how) = (since(span.from), span.end.map_or("no end", |(_, how)| how.name()));
            if !shown {
                let Span { mark, step, fence, pid, .. } = span;
                told += &format!(
                    "\n    also {mark} {step} {from:+.3} fence {}-{} pid {pid}: {how}",
                    fence.0, fence.1
                );
            }
        }
        for id in ids {
            let deeds = self.entries.deeds.iter().filter(|deed| deed.is_about(id, spans));
            told += &format!("\n    deeds: {:?}", deeds.collect::<Vec<_>>());
            told += &format!("\n    record of {id}: {:?}", self.facts.records.get(id));
        }
        told
    }

    fn totals(&self, runs: &Runs) -> String {
        let (spans, entries) = (&self.diary.spans, &self.entries);
        let more: usize = runs.values().map(|spans| spans.len() - 1).sum();
        let count = |how| spans.iter().filter(|span| span.end.is_some_and(|(_, end)| end == how)).count();
        let ended = [How::Ok, How::Failed, How::Fatal, How::Interrupted]
            .map(|how| format!("{} {}", count(how), how.name()));
        format!(
            "{} submissions, {} deeds, {} starts ({more} more than lives and steps): {}; \
             {} letters, {} records, {} processes",
            entries.sent.len(),
            entries.deeds.len(),
            spans.len(),
            ended.join(", "),
            self.facts.letters.len(),
            self.facts.records.len(),
            self.processes.len()
        )
    }
}

impl Report {
    /// The names of the broken rules.
    pub(super) fn rules(&self) -> Vec<&'static str> {
        self.broken.iter().map(|broken| broken.rule).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.totals)?;
        for Broken { rule, offences } in &self.broken {
            writeln!(f, "\nBROKEN: {rule}: {} times", offences.len())?;
            for offence in offences.iter().take(SHOWN) {
                writeln!(f, "  {offence}")?;
            }
        }
        Ok(())
    }
}
