//! How full the servers of Redis are, and how fast they fill: from figures that this process has read, up to an hour back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::queues::size;
use crate::times::short;

/// How often a sample is kept, the least time over which growth says something, and over how long it is measured.
const EVERY: Duration = Duration::from_secs(30);
const LEAST: Duration = Duration::from_secs(300);
const WINDOW: Duration = Duration::from_secs(3600);

/// A server that grows by fewer bytes an hour is not going to be full.
const QUIET: f64 = 1024.0;

/// The share of its memory from which a server is nearly full.
const NEARLY: f64 = 0.9;

/// What a server uses now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::top) struct Usage {
    /// Its address in a cluster; empty for a single server.
    pub(in crate::top) node: String,
    pub(in crate::top) used: u64,
    /// How many bytes it may use, if there is a limit.
    pub(in crate::top) most: Option<u64>,
}

impl Usage {
    fn share(&self) -> f64 {
        self.most.map_or(0.0, |most| self.used as f64 / most as f64)
    }
}

/// What servers use now, and used lately.
#[derive(Debug, Default)]
pub(in crate::top) struct Memory {
    now: Vec<Usage>,
    samples: BTreeMap<String, VecDeque<(Duration, u64)>>,
}

impl Memory {
    /// Takes what was read at a time of this process.
    pub(super) fn note(&mut self, usage: Vec<Usage>, now: Duration) {
        self.samples.retain(|node, _| usage.iter().any(|one| one.node == *node));
        for Usage { node, used, .. } in &usage {
            let samples = self.samples.entry(node.clone()).or_default();
            while samples.front().is_some_and(|(at, _)| *at + WINDOW < now) {
                samples.pop_front();
            }
            if samples.back().is_none_or(|(at, _)| *at + EVERY <= now) {
                samples.push_back((now, *used));
            }
        }
        self.now = usage;
    }

    /// Returns a line about the fullest server, and whether that is nearly full; `None` if nothing is known.
    pub(in crate::top) fn line(&self) -> Option<(String, bool)> {
        let fullest = self
            .now
            .iter()
            .max_by(|one, other| one.share().total_cmp(&other.share()).then(one.used.cmp(&other.used)))?;
        let name = if fullest.node.is_empty() { "Redis" } else { &fullest.node };
        let of = fullest.most.map_or_else(
            || " without a limit".to_owned(),
            |most| format!(" of {} ({:.0} %)", size(most), fullest.share() * 100.0),
        );
        let growth = self.samples.get(&fullest.node).and_then(growth);
        let grows = growth.map_or_else(String::new, |growth| told(growth, fullest));
        let others = self.now.len() - 1;
        let others = if others == 0 { String::new() } else { format!("; {others} others have more room") };
        let line = format!("{name} uses {}{of}{grows}{others}", size(fullest.used));
        Some((line, fullest.share() >= NEARLY))
    }
}

/// How much a server grows, and when it is full.
fn told(growth: f64, usage: &Usage) -> String {
    let sign = if growth < 0.0 { '-' } else { '+' };
    let grows = format!(", {sign}{}/h", size(growth.abs().round() as u64));
    let left = usage.most.map(|most| most.saturating_sub(usage.used));
    match left {
        Some(left) if growth >= QUIET => {
            // A float that is too large becomes the greatest number, and so "full in" many years.
            let seconds = (left as f64 / growth * 3600.0).round() as u64;
            format!("{grows}, full in {}", short(Duration::from_secs(seconds)))
        }
        Some(_) | None => grows,
    }
}

/// How many bytes an hour a server grows, by the line that fits its samples best; `None` if they cover too little time.
fn growth(samples: &VecDeque<(Duration, u64)>) -> Option<f64> {
    let (first, last) = (samples.front()?.0, samples.back()?.0);
    if last - first < LEAST {
        return None;
    }
    let count = samples.len() as f64;
    let points = || samples.iter().map(|(at, used)| (at.as_secs_f64() / 3600.0, *used as f64));
    let mean = (
        points().map(|(at, _)| at).sum::<f64>() / count,
        points().map(|(_, used)| used).sum::<f64>() / count,
    );
    let (rise, run) = points().fold((0.0, 0.0), |(rise, run), (at, used)| {
        let (at, used) = (at - mean.0, used - mean.1);
        (at.mul_add(used, rise), at.mul_add(at, run))
    });
    Some(rise / run)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn usage(node: &str, used: u64, most: Option<u64>) -> Usage {
        Usage { node: node.to_owned(), used, most }
    }

    #[test]
    fn growth_is_known_after_five_minutes_and_says_when_it_is_full() {
        let mut memory = Memory::default();
        assert_eq!(memory.line(), None);
        for minute in 0..=30 {
            memory.note(
                vec![usage("", (100 + minute) * MIB, Some(520 * MIB))],
                Duration::from_secs(60 * minute),
            );
            let (line, is_nearly_full) = memory.line().unwrap();
            assert_eq!((line.contains("full in"), is_nearly_full), (minute >= 5, false), "{line}");
        }
        let (line, _) = memory.line().unwrap();
        assert_eq!(line, "Redis uses 130MiB of 520MiB (25 %), +60MiB/h, full in 6h 30m");
    }

    #[test]
    fn the_fullest_server_of_a_cluster_is_named() {
        let mut memory = Memory::default();
        let servers = [("a:1", 10, Some(100)), ("b:1", 95, Some(100)), ("c:1", 99, None)];
        memory.note(servers.map(|(node, used, most)| usage(node, used, most)).to_vec(), Duration::ZERO);
        let (line, is_nearly_full) = memory.line().unwrap();
        assert_eq!((&*line, is_nearly_full), ("b:1 uses 95B of 100B (95 %); 2 others have more room", true));
    }
}
