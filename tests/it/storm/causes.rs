//! What can have made a job run twice: that its worker was killed or asked to stop, or was silent for so long that others
//! had to take it for dead. Nothing else is a cause; least of all a reply that got lost.

use std::collections::HashMap;

use super::diary::Stall;
use crate::harness::weather::{Cause, Event};

/// A time in which a worker was hardly to be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Silence {
    from: u64,
    until: u64,
    /// For how long of it it was not heard.
    lasted: u64,
    /// Connections were cut: they have to be made anew.
    cut: bool,
}

/// Something that happened to a worker, in words.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) pid: u32,
    pub(super) at: u64,
    pub(super) what: String,
}

/// All causes of a storm, by worker.
pub(super) struct Causes {
    ends: HashMap<u32, Vec<(u64, u64)>>,
    silences: HashMap<u32, Vec<Silence>>,
    of_all: Vec<Silence>,
    lease: u64,
    /// What else happened to whom, in words.
    notes: Vec<Note>,
}

impl Causes {
    /// Times are in nanoseconds.
    pub(super) fn new(events: &[Event], stalls: &[Stall], lease: u64) -> Self {
        let mut ends: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        let mut quiet: HashMap<u32, Vec<Time>> = HashMap::new();
        let mut of_all = Vec::new();
        for event in events {
            let time = (event.from, event.until, event.cause == Cause::Network);
            match (event.cause, event.pid) {
                (Cause::Kill | Cause::Stop, Some(pid)) => {
                    ends.entry(pid).or_default().push((event.from, event.until))
                }
                (_, Some(pid)) => quiet.entry(pid).or_default().push(time),
                (_, None) => of_all.push(time),
            }
        }
        for stall in stalls {
            quiet.entry(stall.pid).or_default().push((stall.from, stall.until, false));
        }
        let silences = quiet.into_iter().map(|(pid, mut times)| {
            times.extend(&of_all);
            (pid, joined(times, lease / 3))
        });
        Self {
            ends,
            silences: silences.collect(),
            of_all: joined(of_all, lease / 3),
            lease,
            notes: Vec::new(),
        }
    }

    pub(super) fn noting(self, notes: Vec<Note>) -> Self {
        Self { notes, ..self }
    }

    /// Whether there is a cause between the two for others to take over what this worker holds. That it or Redis stood still for
    /// less than seven tenths of the lease is none, nor is a cut of less than half of it.
    pub(super) fn explain(&self, pid: u32, from: u64, until: u64) -> bool {
        let touches = |since: u64, end: u64| since <= until && end >= from;
        let ended =
            self.ends.get(&pid).is_some_and(|ends| ends.iter().any(|(from, until)| touches(*from, *until)));
        let silences = self.silences.get(&pid).unwrap_or(&self.of_all);
        ended
            || silences
                .iter()
                .any(|quiet| quiet.lasted >= self.bearable(quiet) && touches(quiet.from, quiet.until))
    }

    fn bearable(&self, quiet: &Silence) -> u64 {
        if quiet.cut { self.lease / 2 } else { self.lease * 7 / 10 }
    }

    /// Whether Redis was away at some time between the two.
    pub(super) fn is_redis_away(&self, from: u64, until: u64) -> bool {
        self.of_all.iter().any(|quiet| quiet.from <= until && quiet.until >= from)
    }

    /// All that is known of a worker, with times since `origin`.
    pub(super) fn told(&self, pid: u32, origin: u64) -> String {
        let since = |t: u64| if t == u64::MAX { f64::INFINITY } else { (t as f64 - origin as f64) / 1e9 };
        let near = |t: &u64| since(*t).abs() < 30.0;
        let mut told: Vec<String> = Vec::new();
        for (from, until) in self.ends.get(&pid).into_iter().flatten() {
            told.push(format!("ends {:+.3}..{:+.3}", since(*from), since(*until)));
        }
        for quiet in self.silences.get(&pid).unwrap_or(&self.of_all).iter().filter(|quiet| near(&quiet.from))
        {
            let lasted = quiet.lasted as f64 / 1e9;
            told.push(format!(
                "silent {:+.3}..{:+.3} ({lasted:.3} s)",
                since(quiet.from),
                since(quiet.until)
            ));
        }
        for Note { at, what, .. } in self.notes.iter().filter(|note| note.pid == pid && near(&note.at)) {
            told.push(format!("{what} {:+.3}", since(*at)));
        }
        format!("pid {pid}: {}", told.join(", "))
    }
}

/// From, until, and whether connections were cut.
type Time = (u64, u64, bool);

/// Times that follow each other so closely that they are one silence.
fn joined(mut times: Vec<Time>, gap: u64) -> Vec<Silence> {
    times.sort_unstable();
    let mut silences: Vec<Silence> = Vec::new();
    for (from, until, cut) in times {
        match silences.last_mut() {
            Some(last) if from <= last.until.saturating_add(gap) => {
                last.lasted += until.saturating_sub(from.max(last.until));
                last.until = last.until.max(until);
                last.cut |= cut;
            }
            _ => silences.push(Silence { from, until, lasted: until - from, cut }),
        }
    }
    silences
}
