//! What the measurements found, as a table and as JSON.

use serde::Serialize;

use crate::cli::output;

/// All measurements of one run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) enqueue: Enqueue,
    pub(super) drain: Drain,
    pub(super) latency_ms: Latency,
    pub(super) promotion: Promotion,
    pub(super) memory: Memory,
    pub(super) retry: Retry,
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

/// No-op jobs by one worker process.
#[derive(Debug, Serialize)]
pub(super) struct Drain {
    pub(super) raw_per_s: f64,
    pub(super) per_s: f64,
    pub(super) ratio: f64,
    pub(super) raw_redis_us_per_job: f64,
    pub(super) redis_us_per_job: f64,
    pub(super) redis_cpu_ratio: f64,
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

/// The drain ratio with much in Redis.
#[derive(Debug, Serialize)]
pub(super) struct Backlog {
    pub(super) drain_ratio_2m: f64,
    pub(super) drain_ratio_1m_delayed: f64,
}

impl Report {
    /// The table for people: what was measured, raw beside ours, their ratio, and what it should be.
    pub(super) fn table(&self) -> String {
        let mut table = output::table(&["", "raw", "streamfleet", "ratio", "budget"]);
        let mut row = |cells: [String; 5]| {
            table.add_row(cells);
        };
        let text = str::to_owned;
        let per_s = |rate: f64| format!("{} /s", thousands(rate));
        let times = |ratio: f64| format!("{ratio:.2}");
        let (enqueue, drain, memory) = (&self.enqueue, &self.drain, &self.memory);
        row([text("bulk enqueue"), per_s(enqueue.raw_per_s), per_s(enqueue.per_s), times(enqueue.ratio), text("≥ 0.50")]);
        row([text("drain"), per_s(drain.raw_per_s), per_s(drain.per_s), times(drain.ratio), text("≥ 0.80")]);
        let cpu = |us: f64| format!("{us:.2} µs");
        let ours = cpu(drain.redis_us_per_job);
        row([
            text("redis CPU per drained job"), cpu(drain.raw_redis_us_per_job), ours, times(drain.redis_cpu_ratio),
            text("≤ 1.20"),
        ]);
        if let Some(backlog) = &self.backlog {
            let none = String::new;
            row([text("drain, 2 million waiting"), none(), none(), times(backlog.drain_ratio_2m), text("≥ 0.80")]);
            let ratio = times(backlog.drain_ratio_1m_delayed);
            row([text("drain, 1 million delayed"), none(), none(), ratio, text("≥ 0.80")]);
        }
        let bytes = |bytes: f64| format!("{bytes:.0} B");
        let ours = bytes(memory.bytes_per_job);
        row([text("memory per waiting job"), bytes(memory.raw_bytes_per_job), ours, times(memory.ratio), text("≤ 1.20")]);
        let ms = |ms: f64| format!("{ms:.2} ms");
        let none = String::new;
        row([text("XADD to start, p50 at 500/s"), none(), ms(self.latency_ms.p50), none(), none()]);
        row([text("XADD to start, p99 at 500/s"), none(), ms(self.latency_ms.p99), none(), text("≤ 2 ms")]);
        row([text("promotion of 100,000 due at once"), none(), per_s(self.promotion.per_s), none(), none()]);
        row([text("promotion late, p99 at 200/s"), none(), ms(self.promotion.late_p99_ms), none(), text("≤ 20 ms")]);
        row([text("20,000 jobs that fail once"), none(), per_s(self.retry.per_s), none(), none()]);
        table.to_string()
    }
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
