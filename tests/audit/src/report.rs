//! The report of an audit: text that a person reads in a minute, and JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::recovery::Times;
use super::slow::Slowest;

/// All that an audit found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub seed: u64,
    pub workers: usize,
    pub lease_ms: u64,
    pub server: String,
    /// Until all jobs were submitted, until all was at rest, and until the end of the judgement.
    pub seconds: [f64; 3],
    pub faults: BTreeMap<&'static str, usize>,
    pub slowest: Slowest,
    pub judgement: Judgement,
    /// What the audit could not do.
    pub notes: Vec<String>,
}

/// The judgement of an audit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Judgement {
    /// What was submitted, and how it ended.
    pub rows: Vec<Row>,
    /// How often a handler started.
    pub starts: u64,
    pub processes: usize,
    pub records: usize,
    /// How many runs were repeated other than by a retry, by cause.
    pub again: BTreeMap<&'static str, usize>,
    pub killed: Times,
    pub redis: Times,
    pub rules: Vec<Verdict>,
}

/// The outcomes of one kind of job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    pub name: String,
    pub accepted: u64,
    /// Submitted without an answer: it may have been accepted.
    pub unanswered: u64,
    /// Refused, or found to exist already.
    pub refused: u64,
    pub done: u64,
    pub dead: u64,
    pub cancelled: u64,
    /// Dead, and a person dropped the letter.
    pub dropped: u64,
    pub lost: u64,
}

/// A rule, and how often it was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub rule: &'static str,
    pub offences: usize,
    /// Some of them.
    pub shown: Vec<String>,
}

impl Judgement {
    /// The names of the broken rules.
    pub fn broken(&self) -> Vec<&'static str> {
        self.rules.iter().filter(|verdict| verdict.offences > 0).map(|verdict| verdict.rule).collect()
    }

    /// The sum of all rows.
    pub fn total(&self) -> Row {
        let sum = |of: fn(&Row) -> u64| self.rows.iter().map(of).sum();
        Row {
            name: "all".to_owned(),
            accepted: sum(|row| row.accepted),
            unanswered: sum(|row| row.unanswered),
            refused: sum(|row| row.refused),
            done: sum(|row| row.done),
            dead: sum(|row| row.dead),
            cancelled: sum(|row| row.cancelled),
            dropped: sum(|row| row.dropped),
            lost: sum(|row| row.lost),
        }
    }
}

impl Report {
    /// The names of the broken rules; none if every promise held.
    pub fn rules(&self) -> Vec<&'static str> {
        self.judgement.broken()
    }

    pub fn is_clean(&self) -> bool {
        self.rules().is_empty()
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> =
            self.faults.iter().map(|(name, count)| format!("{name} {}", grouped(*count as u64))).collect();
        let none = if counts.is_empty() { "none" } else { "" };
        writeln!(f, "\nfaults      {none}{}", counts.join(" · "))?;
        let Judgement { starts, processes, again, killed, redis, .. } = &self.judgement;
        let all: usize = again.values().sum();
        write!(f, "runs        {} by {processes} processes; ", grouped(*starts))?;
        write!(f, "{} ran again without having failed", grouped(all as u64))?;
        let why: Vec<String> = again.iter().map(|(why, count)| format!("{why} {count}")).collect();
        writeln!(f, "{}{}", if why.is_empty() { "" } else { ": " }, why.join(" · "))?;
        writeln!(f, "recovery    jobs of killed workers restarted: {killed}")?;
        writeln!(f, "            first job after Redis was back: {redis}")
    }

    fn slowest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |slowest: &Option<(u64, String)>| match slowest {
            Some((us, name)) => format!("{name} {:.1} ms", *us as f64 / 1000.0),
            None => "none above 1 ms".to_owned(),
        };
        let Slowest { script, command, events, memory } = &self.slowest;
        write!(f, "slowest     script: {}; other command: {}", ms(script), ms(command))?;
        match events.iter().find(|(name, _)| name.as_str() == "aof-fsync-always") {
            Some((_, longest)) => writeln!(f, "; fsync: {longest} ms")?,
            None => writeln!(f)?,
        }
        writeln!(f, "memory      Redis used at most {} MiB", memory / (1024 * 1024))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.judgement.total();
        let [load, rest, all] = self.seconds;
        writeln!(
            f,
            "streamfleet audit, seed {}: {} jobs accepted in {load:.0} s ({:.0}/s), at rest after {rest:.0} s, judged after {all:.0} s",
            self.seed,
            grouped(total.accepted),
            total.accepted as f64 / load.max(0.001)
        )?;
        let lease = self.lease_ms as f64 / 1000.0;
        writeln!(f, "{} workers with a lease of {lease} s, {}\n", self.workers, self.server)?;
        writeln!(
            f,
            "{:<24}{:>11}{:>11}{:>9} |{:>11}{:>8}{:>10}{:>8}{:>6}",
            "submitted", "accepted", "no answer", "refused", "done", "dead", "cancelled", "dropped", "lost"
        )?;
        for row in self.judgement.rows.iter().chain([&total]) {
            writeln!(f, "{row}")?;
        }
        self.faults(f)?;
        self.slowest(f)?;
        for note in &self.notes {
            writeln!(f, "note        {note}")?;
        }
        writeln!(f)?;
        for Verdict { rule, offences, shown } in &self.judgement.rules {
            match offences {
                0 => writeln!(f, "ok      {rule}")?,
                _ => writeln!(f, "BROKEN  {rule}: {} times", grouped(*offences as u64))?,
            }
            for offence in shown {
                writeln!(f, "          {offence}")?;
            }
        }
        match self.rules().len() {
            0 => writeln!(f, "\nverdict: every promise held, {} jobs lost", total.lost),
            broken => writeln!(
                f,
                "\nverdict: {broken} rules are broken, {} jobs lost; seed {}",
                total.lost, self.seed
            ),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, accepted, unanswered, refused, done, dead, cancelled, dropped, lost } = self;
        let [accepted, unanswered, refused] = [accepted, unanswered, refused].map(|count| grouped(*count));
        let [done, dead, cancelled] = [done, dead, cancelled].map(|count| grouped(*count));
        write!(
            f,
            "{name:<24}{accepted:>11}{unanswered:>11}{refused:>9} |{done:>11}{dead:>8}{cancelled:>10}{dropped:>8}{lost:>6}"
        )
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, p50, p99, max } = self;
        match count {
            0 => f.write_str("none"),
            _ => write!(f, "{count}, p50 {p50:.2} s, p99 {p99:.2} s, longest {max:.2} s"),
        }
    }
}

/// Formats a number with thousands separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
