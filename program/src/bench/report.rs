//! The results of the measurements, as a table and as JSON.

use serde::Serialize;

use crate::output;

/// The measurements of one run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The server, such as `Redis 7.0.15`.
    pub(super) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) enqueue: Option<Enqueue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drain: Option<Drain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) promotion: Option<Promotion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backlog: Option<Backlog>,
}

/// Bulk enqueue.
#[derive(Debug, Serialize)]
pub(super) struct Enqueue {
    pub(super) raw_per_s: f64,
    pub(super) per_s: f64,
    pub(super) ratio: f64,
}

/// No-op jobs in one worker process.
#[derive(Debug, Serialize)]
pub(super) struct Drain {
    pub(super) raw_per_s: f64,
    pub(super) per_s: f64,
    pub(super) ratio: f64,
    pub(super) raw_redis_us_per_job: f64,
    pub(super) redis_us_per_job: f64,
    pub(super) redis_cpu_ratio: f64,
    pub(super) worker_us_per_job: f64,
}

/// From XADD to the handler's start, at 500 jobs a second.
#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Delayed jobs that become due: many at once, and a steady trickle.
#[derive(Debug, Serialize)]
pub(super) struct Promotion {
    pub(super) per_s: f64,
    pub(super) late_p99_ms: f64,
}

/// A waiting job's memory in Redis.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) raw_bytes_per_job: f64,
    pub(super) bytes_per_job: f64,
    pub(super) ratio: f64,
}

/// Jobs that fail once and then succeed.
#[derive(Debug, Serialize)]
pub(super) struct Retry {
    pub(super) per_s: f64,
}

/// The drain ratio with a large backlog in Redis.
#[derive(Debug, Serialize)]
pub(super) struct Backlog {
    pub(super) drain_ratio_2m: f64,
    pub(super) drain_ratio_1m_delayed: f64,
}

impl Report {
    /// Returns the table for people: the measurement, the raw figure, ours, their ratio, and the budget.
    pub(super) fn table(&self) -> String {
        let mut table = output::table(&["", "raw", "streamfleet", "ratio", "budget"]);
        for row in self.rows() {
            table.add_row(row);
        }
        format!("compared with raw commands on the same {}\n{table}", self.server)
    }

    fn rows(&self) -> Vec<[String; 5]> {
        let mut rows = Vec::new();
        if let Some(enqueue) = &self.enqueue {
            rows.push(pair(
                "bulk enqueue",
                [enqueue.raw_per_s, enqueue.per_s].map(per_s),
                enqueue.ratio,
                "≥ 0.50",
            ));
        }
        if let Some(drain) = &self.drain {
            rows.push(pair("drain", [drain.raw_per_s, drain.per_s].map(per_s), drain.ratio, "≥ 0.80"));
            let cpu = [drain.raw_redis_us_per_job, drain.redis_us_per_job].map(|us| format!("{us:.2} µs"));
            rows.push(pair("redis CPU per drained job", cpu, drain.redis_cpu_ratio, "≤ 1.20"));
            rows.push(single("worker CPU per drained job", format!("{:.2} µs", drain.worker_us_per_job), ""));
        }
        if let Some(backlog) = &self.backlog {
            let none = || [String::new(), String::new()];
            rows.push(pair("drain, 2 million waiting", none(), backlog.drain_ratio_2m, "≥ 0.80"));
            rows.push(pair("drain, 1 million delayed", none(), backlog.drain_ratio_1m_delayed, "≥ 0.80"));
        }
        if let Some(memory) = &self.memory {
            let bytes = [memory.raw_bytes_per_job, memory.bytes_per_job].map(|bytes| format!("{bytes:.0} B"));
            rows.push(pair("memory per waiting job", bytes, memory.ratio, "≤ 1.20"));
        }
        if let Some(latency) = &self.latency_ms {
            rows.push(single("XADD to start, p50 at 500/s", ms(latency.p50), ""));
            rows.push(single("XADD to start, p99 at 500/s", ms(latency.p99), "≤ 2 ms"));
        }
        if let Some(promotion) = &self.promotion {
            rows.push(single("promotion of 100,000 due at once", per_s(promotion.per_s), ""));
            rows.push(single("promotion late, p99 at 200/s", ms(promotion.late_p99_ms), "≤ 20 ms"));
        }
        if let Some(retry) = &self.retry {
            rows.push(single("20,000 jobs that fail once", per_s(retry.per_s), ""));
        }
        rows
    }
}

fn pair(what: &str, [raw, ours]: [String; 2], ratio: f64, budget: &str) -> [String; 5] {
    [what.to_owned(), raw, ours, format!("{ratio:.2}"), budget.to_owned()]
}

fn single(what: &str, ours: String, budget: &str) -> [String; 5] {
    [what.to_owned(), String::new(), ours, String::new(), budget.to_owned()]
}

fn per_s(rate: f64) -> String {
    format!("{} /s", thousands(rate))
}

fn ms(ms: f64) -> String {
    format!("{ms:.2} ms")
}

/// A rate with separators between thousands.
fn thousands(rate: f64) -> String {
    let digits = format!("{rate:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
