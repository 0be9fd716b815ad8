//! The results of the measurements, as tables and as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{Figures, RawDrain, WayFigures, rate, us};
use super::measure::Delays;
use super::programs::{LanguageFigures, MANY, ProgramMemory};
use super::ratio::{Budget, Ratio, median};
use super::round::{Round, WayMemory};
use super::ways::Way;
use crate::output;

/// The measurements of one run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The server, such as `Redis 7.0.15`.
    server: String,
    #[serde(flatten)]
    figures: Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) enqueue: Option<Enqueue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<Drain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promotion: Option<Promotion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backlog: Option<Backlog>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) programs: Vec<LanguageFigures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) program_memory: Vec<ProgramMemory>,
}

/// Bulk enqueue.
#[derive(Debug, Serialize)]
pub(super) struct Enqueue {
    pub(super) raw_per_s: f64,
    pub(super) per_s: f64,
    #[serde(flatten)]
    pub(super) ratio: Ratio,
}

/// Plain jobs, under the name that they have had the longest.
#[derive(Debug, Serialize)]
struct Drain {
    raw_per_s: f64,
    per_s: f64,
    ratio: f64,
    raw_redis_us_per_job: f64,
    redis_us_per_job: f64,
    redis_cpu_ratio: f64,
    worker_us_per_job: f64,
    /// `redis_cpu_ratio` over all rounds.
    #[serde(skip)]
    redis_cpu: Ratio,
}

/// From XADD to the handler's start: at 500 jobs a second, and at half the rate at which plain jobs can come
/// and go.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    p50: f64,
    p99: f64,
    half_per_s: f64,
    half_p50: f64,
    half_p99: f64,
    /// `p99` and `half_p99` over all rounds.
    #[serde(skip)]
    p99_rounds: [Ratio; 2],
}

impl Latency {
    /// Sums up the rounds at 500 jobs a second, and those at `half_per_s`.
    pub(super) fn of(few: &[Delays], half_per_s: f64, half: &[Delays]) -> Self {
        let p50 = |rounds: &[Delays]| median(rounds.iter().map(|round| round.p50));
        let p99 = |rounds: &[Delays]| Ratio::of(rounds.iter().map(|round| round.p99));
        let p99_rounds = [p99(few), p99(half)];
        let [p99, half_p99] = p99_rounds.map(|rounds| rounds.median);
        Self { p50: p50(few), p99, half_per_s, half_p50: p50(half), half_p99, p99_rounds }
    }

    fn rows(&self) -> [[String; 5]; 4] {
        let (at, [few, half]) = (rate(self.half_per_s), &self.p99_rounds);
        [
            single("XADD to start, p50 at 500/s", ms(self.p50), ""),
            single("XADD to start, p99 at 500/s", ms(self.p99), &within_ms(1.0, few)),
            single(&format!("XADD to start, p50 at {at}"), ms(self.half_p50), ""),
            single(&format!("XADD to start, p99 at {at}"), ms(self.half_p99), &within_ms(5.0, half)),
        ]
    }
}

/// Delayed jobs that become due: many at once, and a steady trickle.
#[derive(Debug, Serialize)]
struct Promotion {
    per_s: f64,
    late_p99_ms: f64,
    /// `late_p99_ms` over all rounds.
    #[serde(skip)]
    late: Ratio,
}

/// The memory of a waiting plain job in Redis, beside that of a raw entry, and of the jobs of each way.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) raw_bytes_per_job: f64,
    pub(super) bytes_per_job: f64,
    pub(super) ratio: f64,
    pub(super) ways: BTreeMap<Way, WayMemory>,
}

impl Memory {
    fn rows(&self) -> impl Iterator<Item = [String; 5]> {
        let bytes = [self.raw_bytes_per_job, self.bytes_per_job].map(|bytes| format!("{bytes:.0} B"));
        let plain = pair("memory per waiting job", bytes, self.ratio, "≤ 1.20");
        let each = self.ways.iter().map(|(way, WayMemory { waiting, kept })| {
            let what = format!("memory per {} job, waiting / kept", way.name());
            single(&what, format!("{waiting:.0} B / {kept:.0} B"), "")
        });
        std::iter::once(plain).chain(each)
    }
}

/// Jobs that fail once and then succeed, under the name that they have had the longest.
#[derive(Debug, Serialize)]
struct Retry {
    per_s: f64,
}

/// The drain ratio beside what may slow it down.
#[derive(Debug, Serialize)]
pub(super) struct Backlog {
    pub(super) drain_ratio_5m: Ratio,
    pub(super) drain_ratio_1m_delayed: Ratio,
    pub(super) drain_ratio_100k_dead: Ratio,
    pub(super) drain_ratio_1k_types: Ratio,
    pub(super) drain_ratio_64_workers: Ratio,
}

impl Backlog {
    fn rows(&self) -> impl Iterator<Item = [String; 5]> {
        let named = [
            ("plain, 5 million waiting", &self.drain_ratio_5m),
            ("plain, 1 million delayed", &self.drain_ratio_1m_delayed),
            ("plain, 100,000 dead letters", &self.drain_ratio_100k_dead),
            ("plain, 1,000 types", &self.drain_ratio_1k_types),
            ("plain, 64 workers", &self.drain_ratio_64_workers),
        ];
        let none = || [String::new(), String::new()];
        let budget = Budget::AtLeast(0.8);
        named.into_iter().map(move |(what, ratio)| pair(what, none(), ratio.median, &budget.judge(ratio)))
    }
}

impl Drain {
    fn of(rounds: &[Round]) -> Self {
        let raw = RawDrain::of(&rounds.iter().map(|round| round.raw).collect::<Vec<_>>());
        let plain = WayFigures::of(rounds);
        let cpu = |round: &Round| round.way.redis_us_per_job / round.raw.redis_us_per_job;
        let redis_cpu = Ratio::of(rounds.iter().map(cpu));
        Self {
            raw_per_s: raw.per_s,
            per_s: plain.per_s,
            ratio: plain.ratio.median,
            raw_redis_us_per_job: raw.redis_us_per_job,
            redis_us_per_job: plain.redis_us_per_job,
            redis_cpu_ratio: redis_cpu.median,
            worker_us_per_job: plain.worker_us_per_job,
            redis_cpu,
        }
    }
}

impl Report {
    /// Creates a report without measurements of this server.
    pub(super) fn new(server: String) -> Self {
        Self { server, ..Self::default() }
    }

    /// Adds the rounds of a way.
    pub(super) fn add(&mut self, way: Way, rounds: &[Round]) {
        self.figures.add(way, rounds);
        if way == Way::Plain {
            self.drain = Some(Drain::of(rounds));
        }
        if way == Way::Retried {
            self.retry = Some(Retry { per_s: WayFigures::of(rounds).per_s });
        }
    }

    /// Adds what Redis executed for the jobs of a way.
    pub(super) fn explain(&mut self, way: Way, rounds: &[Round]) {
        self.figures.explain(way, rounds);
    }

    /// Adds how fast many jobs are promoted, and how late a trickle of them is.
    pub(super) fn add_promotion(&mut self, rounds: &[Round], late_p99_ms: Vec<f64>) {
        let late = Ratio::of(late_p99_ms);
        let per_s = WayFigures::of(rounds).per_s;
        self.promotion = Some(Promotion { per_s, late_p99_ms: late.median, late });
    }

    /// Returns the tables for people.
    pub(super) fn table(&self) -> String {
        let server = format!("compared with raw commands on the same {}", self.server);
        let parts = [Some(server), self.figures.table(), self.other_table(), self.figures.explanation()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Returns the table of what is not a way; `None` if none of it was measured.
    fn other_table(&self) -> Option<String> {
        let rows = self.rows();
        let mut table = output::table(&["", "raw", "streamfleet", "ratio", "budget"]);
        let is_empty = rows.is_empty();
        for row in rows {
            table.add_row(row);
        }
        (!is_empty).then(|| table.to_string())
    }

    /// Returns its rows: the measurement, the raw figure, ours, their ratio, and the budget.
    fn rows(&self) -> Vec<[String; 5]> {
        let mut rows = Vec::new();
        if let Some(enqueue) = &self.enqueue {
            let budget = Budget::AtLeast(0.7).judge(&enqueue.ratio);
            let figures = [enqueue.raw_per_s, enqueue.per_s].map(rate);
            rows.push(pair("bulk enqueue", figures, enqueue.ratio.median, &budget));
        }
        if let Some(drain) = &self.drain {
            let budget = Budget::AtMost(1.1).judge(&drain.redis_cpu);
            let figures = [drain.raw_redis_us_per_job, drain.redis_us_per_job].map(us);
            rows.push(pair("redis CPU per plain job", figures, drain.redis_cpu_ratio, &budget));
        }
        rows.extend(self.backlog.iter().flat_map(Backlog::rows));
        rows.extend(self.memory.iter().flat_map(Memory::rows));
        rows.extend(self.latency_ms.iter().flat_map(Latency::rows));
        if let Some(promotion) = &self.promotion {
            let budget = within_ms(5.0, &promotion.late);
            rows.push(single("promotion late, p99 at 200/s", ms(promotion.late_p99_ms), &budget));
        }
        rows.extend(self.programs.iter().flat_map(of_language));
        rows.extend(self.program_memory.iter().map(of_memory));
        rows
    }
}

/// Returns the rows of one language.
fn of_language(figures: &LanguageFigures) -> Vec<[String; 5]> {
    let name = |what: &str, how: &str| format!("{what}_{}{how}", figures.language);
    let Some(rates) = &figures.rates else {
        return vec![single(&name("pool", ""), "skipped: not installed".to_owned(), "")];
    };
    let many = |how: &str, (bare_per_s, per_s): (f64, f64), ratio: &Ratio| {
        let what = name("pool", &format!(", {how} = {MANY}"));
        let bound = bare_per_s.min(rates.plain_per_s);
        pair(&what, [bound, per_s].map(rate), ratio.median, &Budget::AtLeast(0.5).judge(ratio))
    };
    let lockstep = [rates.bare_lockstep_per_s, rates.pool_per_s].map(rate);
    let judged = Budget::AtLeast(0.5).judge(&rates.pool_ratio);
    let mut rows = vec![
        single(&name("bare", ", without waiting"), rate(rates.bare_per_s), ""),
        single(&name("bare", ", one job at a time"), rate(rates.bare_lockstep_per_s), ""),
        single(&format!("plain jobs, beside {}", figures.language), rate(rates.plain_per_s), ""),
        pair(&name("pool", ", one job at a time"), lockstep, rates.pool_ratio.median, &judged),
        many("ahead", (rates.bare_per_s, rates.pool_ahead_per_s), &rates.pool_ahead_ratio),
    ];
    if let Some(inflight) = &rates.pool_inflight {
        rows.push(single(&name("bare", ", many at once"), rate(inflight.bare_per_s), ""));
        rows.push(many("inflight", (inflight.bare_per_s, inflight.per_s), &inflight.ratio));
    }
    rows.extend(rates.http_per_s.map(|per_s| single(&name("http", ""), rate(per_s), "")));
    rows.push(single(&name("exec", ""), rate(rates.exec_per_s), ""));
    rows
}

/// Returns the row of the memory of many programs.
fn of_memory(memory: &ProgramMemory) -> [String; 5] {
    let ProgramMemory { language, programs, rss_bytes, pss_bytes } = memory;
    let [rss, pss] = [rss_bytes, pss_bytes].map(|bytes| bytes.div_ceil(1024 * 1024));
    single(&format!("{programs} {language} programs, RSS / PSS"), format!("{rss} MiB / {pss} MiB"), "")
}

fn pair(what: &str, [raw, ours]: [String; 2], ratio: f64, budget: &str) -> [String; 5] {
    [what.to_owned(), raw, ours, format!("{ratio:.2}"), budget.to_owned()]
}

fn single(what: &str, ours: String, budget: &str) -> [String; 5] {
    [what.to_owned(), String::new(), ours, String::new(), budget.to_owned()]
}

fn ms(ms: f64) -> String {
    format!("{ms:.2} ms")
}

/// Returns the budget of a delay, and whether it keeps it.
fn within_ms(most: f64, rounds: &Ratio) -> String {
    format!("≤ {most} ms ({})", Budget::AtMost(most).verdict(rounds))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::round;
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("Redis 7.0.15".to_owned());
        report.add(Way::Plain, &[1.05, 1.04, 1.06].map(round));
        report.add(Way::Retried, &[40.0, 50.0, 44.0].map(round));
        report.add_promotion(&[2.0].map(round), vec![3.4, 3.5, 3.6]);
        report
    }

    #[test]
    fn what_is_not_a_way_has_a_table_of_its_own() {
        let mut report = report();
        let ratio = Ratio::of([0.66, 0.68, 0.71]);
        report.enqueue = Some(Enqueue { raw_per_s: 600_000.0, per_s: 408_000.0, ratio });
        let rows: Vec<String> =
            report.rows().iter().map(|row| row.join(" | ").trim_end().to_owned()).collect();
        insta::assert_snapshot!(rows.join("\n"), @r"
        bulk enqueue | 600,000 /s | 408,000 /s | 0.68 | ≥ 0.70 (noise)
        redis CPU per plain job | 2.00 µs | 2.10 µs | 1.05 | ≤ 1.10 (met)
        promotion late, p99 at 200/s |  | 3.50 ms |  | ≤ 5 ms (met)
        ");
    }

    #[test]
    fn programs_get_the_ways_beside_the_keys_that_they_know() {
        let json = serde_json::to_value(report()).unwrap();
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
            keys.sort_unstable();
            keys.join(" ")
        };
        assert_eq!(keys(&json), "drain promotion raw retry server ways");
        assert_eq!(keys(&json["raw"]), "per_s redis_us_per_job");
        assert_eq!(keys(&json["ways"]), "plain retried");
        assert_eq!(
            keys(&json["ways"]["plain"]),
            "jobs per_s ratio ratio_max ratio_min redis_us_per_job worker_us_per_job"
        );
        assert_eq!(
            keys(&json["drain"]),
            "per_s ratio raw_per_s raw_redis_us_per_job redis_cpu_ratio redis_us_per_job worker_us_per_job"
        );
    }
}
