//! The figures of the ways that jobs can take, next to the raw drains of the same rounds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::explain::{self, Command, CommandStats};
use super::ratio::{Ratio, median};
use super::round::{Cost, Round};
use super::ways::Way;
use crate::output;

/// How to read the table.
const READING: &str = "\
The ratio is that to the raw baseline of the same round; the spread is its least and its greatest value in all rounds.
CPU times are per job. A budget with `noise` is undecided: the ratio is closer to it than the spread is wide.";

/// The figures of all ways.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<RawDrain>,
    /// The drains that `raw` sums up.
    #[serde(skip)]
    drains: Vec<Cost>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ways: BTreeMap<Way, WayFigures>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    explain: BTreeMap<Way, Vec<Command>>,
}

/// The raw drains of all rounds.
#[derive(Debug, Serialize)]
pub(super) struct RawDrain {
    pub(super) per_s: f64,
    pub(super) redis_us_per_job: f64,
}

/// The figures of one way.
#[derive(Debug, Serialize)]
pub(super) struct WayFigures {
    jobs: usize,
    pub(super) per_s: f64,
    #[serde(flatten)]
    pub(super) ratio: Ratio,
    pub(super) redis_us_per_job: f64,
    pub(super) worker_us_per_job: f64,
}

impl Figures {
    /// Adds the rounds of a way.
    pub(super) fn add(&mut self, way: Way, rounds: &[Round]) {
        self.drains.extend(rounds.iter().map(|round| round.raw));
        self.raw = Some(RawDrain::of(&self.drains));
        self.ways.insert(way, WayFigures::of(rounds));
    }

    /// Adds what Redis executed for the jobs of a way.
    pub(super) fn explain(&mut self, way: Way, rounds: &[Round]) {
        let mut executed = CommandStats::default();
        rounds.iter().for_each(|round| executed.add(&round.commands));
        let jobs = rounds.iter().map(|round| round.jobs).sum();
        self.explain.insert(way, executed.per_job(jobs));
    }

    /// Returns the table for people and how to read it; `None` if no way was measured.
    pub(super) fn table(&self) -> Option<String> {
        let headings = ["kind", "jobs", "per second", "ratio", "spread", "redis CPU", "worker CPU", "budget"];
        let mut table = output::table(&headings);
        for row in self.rows(self.raw.as_ref()?) {
            table.add_row(row);
        }
        Some(format!("{table}\n{READING}"))
    }

    /// Returns the table of what Redis executed; `None` if nobody wants to know.
    pub(super) fn explanation(&self) -> Option<String> {
        (!self.explain.is_empty()).then(|| explain::table(&self.explain))
    }

    /// Returns a row for each way, after that of the raw drain.
    fn rows(&self, raw: &RawDrain) -> Vec<[String; 8]> {
        let none = String::new;
        let cpu = us(raw.redis_us_per_job);
        let first = ["raw baseline".to_owned(), none(), rate(raw.per_s), none(), none(), cpu, none(), none()];
        std::iter::once(first).chain(self.ways.iter().map(|(way, figures)| figures.row(*way))).collect()
    }
}

impl RawDrain {
    pub(super) fn of(drains: &[Cost]) -> Self {
        let pick = |of: fn(&Cost) -> f64| median(drains.iter().map(of));
        Self { per_s: pick(|cost| cost.per_s), redis_us_per_job: pick(|cost| cost.redis_us_per_job) }
    }
}

impl WayFigures {
    /// Sums up the rounds of a way.
    pub(super) fn of(rounds: &[Round]) -> Self {
        let pick = |of: fn(&Round) -> f64| median(rounds.iter().map(of));
        Self {
            jobs: rounds.first().map_or(0, |round| round.jobs),
            per_s: pick(|round| round.way.per_s),
            ratio: Ratio::of(rounds.iter().map(Round::ratio)),
            redis_us_per_job: pick(|round| round.way.redis_us_per_job),
            worker_us_per_job: pick(|round| round.worker_us_per_job),
        }
    }

    fn row(&self, way: Way) -> [String; 8] {
        let Self { jobs, per_s, ratio, redis_us_per_job, worker_us_per_job } = self;
        [
            way.name(),
            thousands(*jobs as f64),
            rate(*per_s),
            format!("{:.3}", ratio.median),
            format!("{:.3} to {:.3}", ratio.min, ratio.max),
            us(*redis_us_per_job),
            us(*worker_us_per_job),
            way.spec().budget.map(|budget| budget.judge(ratio)).unwrap_or_default(),
        ]
    }
}

pub(super) fn rate(per_s: f64) -> String {
    format!("{} /s", thousands(per_s))
}

pub(super) fn us(us: f64) -> String {
    format!("{us:.2} µs")
}

/// A number with separators between thousands.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::round::WayMemory;
    use super::*;

    /// A round in which a job of the way costs this many times as much as a raw entry.
    pub(in crate::bench) fn round(times: f64) -> Round {
        let raw = Cost { per_s: 500_000.0, redis_us_per_job: 2.0 };
        let way = Cost { per_s: raw.per_s / times, redis_us_per_job: raw.redis_us_per_job * times };
        Round {
            jobs: 20_000,
            raw,
            way,
            worker_us_per_job: 3.0,
            commands: CommandStats::default(),
            memory: WayMemory::default(),
        }
    }

    #[test]
    fn each_way_has_a_row_and_noise_is_said_to_be_noise() {
        let mut figures = Figures::default();
        figures.add(Way::Plain, &[1.05, 1.04, 1.06].map(round));
        figures.add(Way::Retried, &[40.0, 50.0, 44.0].map(round));
        figures.add(Way::Tracked, &[2.5, 4.0, 3.0].map(round));
        figures.add(Way::Dead, &[20.0, 25.0, 22.0].map(round));
        let rows = figures.rows(figures.raw.as_ref().unwrap());
        let rows: Vec<String> = rows.iter().map(|row| row.join(" | ").trim_end().to_owned()).collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        raw baseline |  | 500,000 /s |  |  | 2.00 µs |  |
        plain | 20,000 | 476,190 /s | 0.952 | 0.943 to 0.962 | 2.10 µs | 3.00 µs | ≥ 0.90 (met)
        retried | 20,000 | 11,364 /s | 0.023 | 0.020 to 0.025 | 88.00 µs | 3.00 µs | ≥ 0.11 (missed)
        tracked | 20,000 | 166,667 /s | 0.333 | 0.250 to 0.400 | 6.00 µs | 3.00 µs | ≥ 0.30 (noise)
        dead | 20,000 | 22,727 /s | 0.045 | 0.040 to 0.050 | 44.00 µs | 3.00 µs |
        ");
    }
}
