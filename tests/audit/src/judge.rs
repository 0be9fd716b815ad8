//! The judge of an audit: named rules about what was submitted, what ran, what is left, and what can have caused it.

use std::collections::{BTreeMap, BTreeSet};

use super::account::Facts;
use super::causes::Causes;
use super::diary::Diary;
use super::offsets::Offsets;
use super::register::{Entries, Kind, Reply, Sent};
use super::report::{Judgement, Row, Verdict};
use super::view::{Ending, Found, View};
use super::{again, bulk, ends, recovery, rules, ticks};

/// All that is known about an audit.
pub struct Case {
    pub entries: Entries,
    /// The replies to plain jobs in bulk, by their numbers.
    pub replies: Vec<Reply>,
    pub diary: Diary,
    pub facts: Facts,
    pub causes: Causes,
    /// Each worker's process id, and when it started.
    pub processes: Vec<(u32, u64)>,
    pub ticks: Vec<ticks::Recurring>,
    pub offsets: Offsets,
    /// In nanoseconds.
    pub lease: u64,
}

impl Case {
    /// Turns those plain jobs in bulk that were not accepted, or did not simply run once and succeed, into submissions like any
    /// other.
    pub fn name_odd_ones(&mut self) {
        let named: BTreeSet<usize> =
            self.facts.letters.iter().filter_map(|letter| bulk::number_of(&letter.mark)).collect();
        for (number, reply) in self.replies.iter().enumerate() {
            let is_odd = !self.diary.plain.is_plain(number) || *reply != Reply::Accepted;
            let is_there = *reply == Reply::Accepted || self.diary.plain.has_started(number);
            if is_odd && is_there || named.contains(&number) {
                let sent =
                    Sent { kind: Kind::Done, id: None, reply: *reply, at: 0, not_before_ms: 0, key: None };
                self.entries.sent.insert(bulk::mark_of(number), sent);
            }
        }
    }

    pub fn judge(&self) -> Judgement {
        let view = View::new(self);
        let (twice, causes) = again::twice(&view);
        let checked = [
            ("nothing is lost", ends::lost(&view)),
            ("each generation ends in one place", ends::places(&view)),
            ("attempts stay within their bounds", ends::bounds(&view)),
            ("nothing runs that was not accepted", rules::unexpected(&view)),
            ("a once step starts once", rules::once(&view)),
            ("nothing runs twice without a cause", twice),
            ("only a replay starts a job afresh", rules::fresh_starts(&view)),
            ("a job that others took over does not start", rules::late(&view)),
            ("the record lists every run", rules::recorded(&view)),
            ("nothing starts before its time", rules::early(&view)),
            ("a unique key has one holder at a time", rules::unique(&view)),
            ("a follow-up runs once", ends::follows(&view)),
            ("a cancelled job does not start", rules::cancelled(&view)),
            ("each tick is one job", ticks::judge(&view)),
            ("only expected jobs leave dead letters", ends::letters(&view)),
            ("nothing is left", Found::of(&self.facts.left)),
            ("there are no complaints", Found::of(&self.entries.complaints)),
        ];
        let verdict = |(rule, found): (&'static str, Found)| Verdict {
            rule,
            offences: found.count,
            shown: found.shown,
        };
        Judgement {
            rows: rows(&view),
            starts: self.diary.plain.starts,
            processes: self.processes.len(),
            records: self.facts.records.len(),
            again: causes.into_iter().map(|(why, count)| (why.name(), count)).collect(),
            killed: recovery::of_killed(&view),
            redis: recovery::of_redis(&view),
            rules: checked.map(verdict).into(),
        }
    }
}

/// Counts what was submitted, by kind, and how it ended.
fn rows(view: &View) -> Vec<Row> {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let case = view.case;
    let following: BTreeSet<&str> = case.entries.follows.iter().map(|follow| follow.mark.as_str()).collect();
    for (generation, sent) in
        case.entries.sent.iter().filter(|(generation, _)| bulk::number_of(generation).is_none())
    {
        let (follows, ending) = (following.contains(generation.as_str()), view.ending(generation));
        if follows && ending == Ending::Never {
            continue;
        }
        let name = if follows { "callbacks, chains" } else { case.entries.name_of(generation) };
        let row = rows.entry(name).or_default();
        row.count_answer(if follows { Reply::Accepted } else { sent.reply });
        row.count_ending(ending);
    }
    let bulk = rows.entry("plain, in bulk").or_default();
    for (number, reply) in case.replies.iter().enumerate() {
        bulk.count_answer(*reply);
        let is_odd = !case.diary.plain.is_plain(number) || *reply != Reply::Accepted;
        bulk.count_ending(if is_odd { view.ending(&bulk::mark_of(number)) } else { Ending::Done });
    }
    let ticks: BTreeSet<&str> = view.by_id.keys().filter(|id| id.starts_with("cron.")).copied().collect();
    let recurring = rows.entry("recurring").or_default();
    (recurring.accepted, recurring.done) = (ticks.len() as u64, ticks.len() as u64);
    let named = rows.into_iter().filter(|(_, row)| *row != Row::default());
    named.map(|(name, row)| Row { name: name.to_owned(), ..row }).collect()
}

impl Row {
    fn count_answer(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted => self.accepted += 1,
            Reply::Unknown => self.unanswered += 1,
            Reply::Refused | Reply::Elsewhere => self.refused += 1,
        }
    }

    fn count_ending(&mut self, ending: Ending) {
        match ending {
            Ending::Done => self.done += 1,
            Ending::Dead => self.dead += 1,
            Ending::Cancelled => self.cancelled += 1,
            Ending::Dropped => self.dropped += 1,
            Ending::Lost => self.lost += 1,
            Ending::Never => {}
        }
    }
}
