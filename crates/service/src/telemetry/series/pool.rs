//! The series of the pools.

use metrics::{Counter, Gauge};
use rustc_hash::FxHashMap;

use super::Maker;
use crate::job::PoolName;
use crate::telemetry::catalogue::{self, PROGRAMS};
use streamfleet::event::PoolEnding;

/// The series of all pools of a process.
pub(in super::super) struct PoolSeries {
    by_pool: FxHashMap<PoolName, OnePool>,
}

struct OnePool {
    programs: [Gauge; PROGRAMS.len()],
    endings: [Counter; PoolEnding::ALL.len()],
    memory: Gauge,
}

impl PoolSeries {
    /// Creates series for these pools.
    pub(in super::super) fn new(maker: &Maker<'_>, pools: &[PoolName]) -> Self {
        let series = |pool: &PoolName| {
            let name = pool.as_str();
            let one = OnePool {
                programs: PROGRAMS.map(|state| maker.gauge(&catalogue::POOL_PROCESSES, &[name, state])),
                endings: PoolEnding::NAMES
                    .map(|reason| maker.counter(&catalogue::POOL_RESTARTS, &[name, reason])),
                memory: maker.gauge(&catalogue::POOL_MEMORY, &[name]),
            };
            (pool.clone(), one)
        };
        Self { by_pool: pools.iter().map(series).collect() }
    }

    /// Sets how many programs of a pool are busy, idle, starting and leaving, and their memory.
    pub(in super::super) fn set(&self, pool: &PoolName, programs: [usize; PROGRAMS.len()], memory: u64) {
        let Some(series) = self.by_pool.get(pool) else { return };
        for (gauge, count) in series.programs.iter().zip(programs) {
            gauge.set(count as f64);
        }
        series.memory.set(memory as f64);
    }

    /// Counts a program that ended this way.
    pub(in super::super) fn ended(&self, pool: &PoolName, ending: PoolEnding) {
        let Some(series) = self.by_pool.get(pool) else { return };
        if let Some(nth) = PoolEnding::ALL.iter().position(|one| *one == ending) {
            series.endings[nth].increment(1);
        }
    }
}
