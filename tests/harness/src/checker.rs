//! The judge of a run: named invariants about the ledger, the faults and what is left in Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::history::{History, JobHistory, Span};
use super::invariants;
use super::ledger::How;
use super::recovery;
use super::weather::{Cause, Weather};

/// How many offenders of an invariant are shown with their timelines.
const SHOWN: usize = 20;

/// What is left in Redis when everything is at rest.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Job id -> number of dead letters.
    pub dead: BTreeMap<String, usize>,
    pub cancelled: BTreeSet<String>,
    /// Entries of all work streams.
    pub entries: u64,
    pub pending: u64,
    pub delayed: u64,
    pub keys: Vec<String>,
}

/// The configuration of the fleet, and its promises.
pub struct Rules<'a> {
    pub max_attempts: u32,
    pub max_losses: u32,
    /// How long a run may take. A run that exceeds it without an end in the ledger has failed at that point.
    pub timeout: Option<Duration>,
    /// How long after the end of a run a fault may still keep its outcome from Redis.
    pub settled_within: Duration,
    /// How soon after a kill the jobs of the killed worker start again, backoff included.
    pub recovered_within: Duration,
    /// Returns whether a key may be left.
    pub is_allowed_key: &'a dyn Fn(&str) -> bool,
}

/// A run to be judged.
pub struct Case<'a> {
    pub history: &'a History,
    pub facts: &'a Facts,
    pub weather: &'a Weather,
    pub rules: &'a Rules<'a>,
}

impl Case<'_> {
    /// Checks all invariants.
    pub fn check(&self) -> Report {
        let (unrecovered, recovery) = recovery::recovery(self);
        let checked = [
            ("no_loss", invariants::no_loss(self)),
            ("one_place", invariants::one_place(self)),
            ("no_unexpected", invariants::no_unexpected(self)),
            ("bounded", invariants::bounded(self)),
            ("fence_monotone", invariants::fence_monotone(self)),
            ("no_overlap", invariants::no_overlap(self)),
            ("calm_once", invariants::calm_once(self)),
            ("clean", invariants::clean(self)),
            ("recovery", unrecovered),
        ];
        let violated = checked.into_iter().filter(|(_name, offences)| !offences.is_empty());
        Report {
            violations: violated.map(|(name, offences)| self.violation(name, offences)).collect(),
            recovery,
            totals: self.totals(),
        }
    }

    fn violation(&self, invariant: &'static str, offences: Vec<Offence>) -> Violation {
        let count = offences.len();
        let mut shown: Vec<Offence> = offences.into_iter().take(SHOWN).collect();
        for offence in &mut shown {
            let history = self.history.jobs.get(&offence.job);
            offence.timeline = history.map_or_else(Vec::new, |job| job.timeline(self.weather));
        }
        Violation { invariant, count, shown }
    }

    fn totals(&self) -> Totals {
        let jobs = || self.history.jobs.values();
        Totals {
            submitted: jobs().filter(|job| job.submitted).count(),
            done: jobs().filter(|job| job.has_succeeded()).count(),
            dead: self.facts.dead.len(),
            starts: jobs().map(|job| job.spans.len()).sum(),
        }
    }

    /// Returns when and how a run ended. A killed worker's run ended with it, unless the handler outlived the worker.
    pub(super) fn end_of(&self, span: &Span) -> (u64, Option<How>) {
        if let Some((t, how)) = span.end {
            return (t, Some(how));
        }
        let faults = self.weather.of(span.run.pid);
        let kills = faults.filter(|event| event.cause == Cause::Kill && event.until >= span.from);
        let killed = kills.map(|kill| (kill.until, None)).next();
        let timeout = self.rules.timeout.map(|timeout| (span.from + nanos(timeout), Some(How::Failed)));
        killed.or(timeout).unwrap_or((u64::MAX, None))
    }

    /// Whether a fault hit the worker of a run before its outcome was stored in Redis.
    pub(super) fn is_disturbed(&self, span: &Span) -> bool {
        let settled = self.end_of(span).0.saturating_add(nanos(self.rules.settled_within));
        self.weather.touches(span.run.pid, span.from, settled)
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = (&String, &JobHistory)> {
        self.history.jobs.iter()
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no test lasts 500 years")
}

/// One job or key that breaks an invariant.
#[derive(Clone, Debug)]
pub struct Offence {
    pub job: String,
    pub what: String,
    pub timeline: Vec<String>,
}

/// A broken invariant.
#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: &'static str,
    pub count: usize,
    /// Some of the offenders.
    pub shown: Vec<Offence>,
}

/// The times from a kill to the next start of each job that it orphaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    pub orphans: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

/// The totals of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub submitted: usize,
    pub done: usize,
    pub dead: usize,
    pub starts: usize,
}

/// The judgement. Its `Display` shows everything.
#[derive(Clone, Debug)]
pub struct Report {
    pub violations: Vec<Violation>,
    pub recovery: Recovery,
    pub totals: Totals,
}

impl Report {
    /// Panics with the whole report if an invariant is broken.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }

    /// The names of the broken invariants.
    pub fn broken(&self) -> Vec<&'static str> {
        self.violations.iter().map(|violation| violation.invariant).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { submitted, done, dead, starts } = self.totals;
        writeln!(f, "{submitted} jobs submitted, {done} done, {dead} dead, {starts} starts")?;
        let Recovery { orphans, p50, p99, max } = self.recovery;
        writeln!(
            f,
            "{orphans} jobs orphaned, started again after p50 {p50:.3?} p99 {p99:.3?} max {max:.3?}"
        )?;
        for Violation { invariant, count, shown } in &self.violations {
            writeln!(f, "\nVIOLATED {invariant}: {count} offenders")?;
            for offence in shown {
                writeln!(f, "  {}: {}", offence.job, offence.what)?;
                for line in &offence.timeline {
                    writeln!(f, "    {line}")?;
                }
            }
        }
        Ok(())
    }
}
