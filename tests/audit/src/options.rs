//! The options of an audit.

use std::time::Duration;

/// The options of an audit. The same options produce the same jobs and the same plan of faults; the machine's timing differs.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// How many jobs to submit. The audit continues until all are submitted.
    pub jobs: u64,
    /// The time over which jobs and faults are spread.
    pub length: Duration,
    pub workers: usize,
    pub lease: Duration,
    pub dose: Dose,
    /// Additional environment variables for each worker.
    pub env: Vec<(String, String)>,
}

/// How often each fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dose {
    pub kills: usize,
    pub stops: usize,
    pub freezes: usize,
    pub redis_kills: usize,
    pub redis_freezes: usize,
    pub cuts: usize,
    pub holes: usize,
    pub lost_replies: usize,
    pub slow: usize,
    pub flushes: usize,
    pub clock_steps: usize,
}

impl Dose {
    /// No faults.
    pub const NONE: Self = Self {
        kills: 0,
        stops: 0,
        freezes: 0,
        redis_kills: 0,
        redis_freezes: 0,
        cuts: 0,
        holes: 0,
        lost_replies: 0,
        slow: 0,
        flushes: 0,
        clock_steps: 0,
    };

    /// A fault every second and a half.
    pub fn over(length: Duration) -> Self {
        let per_minute = |rate: f64| (rate * length.as_secs_f64() / 60.0).round().max(1.0) as usize;
        Self {
            kills: per_minute(8.0),
            stops: per_minute(6.0),
            freezes: per_minute(6.0),
            redis_kills: per_minute(2.0),
            redis_freezes: per_minute(3.0),
            cuts: per_minute(3.0),
            holes: per_minute(4.0),
            lost_replies: per_minute(7.0),
            slow: per_minute(1.0),
            flushes: per_minute(2.0),
            clock_steps: per_minute(2.0),
        }
    }
}
