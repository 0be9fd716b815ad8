//! A round of a way: a raw drain, and then the jobs of the way, so that a change in the machine's speed affects both.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use streamfleet_engine::JournalFields;

use super::explain::CommandStats;
use super::fleet::{Crowd, MeasuringHandler, Running};
use super::journal;
use super::measure::{Bench, STREAM, per_s};
use super::raw;
use super::tally::Tally;
use super::ways::Way;

/// What a number of jobs, or of raw entries, took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) per_s: f64,
    /// The CPU time of Redis.
    pub(super) redis_us_per_job: f64,
}

/// One round of a way.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) jobs: usize,
    pub(super) raw: Cost,
    pub(super) way: Cost,
    /// The CPU time of this process.
    pub(super) worker_us_per_job: f64,
    /// What Redis executed for the jobs of the way.
    pub(super) commands: CommandStats,
    pub(super) memory: WayMemory,
}

/// The memory that Redis needs for a job of a way, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct WayMemory {
    /// After its submission.
    pub(super) waiting: f64,
    /// After its end: records and letters.
    pub(super) kept: f64,
}

impl Round {
    /// Returns how fast the way was, compared with the raw drain.
    pub(super) fn ratio(&self) -> f64 {
        self.way.per_s / self.raw.per_s
    }
}

impl Bench {
    /// Measures a way in several rounds. Each drain starts on an empty server.
    pub(super) async fn way(&mut self, way: Way) -> Result<Vec<Round>> {
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            self.reset()?;
            let raw = self.raw_drain(way)?;
            self.reset()?;
            rounds.push(self.measure(way, raw, Crowd::default()).await?);
        }
        Ok(rounds)
    }

    /// Measures a way in one round, on top of what is in Redis now.
    pub(super) async fn round(&mut self, way: Way, crowd: Crowd) -> Result<Round> {
        let raw = self.raw_drain(way)?;
        self.measure(way, raw, crowd).await
    }

    /// Reads, acknowledges and deletes as many entries as the way has jobs; more if these are few, because a raw drain is
    /// fast.
    fn raw_drain(&mut self, way: Way) -> Result<Cost> {
        let jobs = way.jobs(self.jobs).max(self.jobs / 4);
        self.raw.enqueue(STREAM, jobs, &self.payload)?;
        let before = self.raw.cpu()?;
        let took = raw::drain(&self.server, STREAM, jobs)?;
        let redis_us_per_job = us_per_job(self.raw.cpu()? - before, jobs);
        Ok(Cost { per_s: per_s(jobs, took), redis_us_per_job })
    }

    /// Submits the jobs of the way, and waits until a fleet is done with them.
    async fn measure(&mut self, way: Way, raw: Cost, crowd: Crowd) -> Result<Round> {
        let (spec, jobs) = (way.spec(), way.jobs(self.jobs));
        let producer = self.producer().await?;
        let submissions = way.submissions(jobs, crowd.types, &self.payload)?;
        let (empty, mut before, begun) = (self.memory_used()?, self.usage()?, Instant::now());
        producer.submit_all(submissions).await?;
        let mut submitting = begun.elapsed();
        if !spec.includes_submission {
            (before, submitting) = (self.usage()?, Duration::ZERO);
        }
        let waiting = self.memory_used()?;
        let handler = MeasuringHandler::new(spec.behavior);
        let tally = Tally::new(spec.goal, jobs * spec.goals_per_job);
        let slots = spec.slots.min(self.concurrency);
        let queue = self.queue().await?;
        if way == Way::Journaled {
            queue.keep_journal(journal::MOST_BYTES, JournalFields::None).await?;
        }
        let running = Running::start(&self.server, (slots, crowd), &handler, &tally)?;
        let took = if way == Way::Journaled {
            journal::empty_while(&queue, tally.took()).await?
        } else {
            tally.took().await?
        };
        let took = submitting + took;
        let after = self.usage()?;
        running.stop().await;
        let per_job = |used: f64| ((used - empty) / jobs as f64).max(0.0);
        let memory = WayMemory { waiting: per_job(waiting), kept: per_job(self.memory_used()?) };
        let redis_us_per_job = us_per_job(after.redis_s - before.redis_s, jobs);
        Ok(Round {
            jobs,
            raw,
            way: Cost { per_s: per_s(jobs, took), redis_us_per_job },
            worker_us_per_job: us_per_job(after.worker_s - before.worker_s, jobs),
            commands: after.commands.since(&before.commands),
            memory,
        })
    }

    fn memory_used(&mut self) -> Result<f64> {
        self.raw.info("memory", "used_memory")
    }

    fn usage(&mut self) -> Result<Usage> {
        let commands = CommandStats::parse(&self.raw.section("commandstats")?);
        Ok(Usage { commands, redis_s: self.raw.cpu()?, worker_s: own_cpu() })
    }
}

/// What Redis and this process have done so far.
struct Usage {
    commands: CommandStats,
    redis_s: f64,
    worker_s: f64,
}

/// Returns the CPU time that this process has used, in seconds.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn us_per_job(seconds: f64, jobs: usize) -> f64 {
    seconds * 1e6 / jobs as f64
}
