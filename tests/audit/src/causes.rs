//! What can have made a job run twice: its worker was killed or asked to stop, or was silent for so long that others
//! had to assume it was dead. Nothing else is a cause, in particular no lost reply.

use std::collections::HashMap;

use super::diary::Stall;
use harness::weather::{Cause, Event};

/// How precisely the end of a standstill is known, in nanoseconds.
const AWAKE: u64 = 60_000_000;

/// What happened this long before or after a run belongs to its description, in nanoseconds.
const NEAR: u64 = 10_000_000_000;

/// What made others take over what a worker held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    Killed,
    Stopped,
    Frozen,
    Network,
    Redis,
    /// The machine gave it no CPU time.
    Starved,
}

impl Why {
    /// What the report calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "its worker was killed",
            Self::Stopped => "its worker was stopped",
            Self::Frozen => "its worker was frozen",
            Self::Network => "its worker's network failed",
            Self::Redis => "Redis was away",
            Self::Starved => "its worker got no CPU time",
        }
    }

    fn of(cause: Cause) -> Self {
        match cause {
            Cause::Kill => Self::Killed,
            Cause::Stop => Self::Stopped,
            Cause::Freeze => Self::Frozen,
            Cause::Network => Self::Network,
            Cause::Redis => Self::Redis,
        }
    }
}

/// A time in which a worker was mostly silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Silence {
    from: u64,
    until: u64,
    /// For how much of that time it was silent.
    lasted: u64,
    /// Whether connections were cut and had to be opened again.
    cut: bool,
    /// What caused it.
    why: Why,
}

/// Something that happened to a worker, in words.
#[derive(Clone, Debug)]
pub struct Note {
    pub pid: u32,
    pub at: u64,
    pub what: String,
}

/// All causes of an audit, by worker.
pub struct Causes {
    ends: HashMap<u32, Vec<(u64, u64, Why)>>,
    silences: HashMap<u32, Vec<Silence>>,
    of_all: Vec<Silence>,
    /// When each process stalled, for whatever reason.
    stills: HashMap<u32, Vec<(u64, u64)>>,
    lease: u64,
    /// What else happened to workers, in words.
    notes: Vec<Note>,
}

impl Causes {
    /// Times are in nanoseconds.
    pub fn new(events: &[Event], stalls: &[Stall], lease: u64) -> Self {
        let mut ends: HashMap<u32, Vec<(u64, u64, Why)>> = HashMap::new();
        let mut quiet: HashMap<u32, Vec<Time>> = HashMap::new();
        let mut of_all = Vec::new();
        let mut stills: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for event in events {
            if let (Cause::Freeze, Some(pid)) = (event.cause, event.pid) {
                stills.entry(pid).or_default().push((event.from, event.until));
            }
            // A network failure of all workers means that Redis was down.
            let is_network = event.cause == Cause::Network;
            let why = if is_network && event.pid.is_none() { Why::Redis } else { Why::of(event.cause) };
            let time = (event.from, event.until, is_network, why);
            match (event.cause, event.pid) {
                (Cause::Kill | Cause::Stop, Some(pid)) => {
                    ends.entry(pid).or_default().push((event.from, event.until, why))
                }
                (_, Some(pid)) => quiet.entry(pid).or_default().push(time),
                (_, None) => of_all.push(time),
            }
        }
        for stall in stalls {
            stills.entry(stall.pid).or_default().push((stall.from, stall.until));
            quiet.entry(stall.pid).or_default().push((stall.from, stall.until, false, Why::Starved));
        }
        let silences = quiet.into_iter().map(|(pid, mut times)| {
            times.extend(&of_all);
            (pid, joined(times, lease / 3))
        });
        Self {
            ends,
            silences: silences.collect(),
            of_all: joined(of_all, lease / 3),
            stills,
            lease,
            notes: Vec::new(),
        }
    }

    pub fn noting(self, notes: Vec<Note>) -> Self {
        Self { notes, ..self }
    }

    /// Whether others had a cause between the two times to take over what this worker holds. A standstill of the worker or of
    /// Redis for less than seven tenths of the lease is not a cause, nor is a cut of less than half of it.
    pub fn explain(&self, pid: u32, from: u64, until: u64) -> bool {
        self.why(pid, from, until).is_some()
    }

    /// Returns that cause.
    pub fn why(&self, pid: u32, from: u64, until: u64) -> Option<Why> {
        let touches = |since: u64, end: u64| since <= until && end >= from;
        let ends = self.ends.get(&pid).into_iter().flatten();
        let silences = self.silences.get(&pid).unwrap_or(&self.of_all).iter();
        let long = silences.filter(|quiet| quiet.lasted >= self.bearable(quiet));
        let ends = ends.filter(|(from, until, _)| touches(*from, *until)).map(|(.., why)| *why);
        ends.chain(long.filter(|quiet| touches(quiet.from, quiet.until)).map(|quiet| quiet.why)).next()
    }

    /// Returns when this process resumed after a standstill, if that was just at this moment.
    pub fn went_on(&self, pid: u32, at: u64) -> Option<u64> {
        let stills = self.stills.get(&pid).into_iter().flatten();
        let ends = stills.map(|(_, until)| *until).filter(|until| until.abs_diff(at) <= AWAKE);
        ends.min().map(|until| until / AWAKE)
    }

    /// Returns when this worker was killed.
    pub fn killed(&self, pid: u32) -> Option<u64> {
        let ends = self.ends.get(&pid)?.iter();
        ends.filter(|(.., why)| *why == Why::Killed).map(|(_, until, _)| *until).next()
    }

    fn bearable(&self, quiet: &Silence) -> u64 {
        if quiet.cut { self.lease / 2 } else { self.lease * 7 / 10 }
    }

    /// Whether Redis was away at some point between the two times.
    pub fn is_redis_away(&self, from: u64, until: u64) -> bool {
        self.of_all.iter().any(|quiet| quiet.from <= until && quiet.until >= from)
    }

    /// Describes what is known about a worker around its runs, each from one time until another, with times since `origin`.
    pub fn describe(&self, pid: u32, origin: u64, runs: &[(u64, u64)]) -> String {
        let since = |t: u64| if t == u64::MAX { f64::INFINITY } else { (t as f64 - origin as f64) / 1e9 };
        let touches = |(from, until): &(u64, u64), t: u64| {
            t >= from.saturating_sub(NEAR) && t <= until.saturating_add(NEAR)
        };
        let near = |t: &u64| runs.iter().any(|run| touches(run, *t));
        let mut parts: Vec<String> = Vec::new();
        for (from, until, _) in self.ends.get(&pid).into_iter().flatten() {
            parts.push(format!("ends {:+.3}..{:+.3}", since(*from), since(*until)));
        }
        for quiet in self.silences.get(&pid).unwrap_or(&self.of_all).iter().filter(|quiet| near(&quiet.from))
        {
            let lasted = quiet.lasted as f64 / 1e9;
            parts.push(format!(
                "silent {:+.3}..{:+.3} ({lasted:.3} s)",
                since(quiet.from),
                since(quiet.until)
            ));
        }
        for Note { at, what, .. } in self.notes.iter().filter(|note| note.pid == pid && near(&note.at)) {
            parts.push(format!("{what} {:+.3}", since(*at)));
        }
        format!("pid {pid}: {}", parts.join(", "))
    }
}

/// From, until, whether connections were cut, and the cause.
type Time = (u64, u64, bool, Why);

/// Joins times that follow each other so closely that they are one silence.
fn joined(mut times: Vec<Time>, gap: u64) -> Vec<Silence> {
    times.sort_unstable();
    let mut silences: Vec<Silence> = Vec::new();
    for (from, until, cut, why) in times {
        match silences.last_mut() {
            Some(last) if from <= last.until.saturating_add(gap) => {
                last.lasted += until.saturating_sub(from.max(last.until));
                last.until = last.until.max(until);
                last.cut |= cut;
            }
            _ => silences.push(Silence { from, until, lasted: until - from, cut, why }),
        }
    }
    silences
}
